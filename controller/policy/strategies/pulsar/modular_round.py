"""One round of the modular manager on a snapshot: the load data it would have, then its shedding cycle.

ModularLoadManagerImpl.doLoadShedding: expire what was unloaded long ago, ask the shedder, choose a destination for each
bundle before it is unloaded. Only brokers that may take part (alive, fresh reports, not drained) exist for Pulsar.

What Pulsar keeps in the leader's memory is kept in the round's: moving averages of every bundle, and when a bundle was
unloaded. One whose owner is still the source in the next round was not unloaded after all and is forgotten.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from controller.domain.decision import Reason
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.settings.pulsar import PulsarKnobs
from controller.policy.view.frame import NOBODY, namespaces_of
from controller.policy.view.reason_codes import ALLOWED, REASONS
from controller.policy.view.snapshot import Bools, Snapshot
from controller.pulsar.load.arrays import Ints, LoadArrays
from controller.pulsar.load.load_data import (
    WEIGHED_FIELDS,
    Floats,
    max_usage,
    max_usage_with_weight,
    percent_usage,
    resource_weights,
)
from controller.pulsar.load.time_averages import TimeAverages, next_averages
from controller.pulsar.placement.broker_selection import BrokerSelection
from controller.pulsar.placement.strategies import BrokerLoads, BundleToPlace, Draw, PlacementStrategy

COMMON_MEMORY = ("averages", "recently_unloaded")  # the parts of a memory that `ModularRound.kept` writes
_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
# what Pulsar averages one by one: bundles whose sums alone are equal have had other figures, now as before
_CONTENT = [_F[name] for name in ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out", "topics")]
_WEIGHED = [RESOURCES.index(name) for name in WEIGHED_FIELDS]
_ALL_FIVE = [RESOURCES.index(name) for name in (*WEIGHED_FIELDS, "memory")]


class ModularRound:
    """What Pulsar's leader would know at this round. Brokers of `load` are those of `brokers` (indices into all)."""

    def __init__(self, snapshot: Snapshot, memory: Mapping[str, Any], knobs: PulsarKnobs) -> None:
        self.snapshot, self.knobs = snapshot, knobs
        self.brokers = np.flatnonzero(snapshot.eligible)
        self.place = np.full(len(snapshot.brokers) + 1, -1, np.int64)  # the last one stands for NOBODY
        self.place[self.brokers] = np.arange(len(self.brokers))
        self.percent = percent_usage(snapshot.usage[self.brokers], snapshot.limit[self.brokers])
        self.recently_unloaded = self._not_expired(memory.get("recently_unloaded", {}))
        self.held = np.flatnonzero(self.place[snapshot.owner] >= 0)  # bundles whose holder takes part
        self.averages = self._averages(memory.get("averages", {}))
        self.load = self._load()

    @property
    def highest_usage(self) -> Floats:
        """Fraction [brokers]: of all five resources, heap included, without weights."""
        return max_usage(self.percent[:, _ALL_FIVE])

    def draw(self, strategy: str) -> Draw:
        """Where Pulsar draws at random: a stream that follows from the round's time and the strategy's name."""
        return Draw(self.snapshot.at_ms * 0x100000001B3 ^ zlib.crc32(strategy.encode()))

    def broker_loads(self) -> BrokerLoads:
        """What placements look at, before anything is preallocated."""
        count = len(self.brokers)
        long_rate: Floats = np.bincount(self.load.holder, self.averages.long_msg_rate[self.held], count).astype(float)
        return BrokerLoads(self.load.brokers, self.load.usage, self.load.msg_rate, self.load.bundle_count, long_rate)

    def selection(self, loads: BrokerLoads, placement: PlacementStrategy) -> BrokerSelection:
        """The placement pipeline over the brokers of this round."""
        topics = np.rint(self.snapshot.totals[self.brokers, _F["topics"]]).astype(np.int64)
        weighted_usage = max_usage(self.percent[:, _WEIGHED])
        return BrokerSelection(loads, weighted_usage, topics, self._spread_of, placement, self.knobs)

    def targets(self) -> Bools:
        """[brokers] which of them may take something. Pulsar knows no such rule beside its filters."""
        return np.asarray(self.snapshot.target_block[self.brokers] == ALLOWED)

    def bundle(self, row: int) -> BundleToPlace:
        """What the placement knows of the bundle in a row of `load`."""
        at = int(self.held[row])
        averages = self.averages
        content = (
            int(averages.samples[at]),
            float(averages.short_msg_rate[at]),
            float(averages.short_throughput[at]),
            float(averages.long_msg_rate[at]),
            *self.snapshot.fields[at, _CONTENT].tolist(),
        )
        return BundleToPlace(float(averages.long_msg_rate[at]), content)

    def kept(self, unloaded: Mapping[str, str]) -> dict[str, Any]:
        """The memory for the next round. `unloaded`: bundle -> source of what this round moves."""
        now: dict[str, list[Any]] = {bundle: [self.snapshot.at_ms, source] for bundle, source in unloaded.items()}
        return {"averages": self.averages.to_memory(), "recently_unloaded": {**self.recently_unloaded, **now}}

    def _not_expired(self, kept: Mapping[str, Any]) -> dict[str, list[Any]]:
        """What was unloaded within the grace period and has left its source, seen elsewhere since or not.

        Once seen elsewhere no source is kept: a bundle that comes back to it later has been unloaded all the same.
        """
        snapshot = self.snapshot
        since_ms = snapshot.at_ms - self.knobs.load_balancer_shedding_grace_period_minutes * 60_000
        result = {}
        for bundle, (at_ms, source) in kept.items():
            at = snapshot.place_of(bundle)
            owner = NOBODY if at is None else int(snapshot.owner[at])
            stayed = owner != NOBODY and snapshot.brokers[owner] == source and not snapshot.in_flight[at]
            if at_ms >= since_ms and not stayed:
                arrived = owner != NOBODY and not snapshot.in_flight[at]
                result[bundle] = [at_ms, "" if arrived else source]
        return result

    def _averages(self, memory: Mapping[str, Any]) -> TimeAverages:
        fields = self.snapshot.fields
        rate = fields[:, _F["msg_rate_in"]] + fields[:, _F["msg_rate_out"]]
        throughput = fields[:, _F["throughput_in"]] + fields[:, _F["throughput_out"]]
        return next_averages(memory, self.snapshot.bundles, rate, throughput)

    def _load(self) -> LoadArrays:
        snapshot, held = self.snapshot, self.held
        totals = snapshot.totals[self.brokers]
        holder = self.place[snapshot.owner[held]]
        whole = len(held) == len(snapshot.bundles)
        names = snapshot.bundles if whole else tuple(snapshot.bundles[at] for at in held.tolist())
        return LoadArrays(
            brokers=tuple(snapshot.brokers[at] for at in self.brokers.tolist()),
            usage=max_usage_with_weight(self.percent[:, _WEIGHED], resource_weights(self.knobs)),
            msg_rate=totals[:, _F["msg_rate_in"]] + totals[:, _F["msg_rate_out"]],
            throughput=totals[:, _F["throughput_in"]] + totals[:, _F["throughput_out"]],
            bundle_count=np.bincount(holder, minlength=len(self.brokers)).astype(np.int64),
            bundles=names,
            holder=holder,
            short_msg_rate=self.averages.short_msg_rate[held],
            short_throughput=self.averages.short_throughput[held],
            barred=self._barred()[held],
        )

    def _barred(self) -> Bools:
        """[N] unloaded recently, of an excluded namespace, or forbidden by a constraint."""
        snapshot = self.snapshot
        barred = np.asarray(snapshot.bundle_block != ALLOWED)
        excluded = set(self.knobs.load_balancer_shedding_excluded_namespaces)
        if excluded:
            spaces, of_space = namespaces_of(snapshot.bundles)
            barred |= np.array([space in excluded for space in spaces], bool)[of_space]
        barred[[at for at in map(snapshot.place_of, self.recently_unloaded) if at is not None]] = True
        return barred

    def _spread_of(self, namespace: str) -> Ints:
        """[brokers] bundles of a namespace."""
        spaces, holders, first = self._holders_by_namespace
        at = bisect_left(spaces, namespace)
        return np.bincount(holders[first[at] : first[at + 1]], minlength=len(self.brokers)).astype(np.int64)

    @cached_property
    def _holders_by_namespace(self) -> tuple[tuple[str, ...], Ints, Ints]:
        """Namespaces (sorted), the holders of all bundles in that order, and where each namespace's begin."""
        spaces, of_space = namespaces_of(self.snapshot.bundles)
        mine = of_space[self.held]
        first = np.zeros(len(spaces) + 1, np.int64)
        np.cumsum(np.bincount(mine, minlength=len(spaces)), out=first[1:])
        return spaces, self.load.holder[np.argsort(mine, kind="stable")], first


def blocked_reason(snapshot: Snapshot, at: int) -> Reason | None:
    """Why a broker takes no part in the round, or None when it does."""
    code = int(snapshot.source_block[at])
    return None if code == ALLOWED else REASONS[code]
