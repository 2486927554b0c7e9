"""How long a killed broker's bundles are not served. `python -m benchmarks failover`

An agent is ended by SIGKILL, again and again (a new one of the same id joins after each); measured from the kill until
the journal says that every bundle it had is owned elsewhere, and, by the producer, until every topic's next message is
acknowledged. What a kill may cost: the lease (6 s), the controller's margin (at most 1 s), and 2 s of work.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure.clients.clients import Clients, audit_figures, broken_by, one_topic_a_bundle
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
class Plan:
    """The size of a run."""

    brokers: int = 4
    bundles: int = 8
    rate_per_s: float = 50.0
    kills: int = 6
    warm_up_s: float = 8.0


@dataclass(frozen=True, slots=True)
class Kill:
    """One SIGKILL: whom, when (boot clock), what it had, when the journal had all of that owned again."""

    broker: str
    at_ms: int
    bundles: tuple[str, ...]
    served_again_ms: int


def run(folder: Path, quick: bool = False) -> Result:
    """Kill and measure, with the whole job running."""
    plan = Plan(kills=1, warm_up_s=3.0) if quick else Plan()
    topics = one_topic_a_bundle(NAMESPACE, plan.bundles)
    names = [f"bench-{i + 1}" for i in range(plan.brokers)]
    with LocalCluster(folder, profile="local", overrides=("rounds.mode=shadow",)) as cluster:
        cluster.up(names)
        cluster.command("create_namespace", namespace=NAMESPACE, bundles=plan.bundles)
        clients = Clients(cluster, topics, plan.rate_per_s)
        clients.start()
        bundles = [str(b) for b in topics.values()]
        cluster.wait_until(lambda s: all(s.bundles[b].state is State.OWNED for b in bundles), 30, "every bundle served")
        time.sleep(plan.warm_up_s)
        kills = [_kill_one(cluster, bundles, plan.warm_up_s) for _ in range(plan.kills)]
        sent = clients.stop()
        report, gaps = clients.audited(), clients.gaps()
        ended = [e.reason for e in cluster.entries if e.kind is Kind.SESSION_ENDED]
    journal, seen, unseen = times_of(kills, gaps, {str(bundle): topic for topic, bundle in topics.items()})
    figures = {
        "brokers": plan.brokers,
        "bundles": plan.bundles,
        "messages_per_s_a_topic": plan.rate_per_s,
        "kills": len(kills),
        "bundles_a_kill": [len(k.bundles) for k in kills],
        "journal_s": summary(journal, 2),
        "clients_s": summary(seen, 2),
        "sessions_ended_by": dict(Counter(map(str, ended))),
        "unacknowledged": sent.get("unacked"),
        "audit": audit_figures(report),
    }
    broken = broken_by(report)
    broken += [f"{topic} was never acknowledged after the kill of its broker" for topic in unseen]
    return Result("failover", figures, TARGETS, broken)


def times_of(
    kills: Iterable[Kill], gaps: Iterable[Mapping[str, Any]], topics: Mapping[str, str]
) -> tuple[list[float], list[float], list[str]]:
    """Seconds from each kill until the journal and, by topic, the producer had it served again; topics never seen.

    `topics`: bundle -> topic. A gap belongs to the kill if it ended after it: its end is counted from the kill, not
    from the last acknowledgement before it, which is at most one message's interval earlier.
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
