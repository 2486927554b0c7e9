"""The soak in small: one controller, its brokers as records, agents that follow the table, for a quarter of a minute.

Moves go round as fast as they can while the clean-up runs beside them. Nothing may grow with what was journaled: files,
bytes, this process's memory, what a start has to read. Times are not asserted: the machine may be busy. Where a quarter
of a minute shows more of the clean-up's waves than of a trend, the run goes on: what really grows, grows on.
"""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

import controller.ledger.cleanup as cleanup_module
from controller.domain.ownership import State
from controller.ledger.cleanup import CleanupThread, ControlCleanup, Kept
from controller.ledger.follower import Follower
from controller.ledger.maintenance import DAY_MS
from controller.ledger.snapshots import Snapshots, load_state
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from tests.soak.one_controller import OneController
from tests.soak.samples import Samples, files_of, rss_mib
from tests.soak.test_quiet import own_everything

RUN_S = 15
LONGEST_S = 90
FEWEST_SAMPLES = 20
SETTLED_S = 4  # log and dead files are kept for three seconds here
CONTROL = ("journal", "ownership", "brokers", "control_state")


@pytest.mark.timeout(400)
@pytest.mark.thorough
def test_nothing_grows_with_what_was_journaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup_module, "FEWEST_FILES", 16)
    monkeypatch.setattr(cleanup_module, "FIRST_PASS_S", 0.5)
    controller = OneController(tmp_path, brokers=4, snapshot_every=100)
    tables = TableRoot(controller.root)
    hasten(tables, 3)
    cleaner = CleanupThread(ControlCleanup(tables, Kept(30 * DAY_MS, 400 * DAY_MS)), 0.5, wall_ms)
    agents = [Follower(controller.root) for _ in range(3)]
    samples = Samples()
    try:
        own_everything(controller)
        for agent in agents:
            agent.bootstrap()
        cleaner.start()
        begun = time.monotonic()
        while (passed_s := time.monotonic() - begun) < RUN_S or (passed_s < LONGEST_S and not bounded(samples)):
            unload_one(controller)
            for agent in agents:
                agent.catch_up()
            if passed_s > SETTLED_S:
                sample(samples, controller, tables)
    finally:
        cleaner.stop()
        controller.stop()
    for agent in agents:
        agent.catch_up()
        assert agent.state == controller.state == load_state(tables)
    assert bounded(samples), samples.document()
    newest = Snapshots(tables).latest()
    assert newest is not None
    assert controller.state.seq - newest.seq <= 100, "a start folds the rest only"


def bounded(samples: Samples) -> bool:
    """Whether there are enough samples to say so, and neither disk nor memory follows what was done."""
    if "seq" not in samples.series or len(samples.series["seq"].values) <= FEWEST_SAMPLES:
        return False
    return not samples.following("seq", 0.5, ["files", "bytes"]) and not samples.growing(0.1, ["rss_mib"])


def hasten(tables: TableRoot, kept_s: int) -> None:
    """What is kept for minutes is kept for seconds."""
    kept = f"interval {kept_s} seconds"
    short = dict.fromkeys(("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"), kept)
    for name in CONTROL:
        tables.open(name).alter.set_table_properties({**short, "delta.checkpointInterval": "10"})


def unload_one(controller: OneController) -> None:
    """One bundle moves to the next broker: a command and the three answers of a hand-over, a batch each."""
    record = min(controller.state.bundles.values(), key=lambda r: r.seq)
    owners = [s.broker for s in controller.sessions]
    assert record.by is not None
    target = owners[(owners.index(record.by.broker) + 1) % len(owners)]
    controller.batch(controller.command("unload_bundle", bundle=str(record.bundle), to=target), after_ms=200)
    for kind in ("accepted", "released", "serving"):
        moving = controller.state.bundles[str(record.bundle)]
        who = moving.by if kind == "released" else moving.to
        assert who is not None
        controller.batch(controller.says(who, kind, record.bundle, moving.epoch), after_ms=200)
    assert controller.state.bundles[str(record.bundle)].state is State.OWNED


def sample(samples: Samples, controller: OneController, tables: TableRoot) -> None:
    """How full the disk and this process are."""
    seq = controller.state.seq
    files, size = files_of(Path(tables.root))
    samples.add("seq", seq, seq)
    samples.add("files", seq, files)
    samples.add("bytes", seq, size)
    samples.add("rss_mib", seq, rss_mib(psutil.Process()))
