"""Published cases V24-V33: clusters that change between rounds, and load that must stay where it is."""

from __future__ import annotations

from collections import Counter

import numpy as np

from benchmarks.published.case import NO_TRAFFIC, Case, Played, first_complaint, no_moves, set_cpu
from benchmarks.published.clusters import MESSAGES_A_POINT, ClusterBuilder, cluster, loads, moves
from controller.domain.decision import DecisionKind


def _target_fills_up(number: int, built: ClusterBuilder) -> None:
    """The best target of the first round is busy in the second."""
    if number == 1:
        set_cpu(built, "b1", 80)


def _v24(played: Played) -> str | None:
    late = {m.target for result in played.results[1:] for m in moves(result)}
    return first_complaint(
        (bool(played.moves), "nothing moves"), ("b1" not in late, "still moves to the target of before")
    )


def _v26(played: Played) -> str | None:
    return None if all(m.epoch is not None for m in played.moves) and played.moves else "moves without an epoch"


def _late_report() -> ClusterBuilder:
    """b0's last reports still contain a bundle that b1 owns by now."""
    built = loads(60, 30)
    built.broker("b0", cpu=90, age_ms=20_000)
    return built.bundle("b0", cpu=30, owner="b1")


def _v28(played: Played) -> str | None:
    for result in played.results:
        names = Counter(d.bundle for d in result.decisions if d.kind is not DecisionKind.SKIP)
        if names and max(names.values()) > 1:
            return f"{names.most_common(1)[0][0]} is named twice in a round"
    return None if played.moves else "nothing moves"


def _system() -> ClusterBuilder:
    built = cluster().broker("a", cpu=90).broker("b")
    for space in ("pulsar/system", "pulsar/broker-1:8080", "sla-monitor/c1"):
        built.bundle("a", cpu=30, namespace=space)
    return built


def _nowhere_to_go() -> ClusterBuilder:
    built = loads(90, 20, 20).with_settings(caps={"max_topics": 150})
    for name in ("b1", "b2"):
        built.brokers[name]["topics"] = 150.0
    return built


def _job(number: int, built: ClusterBuilder) -> None:
    """Every twelve minutes a three-minute job doubles the load of b0's first three bundles."""
    factor = 2.0 if number % 12 in (6, 7, 8) else 1.0
    for bundle in built.bundles[:3]:
        for name in NO_TRAFFIC:
            extra = bundle.setdefault(f"plain_{name}", bundle[name]) * factor - bundle[name]
            bundle[name] += extra
            built.brokers["b0"][name] += extra
    usual = sum(bundle["plain_msg_rate_in"] for bundle in built.bundles[:3]) * 2 / MESSAGES_A_POINT
    built.brokers["b0"]["cpu_usage"] = 50.0 + (factor - 1) * usual


def _heap() -> ClusterBuilder:
    built = loads(20, 20, 20)
    built.brokers["b0"] |= {"memory_usage": 9.9e9, "memory_limit": 10e9}
    return built


def _one_strong() -> ClusterBuilder:
    built = cluster()
    for at, cores in enumerate((1.0, 1.0, 1.0, 4.0)):
        built.broker(f"b{at}", cpu=60 / cores, cores=cores)
        for _ in range(20):
            built.bundle(f"b{at}", cpu=3)
    return built


def _v33(played: Played) -> str | None:
    used = [played.cpu(b) for b in played.built.brokers]
    spread = (max(used) - min(used)) / float(np.mean(used))
    return None if spread <= 0.15 else f"ends between {min(used):.0f} and {max(used):.0f} %"


CASES = (
    Case(
        "V24", "the planned target fills up", "pulsar#26246", lambda: loads(75, 10, 40, 40), _v24, 10, _target_fills_up
    ),
    Case("V25", "the assignee restarts while it is being assigned", "pulsar#25379", lambda: loads(50, 50), no_moves),
    Case("V26", "two brokers that both think they own it", "pulsar#24478", lambda: loads(90, 10), _v26),
    Case("V27", "a report from before the move", "crdb#93540", _late_report, no_moves, 1),
    Case("V28", "one bundle, two targets", "automq#867", lambda: loads(99, 95, 5, 5), _v28),
    Case("V29", "only system bundles", "datastax/pulsar#24", _system, no_moves),
    Case("V30", "nobody else may have it", "pulsar#16476", _nowhere_to_go, no_moves),
    Case("V31", "a job of three minutes in twelve", "PIP-364", lambda: loads(50, 50, 50, 50), no_moves, 48, _job),
    Case("V32", "a full heap", "PIP-358", _heap, no_moves),
    Case("V33", "one broker four times as strong", "AvgShedder's own text", _one_strong, _v33, 20),
)
