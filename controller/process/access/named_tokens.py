"""The file of people who may act over HTTP: a line `name: hash` each. Only hashes are kept, so nobody can read a token.

The hash is SHA-256, in hex, of a token that `new_token` drew: 256 random bits cannot be guessed, so they need no slow
hash. Lines that begin with `#` are comments. The file is read again when it changes: who is taken out of it may do
nothing from the next request on, also if other lines are wrong, or nobody is left. What is wrong is logged once. Only
while the file cannot be read at all the last names stay in force.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from pathlib import Path

from controller.domain.errors import ConfigError
from controller.process.access.tokens import MOST_SECRET_BYTES, SecretUnusable, Stamp, is_token, stamp_of

log = logging.getLogger(__name__)

_LINE = re.compile(r"^([\w.@+-]{1,64})\s*:\s*([0-9a-fA-F]{64})$")
_NAME = re.compile(r"[\w.@+-]{1,64}")
Named = tuple[tuple[str, bytes], ...]


def new_token(name: str) -> tuple[str, str]:
    """A token for this person, and the line for the file. Raises ConfigError for a name that no line may have."""
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"{name!r} cannot be a name: give 1 to 64 letters, digits, or any of . _ @ + -")
    token = secrets.token_hex(32)
    return token, f"{name}: {_digest(token).hex()}"


class NamedTokens:
    """Whose token is it? Always by what the file says now."""

    def __init__(self, path: Path, named: str = "") -> None:
        """`named`: the setting with its value, for messages. Raises ConfigError if the file is of no use now."""
        self._path, self._named = path, named or f"token file {path}"
        try:
            self._stamp, self._people, wrong = _load(path)
            if wrong:
                raise SecretUnusable(wrong)
        except (OSError, SecretUnusable) as error:
            raise ConfigError(
                f"{_reason(self._named, error)}; `ballast ui --new-token NAME` makes a line for it"
            ) from None
        self._failing = False

    def name_of(self, token: str) -> str | None:
        """The name of the person with this token; None for any other text. The time it takes tells nothing."""
        self._refresh()
        given, found = _digest(token) if is_token(token) else b"", None
        for name, digest in self._people:
            if hmac.compare_digest(given, digest):
                found = name
        return found

    def _refresh(self) -> None:
        try:
            if self._failing or stamp_of(self._path) != self._stamp:
                self._stamp, self._people, wrong = _load(self._path)
                self._failing = False
                if wrong:
                    log.warning("%s: %s; its other lines are in force", self._named, wrong)
        except (OSError, SecretUnusable) as error:
            if not self._failing:
                log.warning("%s; the last names stay in force", _reason(self._named, error))
            self._failing = True


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _load(path: Path) -> tuple[Stamp, Named, str]:
    """Its people, and what is wrong with the file, if anything is. Raises OSError or SecretUnusable if it cannot be
    read. The stamp is taken first, so that a change while the file is read is noticed the next time."""
    stamp = stamp_of(path)
    with path.open("rb") as file:
        text = file.read(MOST_SECRET_BYTES + 1)
    if len(text) > MOST_SECRET_BYTES:
        raise SecretUnusable(f"it is larger than {MOST_SECRET_BYTES} bytes")
    lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines()]
    people = [(n, match) for n, line in enumerate(lines, 1) if line and not line.startswith("#")
              for match in [_LINE.match(line)]]  # fmt: skip
    bad = next((number for number, match in people if match is None), None)
    wrong = f"line {bad} is not `name: hash`" if bad else "" if people else "it names nobody"
    return stamp, tuple((match[1], bytes.fromhex(match[2])) for _, match in people if match is not None), wrong


def _reason(named: str, error: Exception) -> str:
    return f"{named} cannot be used: {getattr(error, 'strerror', None) or error}"
