"""Resolves paths in the configuration, independently of the working directory.

A relative path in a file is relative to the folder of the file; those of defaults and shipped profiles are relative to
`home()`. The environment and `--set` have no folder, so relative paths are refused there. Up to 0.1.0 all paths were
relative to the working directory: `check_old_place` refuses to start a second journal if such tables are still there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.config.definition import Definition
from controller.config.settings import DEFINITIONS, Settings
from controller.domain.errors import BallastError, ConfigError
from controller.process.paths import absolute, is_address, resolve_location


def resolve_paths(path: str, value: Any, origin: str, folder: Path | None) -> Any:
    """The value of a key with absolute paths, resolved against `folder`; without one, relative paths are refused."""

    def place(name: str, text: str) -> str:
        return resolve_location(text, folder) if folder is not None else absolute(text, f"{origin}: {name}")

    definition = DEFINITIONS[path]
    if definition.is_path and isinstance(value, str):
        return place(path, value)
    if definition.path_entries and isinstance(value, Mapping):
        return {n: place(f"{path}.{n}", v) if _is_place(definition, n, v) else v for n, v in value.items()}
    return value


def _is_place(definition: Definition, name: str, value: object) -> bool:
    return name in definition.path_entries and isinstance(value, str) and bool(value)


def check_no_query(place: str, named: str) -> None:
    """Raise ConfigError, without the value, for an address with a query part: some tools take credentials there."""
    if is_address(place) and "?" in place:
        raise ConfigError(
            f"{named} has a query part (from ? on), and configurations are shown and stored: leave it out; credentials "
            "belong in the environment (such as AWS_SECRET_ACCESS_KEY), the credentials file or the machine's role, "
            "what else the store needs to be told in tables.storage_options"
        )


def check_old_place(settings: Settings) -> None:
    """Raise ConfigError if there are tables of 0.1.0 where it looked, in the working directory, and none in the new
    place.

    A start would begin a second journal beside the existing one. Journals with an id are left alone: 0.1.0 gave none,
    and whoever starts beside the one of his own topics is refused, as these name it.
    """
    written = settings.written_path("tables.root")
    if written is None:
        return
    before, now = Path.cwd() / written, Path(settings.tables.root)
    if _has_journal(before) and not _has_journal(now) and not _has_id(before):
        raise ConfigError(
            f"tables.root = {written} ({settings.origin('tables.root')}) is {now} now, where no journal is, and was "
            f"{before} up to 0.1.0, where one is: if it is this cluster's, give tables.root = {before} (and "
            "tables.checkpoints), else start in another folder"
        )


def _has_journal(root: Path) -> bool:
    return (root / "journal" / "_delta_log").is_dir()


def _has_id(root: Path) -> bool:
    """Whether a version after 0.1.0 has started with this journal; False if that cannot be told."""
    from deltalake.exceptions import DeltaError  # and few starts look at tables that are not theirs

    from controller.ledger.repair.identity import find_journal_id
    from controller.ledger.tables import TableRoot

    try:
        return find_journal_id(TableRoot(root)) is not None
    except (BallastError, DeltaError, OSError, ValueError, KeyError):  # damaged, or another user's: nothing starts
        return False
