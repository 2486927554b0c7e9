"""Measures journal commits in an object store. `python -m benchmarks commit_in_store`

The store is the S3 server of the tests, a process of its own on loopback, which measures for how long it is at work:
requests at once count once, and waits for a key's lock do not. A commit has the entries of a usual batch. The same
commits to a folder show what the store adds.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.measure.figures import summary
from benchmarks.measure.object_store import new_root, served, storage_options
from benchmarks.measure.result import Result, Target
from controller.domain.entries import Entry, Kind
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot

COMMITS, ENTRIES, WARM_UP = 400, 20, 20
SERVED = "/_served"
TARGETS = [Target("in_store.commit_ms.p50", 60, "ms"), Target("in_store.commit_ms.p99", 250, "ms")]


def run(folder: Path, quick: bool = False) -> Result:
    """Commit to the store, then to a folder."""
    commits = 40 if quick else COMMITS
    with served(folder) as address:
        journal = _begin(TableRoot(new_root(), storage_options(address)))
        before = httpx.get(address + SERVED).json()
        in_store = _commit(journal, commits)
        after = httpx.get(address + SERVED).json()
    requests = after["requests"] - before["requests"]
    busy_ms = 1000 * (after["busy_s"] - before["busy_s"])
    in_folder = _commit(_begin(TableRoot(folder / "tables")), commits)
    figures: dict[str, Any] = {
        "commits": commits,
        "entries_a_commit": ENTRIES,
        "in_store": {
            "commit_ms": summary(in_store),
            "requests_a_commit": round(requests / commits, 2),
            "server_busy_ms_a_commit": round(busy_ms / commits, 2),
        },
        "in_folder": {"commit_ms": summary(in_folder)},
    }
    return Result("commit_in_store", figures, TARGETS)


def _begin(root: TableRoot) -> Journal:
    """A journal in which some commits were made: the first ones open connections."""
    root.create_all()
    journal = Journal(root)
    _commit(journal, WARM_UP)
    return journal


def _commit(journal: Journal, commits: int) -> list[float]:
    """The milliseconds of each."""
    found = []
    for _ in range(commits):
        first = journal.last_seq + 1
        entries = [
            Entry(seq, Kind.ALARM, "bench", first, 1_000 + seq, reason="bench") for seq in range(first, first + ENTRIES)
        ]
        began_s = time.perf_counter()
        journal.commit(entries, "bench", first)
        found.append(1000 * (time.perf_counter() - began_s))
    return found
