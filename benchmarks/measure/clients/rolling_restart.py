"""Measures a rolling restart of all brokers of a running cluster. `python -m benchmarks rolling_restart`

Each broker is told to leave (SIGTERM), hands everything over, ends, and is started again as the next incarnation; then
the next one's turn comes. Meanwhile a producer sends to every bundle and a reader reads, rounds are live, and the
journal counts how often each bundle moved. A run counts for nothing if a bundle moved more than twice, was ever
without an owner, or if a message was lost, doubled or reordered.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure.clients.clients import Clients, check_figures, one_topic_a_bundle, problems_of
from benchmarks.measure.figures import summary
from benchmarks.measure.result import Result, Target
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Session
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.testbed.local_cluster import LocalCluster

NAMESPACE = "bench/roll"
MOST_MOVES = 2
LEAVE_S = 60.0
TARGETS = [
    Target("many_bundles.gap_ms.p99", 150, "ms"),
    Target("many_bundles.moves_a_bundle.most", MOST_MOVES, "moves"),
    Target("few_busy_topics.gap_ms.p50", 25, "ms"),
    Target("few_busy_topics.gap_ms.p99", 150, "ms"),
    Target("few_busy_topics.moves_a_bundle.most", MOST_MOVES, "moves"),
]


@dataclass(frozen=True, slots=True)
class Options:
    """The size of a run. `pause_s`: from a broker's return until the next one leaves."""

    brokers: int = 4
    bundles: int = 16
    rolls: int = 3
    rate_per_s: float = 50.0
    warm_up_s: float = 10.0
    pause_s: float = 3.0


def run(folder: Path, quick: bool = False) -> Result:
    """Several restarts of two clusters; moves are counted for each of them.

    Many bundles show what a leaving broker's whole lot costs, but a gap can be no shorter than the 20 ms between two
    of a topic's messages; four topics with 200 messages/s each are the load of the hand-over benchmark.
    """
    all_options = {"many_bundles": Options(), "few_busy_topics": Options(bundles=4, rolls=5, rate_per_s=200.0)}
    figures, broken = {}, []
    for name, options in all_options.items():
        if quick:
            options = replace(options, brokers=3, bundles=min(options.bundles, 6), rolls=1, warm_up_s=3.0)
        figures[name], trouble = measure(folder / name, options)
        broken += trouble
    return Result("rolling_restart", figures, TARGETS, broken)


def measure(folder: Path, options: Options) -> tuple[dict[str, Any], list[str]]:
    """The figures of one run, and what broke."""
    topics = one_topic_a_bundle(NAMESPACE, options.bundles)
    brokers = [f"bench-{i + 1}" for i in range(options.brokers)]
    with LocalCluster(folder, profile="local", overrides=("rounds.mode=live",)) as cluster:
        ports = _up(cluster, brokers)
        cluster.command("create_namespace", namespace=NAMESPACE, bundles=options.bundles)
        clients = Clients(cluster, topics, options.rate_per_s)
        clients.start()
        cluster.wait_until(_all_owned, 60, "every bundle served", needs="job")
        time.sleep(options.warm_up_s)
        rolls, broken, began = [], [], time.monotonic()
        for _ in range(options.rolls):
            found, trouble = _roll(cluster, ports, options.pause_s)
            rolls.append(found)
            broken += trouble
        seconds = time.monotonic() - began
        sent = clients.stop()
        report, gaps = clients.check(), clients.gaps()
    figures = {
        "brokers": options.brokers,
        "bundles": options.bundles,
        "messages_per_s_a_bundle": options.rate_per_s,
        "rolls": options.rolls,
        "seconds_a_restart": round(seconds / (options.rolls * options.brokers), 1),
        "leave_s": summary([s for roll in rolls for s in roll["leave_s"]], 1),
        "moves": sum(roll["moves"] for roll in rolls),
        "moves_a_bundle": {
            "most": max(roll["most"] for roll in rolls),
            "mean": round(sum(roll["moves"] for roll in rolls) / options.rolls / options.bundles, 2),
        },
        "gap_ms": summary([g["gap_ms"] for g in gaps], 1),
        "gaps_by_cause": dict(Counter(str(g["cause"]) for g in gaps)),
        "longest_without_acknowledgement_ms": sent.get("max_ack_gap_ms"),
        "unacknowledged": sent.get("unacked"),
        "audit": check_figures(report),
    }
    return figures, broken + problems_of(report)


def moves_of(owners: Mapping[str, str], entries: Iterable[Entry]) -> Counter[str]:
    """Bundle -> how often it changed its broker; `owners`: its owner before the entries."""
    found: Counter[str] = Counter(dict.fromkeys(owners, 0))
    at = dict(owners)
    for entry in entries:
        if entry.kind is Kind.OWNERSHIP and entry.state == State.OWNED.value and entry.bundle in at and entry.by:
            broker = Session.parse(entry.by).broker
            found[entry.bundle] += at[entry.bundle] != broker
            at[entry.bundle] = broker
    return found


def _up(cluster: LocalCluster, brokers: list[str]) -> Mapping[str, Sequence[str]]:
    """Start everything. Brokers keep their ports through restarts, like brokers behind a fixed name."""
    ports = {b: ["--data-port", str(_free_port()), "--set", f"http.agent_port={_free_port()}"] for b in brokers}
    cluster.start_kafka_and_store()
    cluster.start_job()
    for broker, more in ports.items():
        cluster.start_agent(broker, *more)
    cluster.wait_for_job()
    cluster.wait_until(lambda s: {b.id for b in s.live_brokers()} >= set(brokers), 90, f"registration of {brokers}")
    return ports


def _roll(
    cluster: LocalCluster, ports: Mapping[str, Sequence[str]], pause_s: float
) -> tuple[dict[str, Any], list[str]]:
    """Restart every broker once: seconds that each took to leave, moves, and what broke."""
    owners = {name: r.by.broker for name, r in cluster.state.bundles.items() if r.by is not None}
    first_seq, leave_s, broken = cluster.state.seq, [], []
    for broker, more in ports.items():
        before = cluster.state.brokers[broker].session
        began = time.monotonic()
        code = cluster.children[broker].stop(LEAVE_S)
        leave_s.append(time.monotonic() - began)
        if code != 0:
            broken.append(f"{broker} left with exit code {code}")
        cluster.start_agent(broker, *more)
        cluster.wait_until(partial(_returned, broker, before), 90, f"return of {broker}", needs="job")
        time.sleep(pause_s)
    cluster.wait_until(_all_owned, 60, "the last moves' end", needs="job")
    history = [e for e in cluster.entries if e.seq > first_seq]
    moves = moves_of(owners, history)
    broken += [f"{bundle} moved {n} times in one roll" for bundle, n in moves.items() if n > MOST_MOVES]
    broken += [f"{e.bundle} was let go of at seq {e.seq}: {e.reason}" for e in history if e.state == State.FREE.value]
    ends = [e for e in history if e.kind is Kind.SESSION_ENDED and e.reason != "goodbye"]
    broken += [f"{e.session} ended by {e.reason}" for e in ends]
    return {"leave_s": leave_s, "moves": sum(moves.values()), "most": max(moves.values())}, broken


def _returned(broker: str, before: Session, state: ClusterState) -> bool:
    now = state.session_of(broker)
    return now is not None and now.incarnation > before.incarnation


def _all_owned(state: ClusterState) -> bool:
    return bool(state.bundles) and all(r.state in (State.OWNED, State.RETIRED) for r in state.bundles.values())


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
