"""Measures a failover during lookups of ten thousand bundles. `python -m benchmarks mass_lookups`

The job, Kafka and the tables are real; the brokers are simulated. First one broker falls silent, then another one while
lookups of 10,000 bundles without an owner arrive just before its lease ends. Measured are the seconds from the last
heartbeat of each broker until others serve all its bundles, and the seconds until every bundle looked up is owned.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure.loads.fleet import Fleet
from benchmarks.measure.loads.load_generator import Generator
from benchmarks.measure.result import Result, Target
from controller.agent import records as wire
from controller.bus.producer import JsonProducer
from controller.domain.decision import Reason
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Session
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.process.clock import wall_ms
from controller.testbed.local_cluster import LocalCluster

WANTED = "bench/wanted"
LEASE_S, MARGIN_S, WORK_S = 6.0, 1.0, 2.0
LIMIT_S = LEASE_S + MARGIN_S + WORK_S
AHEAD_S = 0.5  # the lookups arrive so long before the lease ends
TARGETS = [
    Target("failover_alone_s", LIMIT_S, "s"),
    Target("failover_among_lookups_s", LIMIT_S, "s"),
    Target("lookups_s", 30, "s"),
]


@dataclass(frozen=True, slots=True)
class Options:
    """The size of a run. In addition to `brokers`, two brokers own `lost` bundles each and fall silent."""

    brokers: int = 20
    lost: int = 500
    lookups: int = 10_000


def run(folder: Path, quick: bool = False) -> Result:
    """One run."""
    figures, broken = measure(folder, Options(brokers=4, lost=50, lookups=1_000) if quick else Options())
    return Result("mass_lookups", figures, TARGETS, broken)


def measure(folder: Path, options: Options) -> tuple[dict[str, Any], list[str]]:
    """The figures of one run, and what broke."""
    with LocalCluster(folder, profile="local", overrides=("rounds.mode=shadow",)) as cluster:
        cluster.up([], job_only="control")
        survivors = Fleet(options.brokers, 1, prefix="live")
        with _speaking(cluster, survivors):
            alone_s = _failover(cluster, options, "first")
            among_s, lookups_s = _failover_among_lookups(cluster, options)
            entries = [e for e in cluster.entries if e.kind is Kind.OWNERSHIP and e.state == State.ASSIGNING.value]
    reasons = Counter((e.batch, e.reason) for e in entries)
    largest = max((n for (_, reason), n in reasons.items() if reason == Reason.FIRST_LOOKUP.value), default=0)
    figures = {
        "brokers": options.brokers,
        "bundles_lost": options.lost,
        "lookups": options.lookups,
        "failover_alone_s": round(alone_s, 2),
        "failover_among_lookups_s": round(among_s, 2),
        "lookups_s": round(lookups_s, 2),
        "lookups_a_s": round(options.lookups / lookups_s),
        "most_lookups_a_batch": largest,
    }
    return figures, _late_rescues(entries)


def _failover(cluster: LocalCluster, options: Options, name: str, meanwhile: Callable[[], None] | None = None) -> float:
    """Seconds from a broker's last heartbeat until others serve its bundles; `meanwhile` runs as its lease ends."""
    victim = Fleet(1, options.lost, prefix=name)
    (namespace, bundles) = victim.namespaces()[0]
    (session,) = (b.session for b in victim.brokers.values())
    with _speaking(cluster, victim) as speaker:
        cluster.command("unload_namespace", 60, namespace=namespace, to=session.broker)
        names = [str(b) for b in cluster.state.namespaces[namespace]]
        cluster.wait_until(lambda s: all(s.bundles[n].by == session for n in names), 120, f"{bundles} bundles gathered")
        time.sleep(3.0)
        speaker.stopping.set()
    silent_since = time.monotonic()
    if meanwhile is not None:
        time.sleep(LEASE_S + MARGIN_S - AHEAD_S)
        meanwhile()
    cluster.wait_until(lambda s: _served_by_others(s, names, session), 120, f"failover of {session}", needs="job")
    return time.monotonic() - silent_since


def _failover_among_lookups(cluster: LocalCluster, options: Options) -> tuple[float, float]:
    """The same during the lookups, and the seconds from the first lookup until all those bundles are owned."""
    cluster.command("create_namespace", 60, namespace=WANTED, bundles=options.lookups)
    began: list[float] = []

    def look_up() -> None:
        began.append(time.monotonic())
        _look_up(cluster)

    failover_s = _failover(cluster, options, "second", look_up)
    cluster.wait_until(lambda s: _owned(s, [WANTED]), 300, "every bundle looked up owned", needs="job")
    return failover_s, time.monotonic() - began[0]


def _look_up(cluster: LocalCluster) -> None:
    """Send an assign request for every wanted bundle, as agents do for lookups of clients."""
    kafka = cluster.settings.kafka
    names = kafka.topics
    producer = JsonProducer(kafka.bootstrap_servers, "bench-lookups", kafka.client)
    for bundle in cluster.state.namespaces[WANTED]:
        producer.send(names.assign_requests, wire.assign_request("live-0001", bundle, wall_ms()), key=str(bundle))
    producer.close(30.0)


@contextmanager
def _speaking(cluster: LocalCluster, fleet: Fleet) -> Iterator[Generator]:
    """Run a fleet in a thread, with its brokers owning the bundles of their namespaces."""
    for namespace, bundles in fleet.namespaces():
        cluster.command("create_namespace", 60, namespace=namespace, bundles=bundles)
    generator = Generator(cluster.settings, fleet, report_s=5.0)
    thread = threading.Thread(target=generator.run, name="bench-fleet", daemon=True)
    thread.start()
    try:
        wanted = {b.session.broker for b in fleet.brokers.values()}
        cluster.wait_until(lambda s: wanted <= {b.id for b in s.live_brokers()}, 60, "the fleet's registration")
        spaces = [namespace for namespace, _ in fleet.namespaces()]
        cluster.wait_until(lambda s: _owned(s, spaces), 120, "the fleet's bundles owned", needs="job")
        yield generator
    finally:
        generator.stopping.set()
        thread.join(10)


def _owned(state: ClusterState, namespaces: list[str]) -> bool:
    return all(state.bundles[str(b)].state is State.OWNED for space in namespaces for b in state.namespaces[space])


def _served_by_others(state: ClusterState, names: list[str], gone: Session) -> bool:
    return all((r := state.bundles[n]).state is State.OWNED and r.by != gone for n in names)


def _late_rescues(entries: list[Entry]) -> list[str]:
    """Grants in the wrong order: within a batch, orphans must be assigned before lookups are answered."""
    looked_up: set[int] = set()
    found = []
    for entry in sorted(entries, key=lambda e: e.seq):
        if entry.reason == Reason.FIRST_LOOKUP.value:
            looked_up.add(entry.batch)
        elif entry.batch in looked_up:
            found.append(f"{entry.bundle} waited for lookups in batch {entry.batch}: {entry.reason}")
    return found[:10]
