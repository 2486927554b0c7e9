"""Writes a slice of a cluster's tables as tables of their own, beside a configuration file that names them.

`replay`, `explain`, `plan`, `backtest`, the page and notebooks read them like a cluster's. Nothing is written to the
cluster. The order of writes is that of a controller, so that a slice that broke off has evidence without journal, which
counts for nothing.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

import controller
from controller.config.settings import Settings
from controller.domain.errors import BallastError, ConfigError
from controller.ledger.append import append
from controller.ledger.projections import Projections
from controller.ledger.snapshots import Snapshots
from controller.ledger.store.room import NoRoom
from controller.ledger.tables import TableRoot
from controller.operations.capture.about import TABLES_FOLDER, write_about
from controller.operations.capture.config_file import config_text
from controller.operations.capture.hashing import Hashing, hashing_of
from controller.operations.capture.slice import Slice, read_evidence, read_loads, read_rounds, read_slice
from controller.operations.reading import Reader
from controller.process.paths import make_folder
from schemas.catalog import TABLES

CONFIG = "ballast.yaml"
APP = "capture"
HASHED_CLUSTER = "captured"
Rewrite = Callable[[str, pa.Table], pa.Table]


def capture(settings: Settings, folder: Path, since_ms: int, until_ms: int, hash_names: bool) -> dict[str, Any]:
    """Write the slice between two wall-clock times into a new folder; returns what `capture.json` says of it.

    Raises ConfigError for a folder that is in use, or names that cannot be hashed; BallastError for an empty slice.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is not empty: give a folder that is new")
    reader = Reader(settings)
    of = read_slice(reader, since_ms, until_ms)
    loads = read_loads(reader, of, reader.window_ms)
    hashing = hashing_of(of, read_rounds(reader, of), loads) if hash_names else None
    with _filling(folder):
        return _write(settings, folder, reader, of, hashing)


@contextmanager
def _filling(folder: Path) -> Iterator[None]:
    """Write the slice within. Raises BallastError for a full disk: only the folder of the command line is written."""
    try:
        yield
    except NoRoom as full:
        what = full.what or str(full)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        what = f"no room for the slice in {folder}: {error.strerror}"
    else:
        return
    raise BallastError(f"{what}; remove {folder}, and make room there or give a folder of another disk")


def _write(settings: Settings, folder: Path, reader: Reader, of: Slice, hashing: Hashing | None) -> dict[str, Any]:
    make_folder(folder)
    writer = _Writer(TableRoot(folder / TABLES_FOLDER))
    for name, rows in _loads(reader, of, hashing):
        writer.add(name, rows)
    rounds = _write_evidence(writer, reader, of, hashing)
    _write_rest(writer, reader, of, hashing)
    _write_state(writer, of, hashing)
    cluster = HASHED_CLUSTER if hashing else settings.cluster.name
    text = config_text(reader, settings, of.until_ms, cluster)
    (folder / CONFIG).write_text(_with_aliases(text, hashing), encoding="utf-8")
    about = {
        "v": 1,
        "captured_by": controller.__version__,
        "cluster": cluster,
        "since_ms": of.since_ms,
        "until_ms": of.until_ms,
        "first_seq": int(pc.min(of.entries["seq"]).as_py()),
        "last_seq": int(pc.max(of.entries["seq"]).as_py()),
        "names_hashed": hashing is not None,
        "rounds": rounds,
        "rounds_unlike": hashing.unlike if hashing else [],
        "rows": dict(writer.rows),
    }
    write_about(folder, about)
    return about


class _Writer:
    """Appends to the tables of a slice."""

    def __init__(self, root: TableRoot) -> None:
        self.root = root
        self.rows: Counter[str] = Counter()
        self._commits = 0
        root.create_all()

    def add(self, name: str, rows: pa.Table) -> None:
        """One commit; none for no rows."""
        self._commits += 1
        append(self.root, name, rows, APP, self._commits)
        self.rows[name] += rows.num_rows


def _loads(reader: Reader, of: Slice, hashing: Hashing | None) -> Iterator[tuple[str, pa.Table]]:
    for name, rows in read_loads(reader, of, reader.window_ms):
        yield name, hashing.table(name, rows) if hashing else rows


def _write_evidence(writer: _Writer, reader: Reader, of: Slice, hashing: Hashing | None) -> int:
    """Decisions, scores and rounds; returns the number of rounds."""
    found = dict(read_evidence(reader, of))
    if hashing:
        found = {name: hashing.table(name, rows) for name, rows in found.items()}
    for name, rows in found.items():
        writer.add(name, rows)
    for rows in read_rounds(reader, of):
        writer.add("rounds", hashing.rounds(rows, found["decisions"]) if hashing else rows)
    return int(of.rounds.num_rows)


def _write_rest(writer: _Writer, reader: Reader, of: Slice, hashing: Hashing | None) -> None:
    """Quarantine; without hashed names also configurations, which hold addresses, and the usage model, if it is that
    of the slice's end."""
    bad = reader.rows("quarantine", "detected_ms", of.since_ms - 1, of.until_ms, TABLES["quarantine"].names)
    writer.add("quarantine", hashing.table("quarantine", bad) if hashing else bad)
    if hashing:
        return
    ran = reader.rows("config_history", "at_ms", -1, of.until_ms, TABLES["config_history"].names)
    writer.add("config_history", ran)
    usage = reader.rows("usage_model", "at_ms", -1, None, TABLES["usage_model"].names)
    if usage.num_rows and pc.max(usage["at_ms"]).as_py() <= of.after.round_at_ms:
        writer.add("usage_model", usage)


def _write_state(writer: _Writer, of: Slice, hashing: Hashing | None) -> None:
    """The journal's part, the states at both ends, and the projections."""
    writer.add("journal", hashing.table("journal", of.entries) if hashing else of.entries)
    snapshots = Snapshots(writer.root)
    for state, at_ms in ((of.before, of.since_ms), (of.after, of.until_ms)):
        if state is not None and state.seq:
            snapshots.save(hashing.state(state) if hashing else state, at_ms)
    Projections(writer.root).write(hashing.state(of.after) if hashing else of.after)


def _with_aliases(text: str, hashing: Hashing | None) -> str:
    """The configuration with aliases in place of namespaces."""
    if hashing is None:
        return text
    head, _, body = text.partition("\n")
    return f"{head}\n{yaml.safe_dump(hashing.settings(yaml.safe_load(body)), sort_keys=False)}"
