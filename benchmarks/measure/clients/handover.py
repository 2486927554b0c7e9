"""Measures how long a producer cannot send to a topic while its bundle moves. `python -m benchmarks handover`

Commands transfer bundles, several at a time, while a producer sends 200 messages/s to each topic and a reader reads
them. The gap is the time from the old owner's last acknowledgement to the new owner's first. It is measured with the
whole job, with the control query alone, and with that while the tables are in an object store: the S3 server of the
tests. A run that loses, duplicates or reorders a message is invalid.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.measure.clients.clients import Clients, check_figures, one_topic_a_bundle, problems_of
from benchmarks.measure.figures import summary
from benchmarks.measure.object_store import new_root, served, storage_options
from benchmarks.measure.result import Result, Target
from controller.domain.entries import Entry, Kind
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.process.children import ProcessFailed
from controller.testbed.demo.figures import transfers_of
from controller.testbed.local_cluster import LocalCluster

NAMESPACE = "bench/handover"
TARGETS = [
    Target("with_loads.gap_ms.p50", 25, "ms"),
    Target("with_loads.gap_ms.p99", 150, "ms"),
    Target("control_alone.gap_ms.p50", 25, "ms"),
    Target("control_alone.gap_ms.p99", 150, "ms"),
    Target("tables_in_store.gap_ms.p50", 25, "ms"),
    Target("tables_in_store.gap_ms.p99", 150, "ms"),
]
TRANSFERS_IN_STORE = 100
STALLED_S = 60.0  # without a finished transfer for this long, something is broken


@dataclass(frozen=True, slots=True)
class Options:
    """The size of a run. `only`: the part of the job that runs, None for all. `store`: the address of the object store
    with the tables, None for a folder."""

    brokers: int = 3
    bundles: int = 4
    rate_per_s: float = 200.0
    transfers: int = 210
    in_flight: int = 2
    pause_s: tuple[float, float] = (0.2, 0.6)  # between two commands
    rest_s: float = 1.0  # minimum time between two moves of a bundle
    warm_up_s: float = 10.0
    only: str | None = None
    store: str | None = None
    seed: int = 11


@dataclass(slots=True)
class Mover:
    """Chooses the next transfer: a resting bundle, to any other living broker."""

    bundles: Sequence[str]
    rest_s: float
    in_flight: int
    dice: random.Random
    asked: dict[str, tuple[int, float]] = field(default_factory=dict)  # bundle -> its epoch then, when
    rested_since_s: dict[str, float] = field(default_factory=dict)

    def next(self, state: ClusterState, now_s: float) -> tuple[str, str] | None:
        """The bundle and its target; None if nothing can be moved now."""
        resting = []
        for name in self.bundles:
            record = state.bundles[name]
            epoch, asked_at_s = self.asked.get(name, (record.epoch, now_s))
            # A whole transfer may happen between two calls: the epoch reveals it.
            if record.state is not State.OWNED or record.epoch > epoch or now_s - asked_at_s > STALLED_S:
                self.rested_since_s.pop(name, None)
                self.asked.pop(name, None)
            if record.state is not State.OWNED or name in self.asked:
                continue
            if now_s - self.rested_since_s.setdefault(name, now_s) >= self.rest_s:
                resting.append(name)
        moving = sum(state.bundles[name].state is not State.OWNED for name in self.bundles) + len(self.asked)
        if not resting or moving >= self.in_flight:
            return None
        name = min(resting, key=lambda b: (self.rested_since_s[b], b))  # whoever rests longest
        owner = state.bundles[name].by
        others = [b.id for b in state.live_brokers() if owner is None or b.id != owner.broker]
        if not others:
            return None
        self.asked[name] = (state.bundles[name].epoch, now_s)
        return name, self.dice.choice(others)


def run(folder: Path, quick: bool = False) -> Result:
    """Measure with the whole job, then with the control query alone, then with the tables in an object store."""
    options = Options(transfers=12, warm_up_s=3.0) if quick else Options()
    figures: dict[str, Any] = {}
    broken: list[str] = []
    with served(folder) as address:
        few = min(options.transfers, TRANSFERS_IN_STORE)
        for name, part in (
            ("with_loads", options),
            ("control_alone", replace(options, only="control")),
            ("tables_in_store", replace(options, only="control", store=address, transfers=few)),
        ):
            figures[name], found = measure(folder / name, part)
            broken += [f"{name}: {text}" for text in found]
    return Result("handover", figures, TARGETS, broken)


def measure(folder: Path, options: Options) -> tuple[dict[str, Any], list[str]]:
    """One run: its figures, and what broke."""
    topics = one_topic_a_bundle(NAMESPACE, options.bundles)
    with LocalCluster(folder, profile="local", overrides=("rounds.mode=shadow",)) as cluster:
        brokers = [f"bench-{i + 1}" for i in range(options.brokers)]
        cluster.up(brokers, job_only=options.only, sections=_sections(folder, options))
        cluster.command("create_namespace", namespace=NAMESPACE, bundles=options.bundles)
        clients = Clients(cluster, topics, options.rate_per_s)
        clients.start()
        bundles = [str(b) for b in topics.values()]
        cluster.wait_until(lambda s: all(s.bundles[b].state is State.OWNED for b in bundles), 30, "every bundle served")
        time.sleep(options.warm_up_s)
        before = len(transfers_of(cluster.entries))
        seconds = _transfer(cluster, options, bundles, before)
        sent = clients.stop()
        report = clients.check()
        gaps = clients.gaps()
        entries = list(cluster.entries)
    transfers = len(transfers_of(entries)) - before
    figures = {
        "brokers": options.brokers,
        "topics": len(topics),
        "messages_per_s_a_topic": options.rate_per_s,
        "transfers": transfers,
        "seconds": round(seconds, 1),
        "gap_ms": summary([g["gap_ms"] for g in gaps], 1),
        "gaps_by_cause": _counts(str(g["cause"]) for g in gaps),
        "steps_ms": {name: summary(values, 0) for name, values in steps_of(entries).items()},
        "unacknowledged": sent.get("unacked"),
        "audit": check_figures(report),
    }
    broken = problems_of(report)
    if len(gaps) < transfers:
        broken.append(f"{transfers} transfers, but the producer saw only {len(gaps)} changes of owner")
    return figures, broken


def _sections(folder: Path, options: Options) -> dict[str, dict[str, object]]:
    """Of the configuration file: where the tables are, unless that is a folder."""
    if options.store is None:
        return {}
    checkpoints = str(folder.resolve() / "checkpoints")
    return {
        "tables": {"root": new_root(), "checkpoints": checkpoints, "storage_options": storage_options(options.store)}
    }


def steps_of(entries: Sequence[Entry]) -> dict[str, list[float]]:
    """Milliseconds from each command's entry to `releasing` and to `owned`, by the journal's clock."""
    steps: dict[str, list[float]] = {"transferring_to_releasing": [], "transferring_to_owned": []}
    began: dict[tuple[str | None, int | None], int] = {}
    for entry in entries:
        if entry.kind is not Kind.OWNERSHIP:
            continue
        key = (entry.bundle, entry.epoch)
        if entry.state == State.TRANSFERRING.value:
            began[key] = entry.at_ms
        elif key in began and entry.state == State.RELEASING.value and not entry.data.get("released"):
            steps["transferring_to_releasing"].append(entry.at_ms - began[key])
        elif key in began and entry.state == State.OWNED.value:
            steps["transferring_to_owned"].append(entry.at_ms - began.pop(key))
    return {name: values for name, values in steps.items() if values}


def _transfer(cluster: LocalCluster, options: Options, bundles: Sequence[str], before: int) -> float:
    """Send commands until enough transfers have ended; return the seconds that took."""
    dice = random.Random(options.seed)
    mover = Mover(bundles, options.rest_s, options.in_flight, dice)
    started = last_end = time.monotonic()
    next_at, ended = started, 0
    while ended < options.transfers:
        state, now = cluster.state, time.monotonic()
        found = len(transfers_of(cluster.entries)) - before
        if found > ended:
            ended, last_end = found, now
        if now - last_end > STALLED_S:
            raise ProcessFailed(f"no transfer ended for {STALLED_S:g} s after {ended}: see {cluster.folder}/logs")
        choice = mover.next(state, now) if now >= next_at else None
        if choice is not None:
            bundle, to = choice
            assert cluster.operator is not None
            cluster.operator.send("unload_bundle", {"bundle": bundle, "to": to}, why="benchmark")
            next_at = now + dice.uniform(*options.pause_s)
        time.sleep(0.05)
    cluster.wait_until(lambda s: all(s.bundles[b].state is State.OWNED for b in bundles), 30, "the last transfers' end")
    return time.monotonic() - started


def _counts(values: Any) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for value in values:
        found[value] = found.get(value, 0) + 1
    return found
