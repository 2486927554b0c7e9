"""A real journal for ledger tests: some batches of the real step, and a way to commit them."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from controller.domain.entries import Entry, Kind, UnknownKind
from controller.domain.ids import Bundle
from controller.domain.state import ClusterState
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from tests.unit.control.step_driver import StepDriver


class History:
    """Two brokers, four bundles, transfers between them, a split and a lost session; grouped into batches."""

    def __init__(self) -> None:
        driver = StepDriver()
        driver.join("a:1", lookup_url="http://a:1", capacity={"msg_rate": 100})
        driver.join("b:1", incarnation=2)
        driver.command("create_namespace", namespace="t/n", bundles=4)
        bundles = sorted(map(Bundle.parse, driver.state.bundles))
        for bundle in bundles:
            driver.own(driver.sessions["a:1"], bundle)
        for bundle in bundles[:2]:
            driver.own(driver.sessions["b:1"], bundle)
        driver.command("split_bundle", bundle=str(bundles[3]))
        driver.say(driver.sessions["a:1"], "split_done", bundles[3])
        driver.command("drain", broker="b:1")
        driver.silent.add("b:1")
        driver.wait(8_000, step_ms=2_000)
        self.state: ClusterState = driver.state
        self.entries = [Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0), *driver.journal]
        self.batches = [list(group) for _, group in groupby(self.entries, key=lambda e: e.batch)]

    def commit(self, journal: Journal, start: int = 0, stop: int | None = None) -> None:
        """Commit batches [start, stop)."""
        for batch in self.batches[start:stop]:
            journal.commit(batch, "i", batch[0].batch)


def compact(root: TableRoot, name: str = "journal") -> None:
    """OPTIMIZE by another handle: a commit that changes no data."""
    root.open(name).optimize.compact()


def vacuum(root: TableRoot, name: str = "journal") -> None:
    """Remove every file that the newest version does not name."""
    root.open(name).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def by(entry: Entry, instance: str, seq: int | None = None) -> Entry:
    """The entry as another instance would have written it."""
    row = entry.to_row() | {"instance": instance} | ({"seq": seq} if seq is not None else {})
    return Entry.from_row(row)


def interleaved(entries: list[Entry], kind: Kind | UnknownKind, every: int = 3) -> list[Entry]:
    """The entries with one of that kind after each `every` of them, numbered anew."""
    result: list[Entry] = []
    for number, entry in enumerate(entries, start=1):
        result.append(replace(entry, seq=len(result) + 1))
        if number % every == 0:
            result.append(replace(entry, seq=len(result) + 1, kind=kind, data={"what": number}))
    return result
