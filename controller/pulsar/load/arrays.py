"""The input of Pulsar's modular shedders as arrays: brokers, and the bundles with load data and their holders.

A bundle appears once for every broker that reports holding it; a stale report can make that two. The caller chooses
the order, and where Pulsar iterates over a hash map, the first in that order wins a tie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Reason
from controller.pulsar.load.load_data import Floats

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LoadArrays:
    """B brokers and N rows "this broker holds that bundle". Rates are in + out per second, usage is a fraction."""

    brokers: tuple[str, ...]
    usage: Floats  # [B] max_usage_with_weight
    msg_rate: Floats  # [B]
    throughput: Floats  # [B]
    bundle_count: Ints  # [B] bundles that the broker holds, with or without load data
    bundles: tuple[str, ...]  # [N] names
    holder: Ints  # [N] index into brokers
    short_msg_rate: Floats  # [N] short-term average
    short_throughput: Floats  # [N] short-term average
    barred: NDArray[np.bool_]  # [N] unloaded recently, or never to be shed

    def rows_of(self, broker: int) -> Ints:
        """The rows of one broker, in order."""
        order, first = self._by_holder
        return order[first[broker] : first[broker + 1]]

    def heaviest_first(self, broker: int, values: Floats) -> tuple[Ints, Floats]:
        """The broker's rows that are not barred, with the largest value first, and their values.

        `values`: [N], one of the two short-term averages. The other one breaks ties.
        """
        rows = self.rows_of(broker)
        rows = rows[~self.barred[rows]]
        other = self.short_msg_rate if values is self.short_throughput else self.short_throughput
        rows = rows[np.lexsort((-other[rows], -values[rows]))]
        return rows, values[rows]

    @cached_property
    def _by_holder(self) -> tuple[Ints, Ints]:
        count = len(self.brokers)
        # numpy sorts 16-bit keys with radix sort, which makes a million rows cheap
        keys = self.holder.astype(np.uint16) if count < 2**16 else self.holder
        first = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(self.holder, minlength=count), out=first[1:])
        return np.argsort(keys, kind="stable"), first


@dataclass(frozen=True, eq=False)
class Shedding:
    """What a shedder chose. `rows`: broker -> rows in the order chosen. `reasons`: why the other brokers shed nothing.

    A broker in neither is balanced. `evidence`: broker -> the quantised figures behind its result. `cause`: the reason
    of every move. `looked_into`: the brokers whose bundles could have changed the choice.
    """

    cause: Reason = Reason.ABOVE_MEAN
    rows: Mapping[int, Ints] = field(default_factory=dict)
    reasons: Mapping[int, Reason] = field(default_factory=dict)
    evidence: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    looked_into: frozenset[int] = frozenset()


def enough(rows: Ints, values: Floats, needed: float) -> Ints:
    """The first rows whose sum reaches `needed`, at least one if there is any. Values are in descending order.

    This is the loop of OverloadShedder and ThresholdShedder. Surprise: their documentation says that exactly one
    bundle is unloaded, but they unload as many as it takes.
    """
    chosen_before = np.concatenate([[0.0], np.cumsum(values)[:-1]])
    return rows[: max(1, int(np.count_nonzero(chosen_before < needed)))] if len(rows) else rows


def nothing_movable(load: LoadArrays, broker: int) -> Reason:
    """Why a broker that should shed has no bundle to shed."""
    rows = load.rows_of(broker)
    return Reason.GRACE_PERIOD if len(rows) and bool(load.barred[rows].all()) else Reason.NO_BUNDLES


def quantise(value: float) -> int:
    """A fraction in hundredths of a percentage point, the unit of scores."""
    return round(max(-1e11, min(1e11, float(value))) * 10_000)
