"""Files with secrets of local clusters: only their owner can read them, from the first byte on."""

from __future__ import annotations

import os
from pathlib import Path


def write_secret(file: Path, content: bytes) -> None:
    """Write a file of mode 0600, complete or not at all."""
    temporary = file.with_name(f".{file.name}.new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    temporary.rename(file)


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
