"""What a broker can carry, learned from what it uses for what its bundles do.

CPU is compared: a broker's usage for each unit of traffic against the cluster's median, weighted by traffic.

- near the median: its bundles explain its usage, a unit of work costs there what it costs anywhere;
- up to `FOREIGN` times the median: the broker is slow, the same work costs more there, and it is no target;
- beyond, at a usage that matters: something other than its bundles uses the machine. It keeps what it has and neither
  gives nor takes (moving bundles would not relieve it), and its bundles are charged for their own traffic only.

A process uses some CPU without any traffic, its *base*: used capacity like any other, never a fault. So a broker with
too little traffic to be judged is neither slow nor foreign: what its bundles do not explain is its base, and it can be
filled up to the others' level, base included. Of two readings of a broker, without any base and with the largest one
that all brokers' usage allows, the one nearer to the median counts: a broker with little traffic may look slow for
nothing but its base. What a broker without traffic was seen to use is taken off what the others' bundles seem to
cost, in later rounds, unless that proves too much: a process that has just started may use more for a while.

A broker that lets its bundles' backlog pile up while others do not is no target either. What was learned of a broker
is remembered for as long as it has too little traffic to be judged again; it belongs to the incarnation.

A utilisation far above the limit is a misreading, and its broker stands aside, unless it is CPU that its own bundles
explain: what is planned or simulated may ask for more than a machine has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from controller.domain.load import BUNDLE_FIELDS, IMPOSSIBLE_FACTOR, RESOURCES
from controller.policy.view.costs import Floats
from controller.policy.view.snapshot import Bools, Snapshot

SAME = 1.25  # a cost a unit within this factor of the median is noise
SLOW = 1.75
FOREIGN = 4.0
MATTERS = 0.10  # utilisation below which foreign load does not matter
JUDGED_FROM = 0.2  # of the mean broker's traffic: with less, its base drowns the rest
NOTHING = 0.05  # of the traffic where most of it is: with less, a broker's usage is its base
MOST_BASE = 0.5  # of its usage: more is never taken off what a broker's bundles cost
LIGHT = 0.5  # of the traffic where most of it is: with less, usage tells how large a base may be
BACKLOG_S, BACKLOG_FACTOR = 60.0, 8.0  # of its own traffic, and times the cluster's median
_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
CPU = RESOURCES.index("cpu")


@dataclass(frozen=True, eq=False)
class Capacity:
    """B brokers."""

    speed: Floats  # [B] CPU a unit of work costs, 1.0 on the median broker
    explained: Floats  # [B] what part of the CPU usage the broker's bundles account for
    base: Floats  # [B] CPU usage without any traffic
    foreign: Bools  # [B] its load is mostly not its bundles'
    slow: Bools  # [B]
    impossible: Bools  # [B] a utilisation that can only be a misreading
    common_base: float  # CPU usage that any process has without traffic, to be remembered


def learn(snapshot: Snapshot, remembered: Mapping[int, float], common_base: float = 0.0) -> Capacity:
    """`remembered`: speeds of earlier rounds by index of the broker, and the common base that they found.

    Where CPU has no weight it says nothing here.
    """
    traffic = _traffic(snapshot.totals)
    counts = bool(snapshot.weights[CPU] > 0)
    usage = np.nan_to_num(snapshot.usage[:, CPU])
    utilised = np.nan_to_num(snapshot.utilisation[:, CPU])
    usual = _mean(traffic, snapshot.eligible)
    enough = traffic >= JUDGED_FROM * usual
    judged = snapshot.eligible & enough & (usage > 0) & (traffic > 0) & counts
    known = snapshot.eligible & np.isfinite(snapshot.usage[:, CPU]) & counts
    possible = _possible_base(usage, traffic, known)
    base = min(common_base, float(np.min(usage[known], initial=np.inf)), np.inf if possible is None else possible)
    unit = _unit(np.maximum(usage - base, 0.0), traffic, judged)
    ratio = _ratio(usage, traffic, judged, max(base, possible or 0.0))
    foreign = judged & (utilised >= MATTERS) & (ratio > FOREIGN)
    speed = np.where(judged & ~foreign & ((ratio > SAME) | (ratio < 1 / SAME)), ratio, 1.0)
    for at, learned in remembered.items():
        if counts and not judged[at]:
            speed[at] = learned
    backlog_s = snapshot.totals[:, _F["backlog_bytes"]] / np.maximum(_bytes(snapshot.totals), 1.0)
    piled = float(np.median(backlog_s[snapshot.eligible])) if snapshot.eligible.any() else 0.0
    light = snapshot.eligible & ~enough & counts
    due = traffic * unit * speed
    own = np.minimum(1.0, due / np.maximum(usage, 1e-12))
    of_others = np.maximum(1.0 - MOST_BASE, 1.0 - base / np.maximum(usage, 1e-12))
    return Capacity(
        speed=speed,
        explained=np.where(usage > 0, np.where(foreign | light, own, of_others), 1.0),
        base=np.where(light, np.maximum(usage - due, 0.0), np.where(known, base, 0.0)),
        foreign=foreign,
        slow=(speed >= SLOW) | (backlog_s > np.maximum(BACKLOG_S, BACKLOG_FACTOR * piled)),
        impossible=_impossible(snapshot, np.where(judged, ratio, np.inf)),
        common_base=_seen_base(usage, traffic, known, base),
    )


def _unit(usage: Floats, traffic: Floats, judged: Bools) -> float:
    """CPU usage that a unit of traffic costs on the median broker."""
    return _weighted_median(usage[judged] / traffic[judged], traffic[judged]) if judged.any() else 0.0


def _ratio(usage: Floats, traffic: Floats, judged: Bools, base: float) -> Floats:
    """[B] usage for the traffic against the median's, as near to 1 as a base between 0 and `base` can bring it."""
    with_base = np.maximum(usage - base, 0.0)
    without, after = (used / np.maximum(traffic * _unit(used, traffic, judged), 1e-12) for used in (usage, with_base))
    return np.asarray(np.clip(1.0, np.minimum(without, after), np.maximum(without, after)))


def _seen_base(usage: Floats, traffic: Floats, known: Bools, base: float) -> float:
    """What brokers without traffic use, the least of them; `base` where all have some."""
    idle = known & (traffic < NOTHING * _where_most_is(traffic[known]))
    return float(usage[idle].min()) if idle.any() else base


def _where_most_is(traffic: Floats) -> float:
    """The traffic of the broker that a message finds itself on, on average."""
    return float((traffic * traffic).sum() / traffic.sum()) if traffic.sum() > 0 else 0.0


def _possible_base(usage: Floats, traffic: Floats, known: Bools) -> float | None:
    """The largest base that all brokers may have: where the line through what they use reaches no traffic.

    It is drawn from the least used of those with little traffic; where all have much, nothing tells it.
    """
    light = known & (traffic < LIGHT * _where_most_is(traffic[known]))
    if not light.any():
        return None
    least = int(np.argmin(np.where(light, usage, np.inf)))
    more = known & (traffic > traffic[least])
    rise, run = usage[more] - usage[least], traffic[more] - traffic[least]
    slope = _weighted_median(rise / run, run)
    return max(0.0, float(usage[least] - slope * traffic[least])) if slope > 0 else 0.0


def _explained_traffic(snapshot: Snapshot) -> Floats:
    """[B] what part of a broker's messages and bytes its bundles account for, at most 1."""
    totals = snapshot.totals
    owned = snapshot.owner >= 0
    parts = []
    for what in ("msg_rate", "throughput"):
        pair = [_F[f"{what}_in"], _F[f"{what}_out"]]
        held = np.bincount(snapshot.owner[owned], snapshot.fields[owned][:, pair].sum(axis=1), len(totals))
        whole = totals[:, pair].sum(axis=1)
        parts.append(np.where(whole > 0, np.minimum(1.0, held / np.maximum(whole, 1e-12)), 1.0))
    return np.minimum(*parts)


def _impossible(snapshot: Snapshot, ratio: Floats) -> Bools:
    """[B] utilised far above the limit. CPU that the broker's own bundles account for is load all the same."""
    over = np.nan_to_num(snapshot.utilisation) > IMPOSSIBLE_FACTOR
    if over[:, CPU].any():
        over[:, CPU] &= ratio > SLOW * _explained_traffic(snapshot)
    return np.asarray(over.any(axis=1))


def _bytes(totals: Floats) -> Floats:
    return np.asarray(totals[:, _F["throughput_in"]] + totals[:, _F["throughput_out"]])


def _traffic(totals: Floats) -> Floats:
    """[B] messages and bytes, each as a share of the cluster's, half and half."""
    messages = totals[:, _F["msg_rate_in"]] + totals[:, _F["msg_rate_out"]]
    parts = [column / column.sum() for column in (messages, _bytes(totals)) if column.sum() > 0]
    return np.asarray(sum(parts) / len(parts)) if parts else np.zeros(len(totals))


def _mean(values: Floats, among: Bools) -> float:
    return float(values[among].mean()) if among.any() else 0.0


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][int(np.searchsorted(reached, reached[-1] / 2))])
