"""A quiet cluster: heartbeats, ticks and inventories that change nothing commit nothing, hour after hour."""

from __future__ import annotations

from pathlib import Path

from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.ledger.cleanup import ControlCleanup, Kept
from controller.ledger.maintenance import DAY_MS
from controller.ledger.tables import TableRoot
from schemas.catalog import TABLES
from tests.soak.one_controller import OneController

HOUR_S = 3_600


def test_an_hour_of_heartbeats_commits_nothing(tmp_path: Path) -> None:
    controller = OneController(tmp_path, brokers=4)
    try:
        bundles = own_everything(controller)
        assert len(bundles) == 8
        tables = TableRoot(controller.root)
        cleanup = ControlCleanup(tables, Kept(30 * DAY_MS, 400 * DAY_MS))
        controller.tables.stop_projecting(controller.state)
        before, seq = {name: tables.open(name).version() for name in TABLES}, controller.state.seq
        for second in range(HOUR_S):
            inventories = map(controller.inventory, controller.sessions) if second % 10 == 0 else ()
            controller.batch(*inventories)
            if second % 600 == 0:
                cleanup.run(second * 1_000)
        assert controller.state.seq == seq
        assert {name: tables.open(name).version() for name in TABLES} == before
        assert len(controller.state.sessions) == 4, "and every lease was renewed"
    finally:
        controller.stop()


def own_everything(controller: OneController) -> list[Bundle]:
    """A namespace whose eight bundles have all been looked up and are served."""
    controller.batch(controller.command("create_namespace", namespace="t/n", bundles=8))
    bundles = [record.bundle for record in controller.state.bundles.values()]
    controller.batch(*map(controller.lookup, bundles))
    granted = [r for r in controller.state.bundles.values() if r.state is State.ASSIGNING and r.to is not None]
    controller.batch(*(controller.says(r.to, "serving", r.bundle, r.epoch) for r in granted if r.to))
    assert all(r.state is State.OWNED for r in controller.state.bundles.values())
    return bundles
