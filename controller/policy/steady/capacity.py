"""What a broker can carry, learned from what it uses for what its bundles do.

CPU is compared: a broker's usage for each unit of traffic against the cluster's median, weighted by traffic.

- near the median: its bundles explain its usage, a unit of work costs there what it costs anywhere;
- up to `FOREIGN` times the median: the broker is slow, the same work costs more there, and it is no target;
- beyond, at a usage that matters: something other than its bundles uses the machine. It keeps what it has and neither
  gives nor takes (moving bundles would not relieve it), and its bundles are charged for their own traffic only.

A broker that lets its bundles' backlog pile up while others do not is no target either. What was learned of a broker
is remembered for as long as it has too little traffic to be judged again; it belongs to the incarnation.

A utilisation far above the limit is a misreading, and its broker stands aside, unless it is CPU that its own bundles
explain: what is planned or simulated may ask for more than a machine has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.domain.load import BUNDLE_FIELDS, IMPOSSIBLE_FACTOR, RESOURCES
from controller.policy.costs import Floats
from controller.policy.snapshot import Snapshot

SAME = 1.25  # a cost a unit within this factor of the median is noise
SLOW = 1.75
FOREIGN = 4.0
MATTERS = 0.10  # utilisation below which foreign load is nobody's concern
JUDGED_FROM = 0.2  # of the mean broker's traffic: with less, fixed costs drown the rest
BACKLOG_S, BACKLOG_FACTOR = 60.0, 8.0  # of its own traffic, and times the cluster's median
_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
CPU = RESOURCES.index("cpu")


@dataclass(frozen=True, eq=False)
class Capacity:
    """B brokers."""

    speed: Floats  # [B] CPU a unit of work costs, 1.0 on the median broker
    explained: Floats  # [B] what part of the CPU usage the broker's bundles account for
    foreign: NDArray[np.bool_]  # [B] its load is mostly not its bundles'
    slow: NDArray[np.bool_]  # [B]
    impossible: NDArray[np.bool_]  # [B] a utilisation that can only be a misreading


def learn(snapshot: Snapshot, remembered: Mapping[int, float]) -> Capacity:
    """`remembered`: speeds of earlier rounds by index of the broker. Where CPU has no weight it says nothing here."""
    traffic = _traffic(snapshot.totals)
    counts = bool(snapshot.weights[CPU] > 0)
    usage = np.nan_to_num(snapshot.usage[:, CPU])
    utilised = np.nan_to_num(snapshot.utilisation[:, CPU])
    enough = traffic >= JUDGED_FROM * _mean(traffic, snapshot.eligible)
    judged = snapshot.eligible & enough & (usage > 0) & (traffic > 0) & counts
    unit = _weighted_median(usage[judged] / traffic[judged], traffic[judged]) if judged.any() else 0.0
    due = traffic * unit
    ratio = usage / np.maximum(due, 1e-12)
    relevant = snapshot.eligible & (utilised >= MATTERS) & (unit > 0)
    foreign = relevant & (ratio > FOREIGN)
    speed = np.where(judged & ~foreign & ((ratio > SAME) | (ratio < 1 / SAME)), ratio, 1.0)
    for at, known in remembered.items():
        if counts and not judged[at]:
            speed[at] = known
    backlog_s = snapshot.totals[:, _F["backlog_bytes"]] / np.maximum(_bytes(snapshot.totals), 1.0)
    usual = float(np.median(backlog_s[snapshot.eligible])) if snapshot.eligible.any() else 0.0
    return Capacity(
        speed=speed,
        explained=np.where(foreign & (usage > 0), np.minimum(1.0, due / np.maximum(usage, 1e-12)), 1.0),
        foreign=foreign,
        slow=(speed >= SLOW) | (backlog_s > np.maximum(BACKLOG_S, BACKLOG_FACTOR * usual)),
        impossible=_impossible(snapshot, np.where(judged, ratio, np.inf)),
    )


def _told(snapshot: Snapshot) -> Floats:
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


def _impossible(snapshot: Snapshot, ratio: Floats) -> NDArray[np.bool_]:
    """[B] utilised far above the limit. CPU that the broker's own bundles account for is load all the same."""
    over = np.nan_to_num(snapshot.utilisation) > IMPOSSIBLE_FACTOR
    if over[:, CPU].any():
        over[:, CPU] &= ratio > SLOW * _told(snapshot)
    return np.asarray(over.any(axis=1))


def _bytes(totals: Floats) -> Floats:
    return np.asarray(totals[:, _F["throughput_in"]] + totals[:, _F["throughput_out"]])


def _traffic(totals: Floats) -> Floats:
    """[B] messages and bytes, each as a share of the cluster's, half and half."""
    messages = totals[:, _F["msg_rate_in"]] + totals[:, _F["msg_rate_out"]]
    parts = [column / column.sum() for column in (messages, _bytes(totals)) if column.sum() > 0]
    return np.asarray(sum(parts) / len(parts)) if parts else np.zeros(len(totals))


def _mean(values: Floats, among: NDArray[np.bool_]) -> float:
    return float(values[among].mean()) if among.any() else 0.0


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][int(np.searchsorted(reached, reached[-1] / 2))])
