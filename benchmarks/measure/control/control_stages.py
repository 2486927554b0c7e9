"""Measures where the milliseconds of the control path go. `python -m benchmarks control_stages`

The job runs in this process with a clock around every stage: Spark's (offsets, planning, write-ahead log, commit log,
from its progress reports) and ours (collect, parse, step, commit, feed, projections). Results are by batch, separately
for batches that commit to the journal, and by event, from sending to application (`latency_chain`). Events and load are
those of `control_latency`, and in one more scenario the heartbeats of 500 brokers.
"""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from benchmarks.measure.control.control_latency import NAMESPACE, Options, ask
from benchmarks.measure.control.latency_chain import Batch, Chains
from benchmarks.measure.control.latency_chain import profile as chain_profile
from benchmarks.measure.figures import percentile, summary
from benchmarks.measure.loads.loaded import Load, start_fleet
from benchmarks.measure.result import NotMeasured, Result
from controller.process.spark_submit import spark_environment
from controller.testbed.local_cluster import LocalCluster

SPARK_STAGES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "commitOffsets")
OUR_STAGES = ("collect", "parse", "step", "evidence", "commit", "feed", "project")
PROGRESS_S = 1.0
MOMENTS = {"collect": ("collecting", "collected"), "commit": ("committing", "committed")}
QUIET_S = 3_600.0  # between two reports of a broker that only beats


@dataclass
class Stages:
    """Milliseconds by batch id and stage. The query's thread writes our stages, the polling thread Spark's."""

    batches: dict[int, dict[str, float]] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    current: dict[str, float] = field(default_factory=dict)
    chains: Chains = field(default_factory=Chains)
    chain: Batch = field(default_factory=Batch)  # of the running batch
    batch_id: int = -1

    def time_call(self, stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a call so that its milliseconds are added to the stage of the running batch."""

        @functools.wraps(call)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            begins, ends = MOMENTS.get(stage, (None, None))
            if begins is not None:
                setattr(self.chain, begins, time.time() * 1000)
            try:
                return call(*args, **kwargs)
            finally:
                self.current[stage] = self.current.get(stage, 0.0) + (time.perf_counter() - began) * 1000
                if ends is not None:
                    setattr(self.chain, ends, time.time() * 1000)

        return wrapper

    def note_commands(self, parse: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `parse_rows` to note which batch reads which command, and when Kafka appended it."""

        @functools.wraps(parse)
        def wrapper(rows: Any, *args: Any) -> Any:
            for row in rows:
                if row.topic.endswith("commands"):
                    event = self.chains.event(str(json.loads(row.value)["id"]))
                    event.appended, event.batch = float(row.timestamp_ms), self.batch_id
            return parse(rows, *args)

        return wrapper

    def batch(self, process: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `ControlLoop.process`, which encloses the stages of one batch."""

        @functools.wraps(process)
        def wrapper(loop: Any, collect: Callable[[], Any], batch_id: int) -> Any:
            self.current, self.batch_id = {}, batch_id
            self.chain = self.chains.batches.setdefault(batch_id, Batch())
            began = time.perf_counter()
            result = process(loop, self.time_call("collect", collect), batch_id)
            found = dict(self.current)
            found["python"] = (time.perf_counter() - began) * 1000
            self.batches.setdefault(batch_id, {}).update(found)
            if "commit" in found:
                self.committed.add(batch_id)
            return result

        return wrapper

    def progress(self, report: Any) -> None:
        """Add Spark's stages of one batch."""
        durations = report["durationMs"]
        found = {name: float(durations[name]) for name in SPARK_STAGES if name in durations}
        found["trigger"] = float(durations["triggerExecution"])
        found["addBatch"] = float(durations.get("addBatch", 0.0))
        self.batches.setdefault(int(report["batchId"]), {}).update(found)
        began = datetime.fromisoformat(str(report["timestamp"]).replace("Z", "+00:00"))
        self.chains.batches.setdefault(int(report["batchId"]), Batch()).triggered = began.timestamp() * 1000


def table(batches: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Stage -> p50, p90 and mean in ms, over batches that have both Spark's and our stages.

    `callback` is the time of addBatch outside our Python: Spark's planning of the batch and the calls to Python and
    back. `other` is the time of the trigger outside all named stages.
    """
    whole = [dict(b) for b in batches if "trigger" in b and "python" in b]
    if not whole:
        return {}
    for b in whole:
        b["bookkeeping"] = b["python"] - sum(b.get(name, 0.0) for name in OUR_STAGES)
        b["callback"] = b["addBatch"] - b["python"]
        b["other"] = b["trigger"] - b["addBatch"] - sum(b.get(name, 0.0) for name in SPARK_STAGES)
    names = (*SPARK_STAGES, "callback", *OUR_STAGES, "bookkeeping", "other", "trigger")
    rows = {}
    for name in names:
        values = [b.get(name, 0.0) for b in whole]
        rows[name] = {
            "p50": round(percentile(values, 50), 1),
            "p90": round(percentile(values, 90), 1),
            "mean": round(sum(values) / len(values), 1),
        }
    return rows


def run(folder: Path, quick: bool = False) -> Result:
    """Profile with the control query alone, then with 500 brokers' heartbeats, then with loads running."""
    small = {"events": 10, "warm_up_s": 5.0} if quick else {"events": 120}
    beating = Load(20, 2, QUIET_S) if quick else Load(500, 2, QUIET_S)
    loaded = Load(10, 20) if quick else Load()
    figures = {
        "control_alone": profile(folder / "alone", Options(**small), loads=False),
        "heartbeats": profile(folder / "heartbeats", Options(**small, load=beating), loads=False),
        "with_loads": profile(folder / "loads", Options(**small, load=loaded), loads=True),
    }
    for name, found in figures.items():
        show(name, found)
    return Result("control_stages", figures)


def profile(folder: Path, options: Options, loads: bool) -> dict[str, Any]:
    """Measure one scenario: tables of batches with and without a commit, and the latency."""
    stages = Stages()
    with LocalCluster(folder, profile="local", overrides=("rounds.mode=shadow",)) as cluster:
        cluster.start_kafka_and_store()
        with clock_stages(stages), _job(cluster, loads, stages):
            if options.load is not None:
                start_fleet(cluster, options.load)
            time.sleep(options.warm_up_s)
            cluster.command("create_namespace", namespace=NAMESPACE, bundles=4)
            first = max(list(stages.batches), default=0) + 1
            latencies = ask(cluster, options, stages.chains)
            time.sleep(2 * PROGRESS_S)  # the last batches' progress reports
            measured = {i: b for i, b in sorted(dict(stages.batches).items()) if i >= first}
    committed = [b for i, b in measured.items() if i in stages.committed]
    idle = [b for i, b in measured.items() if i not in stages.committed]
    if not any("trigger" in b for b in measured.values()):
        raise NotMeasured(f"Spark reported no progress of {len(measured)} batches")
    return {
        "load": options.load.figures() if options.load else None,
        "batches": len(measured),
        "latency_s": summary(latencies),
        "events_ms": chain_profile(stages.chains.steps()),
        "committing_ms": table(committed),
        "idle_ms": table(idle),
    }


def show(name: str, found: dict[str, Any]) -> None:
    """Print the tables."""
    print(f"\n{name}: ms an event, mean | p50 | p99 | mean of the slowest 5 %")
    for step, row in found["events_ms"].items():
        print(f"  {step:14}" + "".join(f" {row[k]:9.1f}" for k in ("mean", "p50", "p99", "mean_of_slowest")))
    print(f"\n{name}: {found['batches']} batches; ms a batch, those that commit | those that do not")
    nothing = {"p50": 0.0, "p90": 0.0}
    for stage, row in found["committing_ms"].items():
        pairs = (row, found["idle_ms"].get(stage, nothing))
        print(f"  {stage:14}" + "   | ".join(f" p50 {p['p50']:8.1f}  p90 {p['p90']:8.1f}" for p in pairs))


@contextmanager
def clock_stages(stages: Stages) -> Iterator[None]:
    """Put clocks around the stages of the control query inside the block."""
    from controller.control.step import step
    from controller.service import loop as control_loop
    from controller.service.feed import Feed
    from controller.service.records import parse_rows
    from controller.service.tables import ControlTables

    places: list[tuple[Any, str, Callable[..., Any]]] = [
        (control_loop, "parse_rows", stages.time_call("parse", stages.note_commands(parse_rows))),
        (control_loop, "step", stages.time_call("step", step)),
        (ControlTables, "append_evidence", stages.time_call("evidence", ControlTables.append_evidence)),
        (ControlTables, "commit", stages.time_call("commit", ControlTables.commit)),
        (ControlTables, "project", stages.time_call("project", ControlTables.project)),
        (Feed, "publish", stages.time_call("feed", Feed.publish)),
        (control_loop.ControlLoop, "process", stages.batch(control_loop.ControlLoop.process)),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, wrapper in places:
        setattr(owner, name, wrapper)
    try:
        yield
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)


@contextmanager
def _job(cluster: LocalCluster, loads: bool, stages: Stages) -> Iterator[None]:
    """Run the queries of the job in this process, as `jobs.balance_job` does."""
    os.environ.update(spark_environment(os.environ))
    from controller.service.arguments import parse_arguments
    from jobs.control_runner import ControlRunner
    from jobs.loads_runner import LoadsRunner
    from jobs.session import build_session
    from jobs.spark_context import quieten

    spark = build_session("ballast-bench")
    quieten(spark.sparkContext)
    arguments, registry, stop = parse_arguments([]), CollectorRegistry(), threading.Event()
    parts: list[Any] = [ControlRunner(cluster.settings, arguments, registry, stop)]
    parts += [LoadsRunner(cluster.settings, arguments, registry)] if loads else []
    watcher = threading.Thread(target=_watch, args=(spark, stages, stop), name="bench-progress", daemon=True)
    try:
        for part in parts:
            part.start(spark)
        watcher.start()
        yield
    finally:
        stop.set()
        for part in reversed(parts):
            part.stop(True)
        spark.stop()


def _watch(spark: Any, stages: Stages, stop: threading.Event) -> None:
    """Keep every progress report of the control query: Spark itself only keeps the newest twenty."""
    while not stop.wait(PROGRESS_S):
        for query in spark.streams.active:
            if str(query.name).startswith("control"):  # its instance follows
                for report in query.recentProgress:
                    stages.progress(report)
