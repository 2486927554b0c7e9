"""The journal of a Pulsar cluster that is driven: an order that ended, one that is open, a broker not adopted."""

from __future__ import annotations

from dataclasses import replace

from controller.domain.entries import Entry, Kind
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from tests.unit.control.observed_driver import BUNDLES, ObservedDriver, observed_driver


def drive() -> ObservedDriver:
    """What happened."""
    driver = observed_driver()
    driver.tell("a:1", "fact", key="leader", value={"broker": "a:1"})
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="b:1")
    driver.end_order(BUNDLES[0], "moved", owner="b:1")
    driver.command("unload_bundle", bundle=str(BUNDLES[1]), to="c:1")
    driver.configure("c:1", shedding=True)
    return driver


def write_driven(root: TableRoot) -> None:
    """The tables of it, new, with entries of just now."""
    root.create_all()
    entries = [Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0), *drive().journal]
    Journal(root).commit([replace(entry, at_ms=wall_ms()) for entry in entries], "i", 0)
