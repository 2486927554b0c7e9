"""One round of the extensible manager on a snapshot: the load data its leader would hold, and what it remembers.

Every broker of that manager averages its own load and reports the average; here the round keeps the averages for them.
A broker checks its load every loadBalancerReportUpdateMinIntervalMillis, and each check is one step of its average, so
a round stands for as many steps as fit into the time since the last one.

Surprise, kept: a broker starts its average again when a bundle leaves or joins it, so brokers that a move touched are
judged by their next minute alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Reason
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.settings.pulsar import PulsarKnobs
from controller.policy.placement.rules import track_placement
from controller.policy.view.frame import NOBODY
from controller.policy.view.reason_codes import ALLOWED, CODES
from controller.policy.view.snapshot import Bools, Snapshot
from controller.pulsar.load.bundle_stats import throughput
from controller.pulsar.load.load_data import (
    RESOURCE_FIELDS,
    Floats,
    NamespaceBundleStats,
    max_usage_with_weight,
    percent_usage,
)
from controller.pulsar.load.topk import top_bundles
from controller.pulsar.shedding.transfer import SECOND_MS, BrokerLoad, Cluster
from controller.pulsar.shedding.transfer_pair import TopBundle

MAX_STEPS = 1_000  # of an average at once: by then nothing is left of what was before
_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
_FIVE = [RESOURCES.index(name) for name in RESOURCE_FIELDS]
_SILENT = [CODES[Reason.NO_LOAD_DATA], CODES[Reason.OUTDATED_LOAD_DATA]]


class Average(NamedTuple):
    """One broker's averages: fraction and bytes/s, of this incarnation, as of that round."""

    incarnation: int
    load: float
    throughput: float
    at_ms: int


class Unloaded(NamedTuple):
    """When a bundle was decided to go, from where and to where (None: anywhere); `arrived`: seen elsewhere since."""

    at_ms: int
    source: str
    target: str | None
    arrived: bool = False


class ExtensibleRound:
    """What the leader knows at this round. `brokers`: indices of those in Pulsar's registry."""

    def __init__(self, snapshot: Snapshot, memory: Mapping[str, Any], knobs: PulsarKnobs) -> None:
        self.snapshot, self.knobs = snapshot, knobs
        block = snapshot.source_block
        # alive and not drained; a silent one is there for Pulsar, and stops it
        self.brokers = np.flatnonzero((block == ALLOWED) | np.isin(block, _SILENT))
        self.index = {snapshot.brokers[at]: at for at in self.brokers.tolist()}
        remembered = memory.get("recently_unloaded", {})
        self._remembered = [at for at in map(snapshot.place_of, remembered) if at is not None]
        self.unloaded = self._still_unloaded(remembered)
        self.averages = self._averages(memory.get("averages", {}))
        self._placement_state = track_placement(snapshot)
        self._top: dict[int, list[TopBundle]] = {}  # of the brokers that were looked into

    def cluster(self) -> Cluster:
        """The load data that TransferShedder reads."""
        grace_since_ms = self.snapshot.at_ms - self._grace_ms
        sources: dict[str, int] = {}
        for one in self.unloaded.values():
            sources[one.source] = max(one.at_ms, sources.get(one.source, one.at_ms))
        return Cluster(
            loads=[self._load(name, at) for name, at in self.index.items() if name in self.averages],
            available=self.index,
            now_ms=self.snapshot.at_ms,
            unloaded_bundles={
                bundle: one.at_ms for bundle, one in self.unloaded.items() if one.at_ms >= grace_since_ms
            },
            unloaded_brokers=sources,
            top_bundles=self.top_bundles,
            transferable=self._transferable,
        )

    def considered(self) -> Bools:
        """[N] the bundles that could have changed the outcome."""
        looked_into = np.zeros(len(self.snapshot.brokers) + 1, bool)  # the last one stands for NOBODY
        looked_into[list(self._top)] = True
        mask = looked_into[self.snapshot.owner]
        mask[self._remembered] = True  # whether each of them has gone decides on cool-downs and averages
        return np.asarray(mask)

    def kept(self, unloaded: Mapping[str, Unloaded]) -> dict[str, Any]:
        """The memory for the next round, with what this round unloads."""
        return {
            "averages": {broker: list(average) for broker, average in self.averages.items()},
            "recently_unloaded": {bundle: list(one) for bundle, one in {**self.unloaded, **unloaded}.items()},
        }

    def _still_unloaded(self, kept: Mapping[str, Any]) -> dict[str, Unloaded]:
        """Within the grace period, or while it cools its source down; without those that did not go after all."""
        snapshot = self.snapshot
        cooling_ms = self.knobs.load_balance_shedding_delay_in_seconds * SECOND_MS
        since_ms = snapshot.at_ms - max(self._grace_ms, cooling_ms)
        found: dict[str, Unloaded] = {}
        for bundle, values in kept.items():
            one = Unloaded(*values)
            at = self.snapshot.place_of(bundle)
            owner = NOBODY if at is None else int(snapshot.owner[at])
            settled = owner != NOBODY and not snapshot.in_flight[at]
            away = settled and snapshot.brokers[owner] != one.source
            if one.at_ms >= since_ms and (one.arrived or away or not settled):
                found[bundle] = one._replace(arrived=one.arrived or away)
        return found

    @property
    def _grace_ms(self) -> int:
        return self.knobs.load_balancer_shedding_grace_period_minutes * 60 * SECOND_MS

    def _averages(self, kept: Mapping[str, Any]) -> dict[str, Average]:
        """Of every broker in the registry that has ever reported its load."""
        snapshot = self.snapshot
        before = {broker: Average(*values) for broker, values in kept.items()}
        changed = self._changed_at_ms()
        fresh = (snapshot.source_block == ALLOWED).tolist()
        loads, traffic = self._weighted_max(), self._traffic()
        found: dict[str, Average] = {}
        for name, at in self.index.items():
            old = before.get(name)
            if old is not None and old.incarnation != snapshot.incarnation[at]:
                old = None
            if not fresh[at]:
                if old is not None:  # a stale average is kept, and is sorted in by Pulsar
                    found[name] = old
                continue
            if old is not None and changed.get(name, -1) >= old.at_ms:
                old = None
            found[name] = self._next(old, int(snapshot.incarnation[at]), float(loads[at]), float(traffic[at]))
        return found

    def _changed_at_ms(self) -> dict[str, int]:
        """Broker -> when a bundle was last decided to leave it or to join it, and did."""
        changed: dict[str, int] = {}
        for one in self.unloaded.values():
            for name in (one.source, one.target):
                if name is not None:
                    changed[name] = max(one.at_ms, changed.get(name, one.at_ms))
        return changed

    def _next(self, old: Average | None, incarnation: int, load: float, traffic: float) -> Average:
        now_ms = self.snapshot.at_ms
        if old is None:
            return Average(incarnation, load, traffic, now_ms)
        interval_ms = max(1, self.knobs.load_balancer_report_update_min_interval_millis)
        steps = min(MAX_STEPS, max(1, (now_ms - old.at_ms) // interval_ms))
        keep = 1.0
        for _ in range(steps):  # not a power: every machine must come to the same bits
            keep *= self.knobs.load_balancer_history_resource_percentage
        return Average(
            incarnation,
            old.load * keep + (1 - keep) * load,
            old.throughput * keep + (1 - keep) * traffic,
            now_ms,
        )

    def _weighted_max(self) -> Floats:
        """[B] fraction: the fullest of the five resources by weight; heap counts with its own."""
        knobs = self.knobs
        weights = np.array(
            [
                knobs.load_balancer_cpu_resource_weight,
                knobs.load_balancer_memory_resource_weight,
                knobs.load_balancer_direct_memory_resource_weight,
                knobs.bandwidth_in_weight,
                knobs.bandwidth_out_weight,
            ]
        )
        percent = percent_usage(self.snapshot.usage[:, _FIVE], self.snapshot.limit[:, _FIVE])
        return max_usage_with_weight(percent, weights)

    def _traffic(self) -> Floats:
        totals = self.snapshot.totals
        return np.asarray(totals[:, _F["throughput_in"]] + totals[:, _F["throughput_out"]])

    def _load(self, name: str, at: int) -> BrokerLoad:
        average, snapshot = self.averages[name], self.snapshot
        totals = snapshot.totals[at]
        fresh = snapshot.source_block[at] == ALLOWED
        return BrokerLoad(
            broker=name,
            weighted_max_ema=average.load,
            msg_throughput=float(totals[_F["throughput_in"]] + totals[_F["throughput_out"]]),
            msg_throughput_ema=average.throughput,
            # a broker that is silent for the round is silent for Pulsar too, whose own limit is half an hour
            updated_at_ms=int(snapshot.last_event_ms[at]) if fresh else -(2**62),
        )

    def _transferable(self, bundle: str, source: str, target: str) -> bool:
        """The filters, which are the round's own constraints: they hold for swaps as well."""
        at = self.snapshot.place_of(bundle)
        snapshot = self.snapshot
        if at is None or snapshot.bundle_block[at] != ALLOWED:
            return False
        ends = self.index[source], self.index[target]
        if not self._within_rules(at, ends[1]):
            return False
        return bool(snapshot.source_block[ends[0]] == ALLOWED and snapshot.target_block[ends[1]] == ALLOWED)

    def _within_rules(self, bundle: int, target: int) -> bool:
        """Isolation and anti-affinity: what has a policy is shed only if the knob says so, and to where it may be."""
        if self._placement_state is None:
            return True
        with_policies = self.knobs.load_balancer_shedding_bundles_with_policies_enabled
        if self._placement_state.rules.has_policy(bundle) and not with_policies:
            return False
        return self._placement_state.code(bundle, target) == ALLOWED

    @cached_property
    def _by_owner(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Bundles in the order of their owners, and where each owner's begin."""
        owner, count = self.snapshot.owner, len(self.snapshot.brokers)
        first = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(owner[owner >= 0], minlength=count), out=first[1:])
        keys = np.where(owner < 0, count, owner)
        # 16-bit keys are sorted by radix, which is what makes a million rows cheap
        return np.argsort(keys.astype(np.uint16) if count < 2**16 - 1 else keys, kind="stable"), first

    def top_bundles(self, broker: str) -> list[TopBundle]:
        """The broker's top bundles as it would report them, ascending."""
        at = self.index[broker]
        if at not in self._top:
            order, first = self._by_owner
            rows = order[first[at] : first[at + 1]].tolist()
            fields = self.snapshot.fields[rows].tolist()
            found = top_bundles(
                {self.snapshot.bundles[row]: _stats(values) for row, values in zip(rows, fields, strict=True)},
                self.knobs.load_balancer_max_number_of_bundles_in_bundle_load_report,
                excluded_namespaces=self.knobs.load_balancer_shedding_excluded_namespaces,
            )
            self._top[at] = [TopBundle(name, throughput(one)) for name, one in found]
        return self._top[at]


def _stats(values: list[float]) -> NamespaceBundleStats:
    return NamespaceBundleStats(
        msg_rate_in=values[_F["msg_rate_in"]],
        msg_rate_out=values[_F["msg_rate_out"]],
        msg_throughput_in=values[_F["throughput_in"]],
        msg_throughput_out=values[_F["throughput_out"]],
        topics=int(values[_F["topics"]]),
        consumer_count=int(values[_F["consumers"]]),
        producer_count=int(values[_F["producers"]]),
        cache_size=int(values[_F["cache_bytes"]]),
    )
