"""Measures how long the bundles of a killed broker are not served. `python -m benchmarks failover`

Agents are killed with SIGKILL one after another; each is replaced by a new one with the same id. Measured is the time
from the kill until every bundle is owned elsewhere according to the journal, and until the producer's next message on
every topic is acknowledged. The limit is the lease (6 s) plus the controller's margin (1 s) plus 2 s of work.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure.clients.clients import Clients, check_figures, one_topic_a_bundle, problems_of
from benchmarks.measure.figures import summary
from benchmarks.measure.result import Result, Target
from controller.domain.entries import Kind
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.process.clock import boot_ms
from controller.testbed.local_cluster import LocalCluster

NAMESPACE = "bench/failover"
LEASE_S, MARGIN_S, WORK_S = 6.0, 1.0, 2.0
LIMIT_S = LEASE_S + MARGIN_S + WORK_S
TARGETS = [Target("journal_s.max", LIMIT_S, "s"), Target("clients_s.max", LIMIT_S, "s")]


@dataclass(frozen=True, slots=True)
class Options:
    """The size of a run."""

    brokers: int = 4
    bundles: int = 8
    rate_per_s: float = 50.0
    kills: int = 6
    warm_up_s: float = 8.0


@dataclass(frozen=True, slots=True)
class Kill:
    """One SIGKILL: the broker, the time (boot clock), its bundles, and when all of them were owned again."""

    broker: str
    at_ms: int
    bundles: tuple[str, ...]
    served_again_ms: int


def run(folder: Path, quick: bool = False) -> Result:
    """Measure with the whole job running."""
    options = Options(kills=1, warm_up_s=3.0) if quick else Options()
    topics = one_topic_a_bundle(NAMESPACE, options.bundles)
    names = [f"bench-{i + 1}" for i in range(options.brokers)]
    with LocalCluster(folder, profile="local", overrides=("rounds.mode=shadow",)) as cluster:
        cluster.up(names)
        cluster.command("create_namespace", namespace=NAMESPACE, bundles=options.bundles)
        clients = Clients(cluster, topics, options.rate_per_s)
        clients.start()
        bundles = [str(b) for b in topics.values()]
        cluster.wait_until(lambda s: all(s.bundles[b].state is State.OWNED for b in bundles), 30, "every bundle served")
        time.sleep(options.warm_up_s)
        kills = [_kill_one(cluster, bundles, options.warm_up_s) for _ in range(options.kills)]
        sent = clients.stop()
        report, gaps = clients.check(), clients.gaps()
        ended = [e.reason for e in cluster.entries if e.kind is Kind.SESSION_ENDED]
    journal, seen, unseen = times_of(kills, gaps, {str(bundle): topic for topic, bundle in topics.items()})
    figures = {
        "brokers": options.brokers,
        "bundles": options.bundles,
        "messages_per_s_a_topic": options.rate_per_s,
        "kills": len(kills),
        "bundles_a_kill": [len(k.bundles) for k in kills],
        "journal_s": summary(journal, 2),
        "clients_s": summary(seen, 2),
        "sessions_ended_by": dict(Counter(map(str, ended))),
        "unacknowledged": sent.get("unacked"),
        "audit": check_figures(report),
    }
    broken = problems_of(report)
    broken += [f"{topic} was never acknowledged after the kill of its broker" for topic in unseen]
    return Result("failover", figures, TARGETS, broken)


def times_of(
    kills: Iterable[Kill], gaps: Iterable[Mapping[str, Any]], topics: Mapping[str, str]
) -> tuple[list[float], list[float], list[str]]:
    """Seconds from each kill until the bundles are served again: by the journal, by the producer; topics never served.

    `topics`: bundle -> topic. A gap belongs to a kill if it ended after it. It is measured from the kill, not from the
    last acknowledgement before it, which is at most one sending interval earlier.
    """
    found = sorted(gaps, key=lambda gap: float(gap["at"]))
    journal, seen, unseen = [], [], []
    for kill in kills:
        journal.append((kill.served_again_ms - kill.at_ms) / 1000)
        for bundle in kill.bundles:
            topic = topics[bundle]
            ends = [float(g["at"]) for g in found if g["topic"] == topic and float(g["at"]) >= kill.at_ms]
            if ends:
                seen.append((ends[0] - kill.at_ms) / 1000)
            else:
                unseen.append(topic)
    return journal, seen, unseen


def _kill_one(cluster: LocalCluster, bundles: list[str], rest_s: float) -> Kill:
    state = cluster.state
    victim = Counter(_holder(state, b) for b in bundles).most_common(1)[0][0]
    had = tuple(b for b in bundles if _holder(state, b) == victim)
    at_ms = boot_ms()
    cluster.children[victim].kill()
    again = cluster.wait_until(
        lambda s: all(s.bundles[b].state is State.OWNED and _holder(s, b) != victim for b in had),
        60,
        f"failover of {victim}",
    )
    served_ms = boot_ms()
    before = again.brokers[victim].session
    cluster.start_agent(victim)
    cluster.wait_until(lambda s: s.session_of(victim) not in (None, before), 60, f"the new {victim}'s registration")
    time.sleep(rest_s)
    return Kill(victim, at_ms, had, served_ms)


def _holder(state: ClusterState, bundle: str) -> str:
    session = state.bundles[bundle].by
    return session.broker if session else ""
