"""Where paths lead: never does what one means depend on the folder where one stands.

A relative path in a file belongs to that file's folder; a default's, and a shipped profile's, to `home()`. In the
environment and in `--set`, which belong to no place, a relative path is refused. Up to 0.1.0 all of them belonged to
the working directory: `check_old_place` keeps who has tables there from starting beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.config.definition import Definition
from controller.config.settings import DEFINITIONS, Settings
from controller.domain.errors import ConfigError
from controller.process.paths import absolute, located


def placed(path: str, value: Any, origin: str, folder: Path | None) -> Any:
    """A key's value with its paths absolute: below `folder`, or refused where there is none."""

    def place(name: str, text: str) -> str:
        return located(text, folder) if folder is not None else absolute(text, f"{origin}: {name}")

    definition = DEFINITIONS[path]
    if definition.is_path and isinstance(value, str):
        return place(path, value)
    if definition.path_entries and isinstance(value, Mapping):
        return {n: place(f"{path}.{n}", v) if _is_place(definition, n, v) else v for n, v in value.items()}
    return value


def _is_place(definition: Definition, name: str, value: object) -> bool:
    return name in definition.path_entries and isinstance(value, str) and bool(value)


def check_old_place(settings: Settings) -> None:
    """Raises ConfigError where tables lie in the working directory, which counted up to 0.1.0, and none where they
    belong now: a start would begin a second journal beside the living one."""
    written = settings.written("tables.root")
    if written is None:
        return
    before, now = Path.cwd() / written, Path(settings.tables.root)
    if _has_journal(before) and not _has_journal(now):
        raise ConfigError(
            f"tables.root = {written} ({settings.origin('tables.root')}) is {now} now, where no journal is, and was "
            f"{before} up to 0.1.0, where one is: give tables.root = {before} (and tables.checkpoints), or move that "
            f"folder to {now}"
        )


def _has_journal(root: Path) -> bool:
    return (root / "journal" / "_delta_log").is_dir()
