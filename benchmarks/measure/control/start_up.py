"""Measures starts on a journal of 1,000,000 entries: the controller until its first batch, an agent's bootstrap.

Each start is measured in a fresh process, with the code of job and agent, base snapshots and some
thousand entries after the newest one: merged, as the clean-up leaves them, and in a file a commit, as after a night
without clean-up. One more process folds everything from the first entry, as if no snapshot could be read.
The whole job with its JVM is measured once on that journal and once on an empty one. `--quick` uses 20,000 entries.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from prometheus_client import CollectorRegistry

from benchmarks.measure.control.long_journal import ENTRIES_A_MOVE, LongJournal
from benchmarks.measure.result import Result, Target
from controller.agent.records import heartbeat
from controller.bus.topics import TopicNames
from controller.config.policy_values import control_settings
from controller.config.sections.platform import Tables
from controller.config.settings import Settings
from controller.ledger.cleanup import ControlCleanup, Kept
from controller.ledger.follower import Follower
from controller.ledger.snapshots import Snapshots, load_state
from controller.ledger.tables import TableRoot
from controller.process.clock import boot_ms, wall_ms
from controller.service.feed import Feed
from controller.service.loop import Claim, Clocks, ControlLoop
from controller.service.metrics import ControlMetrics
from controller.service.records import Row
from controller.service.start import claim, first_entries, last_entries
from controller.service.tables import ControlTables
from controller.testbed.local_cluster import LocalCluster

ENTRIES, QUICK_ENTRIES = 1_000_000, 20_000
TAIL_ENTRIES = 5_000  # beyond the newest snapshot: control.snapshot_every_entries
REPEATS = 3
YEARS_MS = 10 * 365 * 86_400_000
NAMES = TopicNames("")


def run(folder: Path, quick: bool) -> Result:
    """Generate the journal and measure every start."""
    entries = QUICK_ENTRIES if quick else ENTRIES
    root = TableRoot(folder / "tables")
    root.create_all()
    journal = LongJournal()
    bulk = journal.moves_for(entries - TAIL_ENTRIES)
    journal.write(root, bulk)
    figures: dict[str, Any] = {"entries": entries, "tail_entries": TAIL_ENTRIES}
    figures["fold_everything"] = measure_start(root, "fold")
    Snapshots(root).save(load_state(root), wall_ms())
    newest = journal.go_on(root, bulk, bulk + TAIL_ENTRIES // ENTRIES_A_MOVE)
    figures["file_a_commit"] = {name: _median(root, name) for name in ("agent", "controller")}
    ControlCleanup(root, Kept(YEARS_MS, YEARS_MS)).run(wall_ms())
    figures["merged"] = {name: _median(root, name) for name in ("agent", "controller")}
    figures["job_to_first_answer_s"] = {"long": whole_job(folder), "empty": whole_job(folder / "empty")}
    files = [p for p in Path(root.uri("journal")).rglob("*") if p.is_file()]
    figures["journal"] = {"files": len(files), "mib": round(sum(p.stat().st_size for p in files) / 2**20, 1)}
    targets = [
        Target(f"{layout}.{name}.seconds", limit, "s")
        for layout in ("merged", "file_a_commit")
        for name, limit in (("controller", 15.0), ("agent", 3.0))
    ]
    targets.append(Target("job_to_first_answer_s.long", 15.0, "s"))
    broken = [] if newest >= entries else [f"the journal ends at {newest}, not at {entries}"]
    return Result("start_up", figures, targets, broken)


def _median(root: TableRoot, what: str) -> dict[str, float]:
    runs = sorted((measure_start(root, what) for _ in range(REPEATS)), key=lambda figures: figures["seconds"])
    return runs[len(runs) // 2]


def measure_start(root: TableRoot, what: str) -> dict[str, float]:
    """Start a fresh process; return its seconds, without those of the interpreter, and its resident memory."""
    command = [sys.executable, "-m", "benchmarks.measure.control.start_up", what, root.root]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def whole_job(folder: Path) -> float:
    """Seconds from `ballast run` with its JVM to the first command answered, on the same tables."""
    with LocalCluster(folder, profile="local") as cluster:
        cluster.start_kafka_and_store()
        began = time.monotonic()
        cluster.start_job(only="control")
        cluster.command("create_namespace", timeout_s=180, namespace=f"bench/n{wall_ms()}", bundles=1)
        return round(time.monotonic() - began, 2)


# ------------------------------------------------------------ what the processes do


def start_agent(root: str) -> Callable[[], int]:
    """What an agent's watcher does before the agent serves."""
    follower = Follower(root)
    follower.bootstrap()
    follower.state.copy()
    return lambda: follower.seq


def fold_everything(root: str) -> Callable[[], int]:
    """A start without a snapshot."""
    state = load_state(root)
    return lambda: state.seq


def start_controller(root: str) -> Callable[[], int]:
    """What `ControlRunner.start` does with the tables, then a batch with one heartbeat; afterwards it stops cleanly."""
    settings = Settings(tables=Tables(root=root))
    metrics, control = ControlMetrics(CollectorRegistry()), control_settings(settings)
    instance = f"bench-{wall_ms()}"
    tables = ControlTables(root, instance, settings, metrics, threading.Event())
    state = tables.load_state()
    journal_id = state.journal_id or instance
    entries = first_entries(state, instance, wall_ms(), control, {}, journal_id)  # no Kafka: the job's is still unknown
    state = claim(state, entries, tables.commit)
    tables.record_config(wall_ms())
    held = Claim(instance, state, {})
    loop = ControlLoop(held, tables, _Silent(), NAMES, control, Clocks(boot_ms, wall_ms), metrics)
    session = next(iter(state.sessions))
    record = json.dumps(heartbeat(session, state.seq, wall_ms(), {})).encode()
    loop.process(lambda: [Row(NAMES.heartbeats, 0, 0, wall_ms(), record)], 0)

    def finish() -> int:
        tables.commit(last_entries(loop.state, instance, 1, wall_ms(), {}, {}))
        return loop.state.seq + 1

    return finish


class _Silent(Feed):
    """A feed without Kafka."""

    def __init__(self) -> None:
        """No producer."""

    def publish(self, entries: object) -> None:
        """Nobody listens."""


# Each returns what to do after the measurement; that returns the seq of the journal.
STARTS: dict[str, Callable[[str], Callable[[], int]]] = {
    "agent": start_agent, "controller": start_controller, "fold": fold_everything,
}  # fmt: skip


def main(what: str, root: str) -> None:
    """Measure one start in this process and print it."""
    began = time.perf_counter()
    finish = STARTS[what](root)
    seconds = time.perf_counter() - began
    rss_mib = psutil.Process().memory_info().rss / 2**20
    print(json.dumps({"seconds": round(seconds, 3), "rss_mib": round(rss_mib), "seq": finish()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
