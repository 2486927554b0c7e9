"""Hashed names of tenants and namespaces in a recording. Ranges, numbers and broker ids stay as they are.

The same name has the same hash in all recordings with one key, so a recording can be continued; nobody without the key
can find out a name by trying. The key is a file beside the recording that is not to be handed out with it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from functools import lru_cache
from pathlib import Path
from typing import Any

from controller.domain.errors import ConfigError

KEY_SUFFIX = ".key"
_KEY_BYTES = 32
_DIGITS = 12


class NameHasher:
    """Hashes the names in lines of a recording."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._hash = lru_cache(maxsize=100_000)(self._compute)

    @classmethod
    def beside(cls, recording: Path) -> NameHasher:
        """With the key beside the recording, made if there is none. Raises ConfigError if it cannot be used."""
        path = recording.with_name(recording.name + KEY_SUFFIX)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass
        except OSError as error:
            raise ConfigError(f"{path} cannot be written ({error.strerror}): name another --out") from None
        else:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(_KEY_BYTES) + "\n")
        try:
            key = bytes.fromhex(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            key = b""
        if len(key) != _KEY_BYTES:
            raise ConfigError(f"{path} is no key of hashed names: restore it, or record to another --out")
        return cls(key)

    def bundle(self, name: str) -> str:
        """`tenant/namespace/range` with tenant and namespace hashed."""
        tenant, namespace, range_ = name.split("/", 2)
        return f"{self._hash('t', tenant)}/{self._hash('n', f'{tenant}/{namespace}')}/{range_}"

    def line(self, line: dict[str, Any]) -> dict[str, Any]:
        """The line with hashed names; what a gap says may name a namespace and is left out."""
        if "report" not in line:
            return {**line, "hashed": True, "detail": ""}
        report = line["report"]
        stats = {self.bundle(name): row for name, row in report["lastStats"].items()}
        return {**line, "hashed": True, "report": {**report, "bundles": list(stats), "lastStats": stats}}

    def _compute(self, kind: str, name: str) -> str:
        return kind + hmac.new(self._key, f"{kind}:{name}".encode(), hashlib.sha256).hexdigest()[:_DIGITS]
