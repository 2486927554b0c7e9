"""Files that hold secrets, and the file of bearer tokens that servers accept and clients send.

A file has one token a line. A server accepts each of them, a client sends the first: so a token can be replaced while
both are accepted. The file is read again when it changes. If it becomes unusable, the last tokens stay in use and one
warning is logged. Messages name the file, never its contents.
"""

from __future__ import annotations

import hmac
import logging
import stat
from pathlib import Path

from controller.domain.errors import ConfigError

log = logging.getLogger(__name__)

MOST_SECRET_BYTES = 65_536
Stamp = tuple[int, int, int]


class SecretUnusable(ValueError):
    """Raised when a file does not hold what it should; the message quotes nothing of it."""


def is_token(text: str) -> bool:
    """Whether a text is one word of printable ASCII."""
    return 0 < len(text) <= MOST_SECRET_BYTES and text.isascii() and text.isprintable() and " " not in text


def stamp_of(path: Path) -> Stamp:
    """Changes whenever the file does. Raises OSError."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_words(path: Path) -> list[str]:
    """The lines of a secret file, at least one, each one word. Raises OSError and SecretUnusable."""
    with path.open("rb") as file:
        text = file.read(MOST_SECRET_BYTES + 1)
    words = [line.strip() for line in text.decode("ascii", "replace").splitlines() if line.strip()]
    if len(text) > MOST_SECRET_BYTES or not words or not all(map(is_token, words)):
        raise SecretUnusable("it does not hold one word of printable ASCII a line")
    return words


class TokenFile:
    """The tokens in a file, always those that it holds now."""

    def __init__(self, path: Path, named: str = "") -> None:
        """`named`: the setting with its value, for messages. Raises ConfigError if there is no usable token now."""
        self._path, self._named = path, named or f"token file {path}"
        self._stamp, self._tokens = _read(path, self._named)
        self._failing = False

    def warn_if_shared(self) -> None:
        """Log one line if others can read the file. For whoever uses the tokens, once."""
        warn_if_shared(self._path, self._named)

    def accepts(self, given: bytes) -> bool:
        """Whether this is one of the tokens. The time it takes says nothing about them."""
        self._refresh()
        found = False
        for token in self._tokens:
            found |= hmac.compare_digest(given, token)
        return found

    def header(self) -> str:
        """What a client sends as `Authorization`."""
        self._refresh()
        return f"Bearer {self._tokens[0].decode()}"

    def _refresh(self) -> None:
        try:
            if self._failing or stamp_of(self._path) != self._stamp:
                self._stamp, self._tokens = _load(self._path)
                self._failing = False
        except (OSError, SecretUnusable) as error:
            if not self._failing:
                log.warning("%s; the last token stays in use", _reason(self._named, error))
            self._failing = True


def warn_if_shared(path: Path, named: str) -> None:
    """Log one line if others than its owner can read a secret file. `named`: what it is, for the line."""
    if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        log.warning("%s can be read by others than its owner: chmod 600 %s", named, path)


def _load(path: Path) -> tuple[Stamp, tuple[bytes, ...]]:
    """The stamp is taken first, so that a change while the file is read is noticed the next time."""
    stamp = stamp_of(path)
    return stamp, tuple(word.encode() for word in read_words(path))


def _read(path: Path, named: str) -> tuple[Stamp, tuple[bytes, ...]]:
    try:
        return _load(path)
    except (OSError, SecretUnusable) as error:
        raise ConfigError(f"{_reason(named, error)}; put a token into it, alone on its line") from None


def _reason(named: str, error: Exception) -> str:
    return f"{named} cannot be used: {getattr(error, 'strerror', None) or error}"
