"""TransferShedder, the shedder of the extensible manager: it pairs the fullest with the emptiest broker and swaps.

The code is pure. Input: load data, the hit count and recent unloads. Output: decisions and the next hit count. Loads
are fractions (weightedMaxEMA), traffic is in bytes/s in + out, times are in ms.

Arithmetic follows Java where it differs from Python: x / 0 is infinite or NaN, and NaN is never greater.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.load_stats import LoadStats
from controller.pulsar.reasons import UnloadLabel, UnloadReason
from controller.pulsar.shedding.transfer_pair import Offload, Pair, TopBundle, plan_pair
from controller.pulsar.system_namespaces import namespace_of_bundle_name

SECOND_MS = 1_000
Transferable = Callable[[str, str, str], bool]


class Unload(NamedTuple):
    """One decision with label Success. `target` None: unload without a destination (transfer switched off)."""

    bundle: str
    source: str
    target: str | None
    reason: UnloadReason


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A broker's newest load data."""

    broker: str
    weighted_max_ema: float
    msg_throughput: float = 0.0
    msg_throughput_ema: float = 0.0
    updated_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The input of a cycle. `available` None: the registry did not answer.

    `loads`: in the order of the load store, which breaks ties. `unloaded_*`: name -> time of the unload, ms; a bundle
    is listed only during its grace period. `top_bundles`: as the broker reported them, in ascending order, the busiest
    last; empty if it reported none.
    """

    loads: Sequence[BrokerLoad]
    available: Collection[str] | None
    now_ms: int
    unloaded_bundles: Mapping[str, int]
    unloaded_brokers: Mapping[str, int]
    top_bundles: Callable[[str], Sequence[TopBundle]] = lambda broker: ()
    is_owner: Callable[[str, str], bool] = lambda bundle, broker: True
    transferable: Transferable = lambda bundle, source, target: True


@dataclass(frozen=True, slots=True)
class Outcome:
    """`verdict`: the label and reason counted if nothing moves; None if something does.

    `hits` is the input of the next cycle. `cooled`: brokers whose cool-down is over; Pulsar forgets them now. The cycle
    started with `average` and `std` and expects `std_after`. `exhausted`: it ended because no pair of brokers was left,
    or because the maximum number of brokers was relieved.
    """

    decisions: tuple[Unload, ...]
    verdict: tuple[UnloadLabel, UnloadReason] | None
    hits: int
    average: float = 0.0
    std: float = 0.0
    std_after: float = 0.0
    cooled: tuple[str, ...] = ()
    exhausted: bool = False


def find_bundles_for_unloading(cluster: Cluster, hits: int, knobs: PulsarKnobs) -> Outcome:
    """One shedding cycle."""
    if cluster.available is None:
        return Outcome((), (UnloadLabel.FAILURE, UnloadReason.UNKNOWN), hits)
    usable, why_not, cooled = _usable(cluster, cluster.available, knobs)
    if why_not is not None:
        # Surprise: one broker that is cooling down or silent stops the cycle for the whole cluster
        return Outcome((), (UnloadLabel.SKIP, why_not), hits, cooled=cooled)
    cycle = _Cycle(cluster, knobs, LoadStats.of([load.weighted_max_ema for load in usable]))
    average, std = cycle.stats.average, cycle.stats.std
    hits = hits + 1 if cycle.reason() is not None else 0
    if hits <= knobs.load_balancer_shedding_condition_hit_count_threshold:  # must be exceeded
        return Outcome((), (UnloadLabel.SKIP, UnloadReason.HIT_COUNT), hits, average, std, std, cooled)
    decisions = tuple(dict.fromkeys(cycle.run()))  # a set in Pulsar
    verdict = None if decisions else (UnloadLabel.SKIP, cycle.obstacle())
    kept_hits = 0 if decisions else hits
    return Outcome(decisions, verdict, kept_hits, average, std, cycle.stats.std, cooled, not cycle.has_pair())


def may_shed(has_isolation_policy: bool, has_anti_affinity_group: bool, knobs: PulsarKnobs) -> bool:
    """Whether policies allow shedding a bundle (isLoadBalancerSheddingBundlesWithPoliciesEnabled)."""
    if has_isolation_policy or has_anti_affinity_group:
        return knobs.load_balancer_shedding_bundles_with_policies_enabled
    return True


def is_transferable(
    source: str, target: str | None, eligible: Collection[str] | None, knobs: PulsarKnobs, allowed: bool = True
) -> bool:
    """Whether the filters leave the target (isTransferable). `eligible`: what they leave; None: one of them failed.

    `allowed`: what `may_shed` says. Without a target, or with transfer switched off, some other broker must be left.
    """
    if not allowed or eligible is None or (target is not None and target not in eligible):
        return False
    others = [broker for broker in eligible if broker != source]
    if target is None or not knobs.load_balancer_transfer_enabled:
        return bool(others)
    return target in others


def scheduler_runs(knobs: PulsarKnobs, is_channel_owner: bool, available_brokers: int) -> bool:
    """Whether UnloadScheduler calls the strategy: it is enabled, on the leader, and there is more than one broker."""
    switched_on = knobs.load_balancer_enabled and knobs.load_balancer_shedding_enabled
    return switched_on and is_channel_owner and available_brokers > 1


def _usable(
    cluster: Cluster, available: Collection[str], knobs: PulsarKnobs
) -> tuple[list[BrokerLoad], UnloadReason | None, tuple[str, ...]]:
    """The load data behind the mean, the reason to stop the cycle if any, and the brokers that have cooled down."""
    missing = set(available)
    usable: list[BrokerLoad] = []
    cooled: list[str] = []
    stale = False
    for load in cluster.loads:
        missing.discard(load.broker)
        if cluster.now_ms - load.updated_at_ms > knobs.load_balancer_broker_load_data_ttl_in_seconds * SECOND_MS:
            stale = True
            continue
        unloaded_at = cluster.unloaded_brokers.get(load.broker)
        if unloaded_at is not None:
            if load.updated_at_ms - unloaded_at < knobs.load_balance_shedding_delay_in_seconds * SECOND_MS:
                return [], UnloadReason.COOL_DOWN, tuple(cooled)
            cooled.append(load.broker)
        usable.append(load)
    if not usable:
        return [], UnloadReason.OUTDATED_DATA if stale else UnloadReason.NO_BROKERS, tuple(cooled)
    return usable, UnloadReason.NO_LOAD_DATA if missing else None, tuple(cooled)


class _Cycle:
    """The loop over pairs; `low` and `high` are indices into the brokers sorted by load."""

    def __init__(self, cluster: Cluster, knobs: PulsarKnobs, stats: LoadStats) -> None:
        self.cluster, self.knobs, self.stats = cluster, knobs, stats
        # Surprise: brokers with stale load data do not count for the mean but are ranked all the same, so one of them
        # may be chosen as the fullest or the emptiest
        self.ranked = sorted(cluster.loads, key=lambda load: load.weighted_max_ema)
        self.low, self.high = 0, len(self.ranked) - 1
        self.pairs = self.without_load_data = self.with_few_bundles = 0

    def reason(self) -> UnloadReason | None:
        """Why to continue: the spread, else an idle broker, else a full one. None: the cluster is balanced."""
        lowest, highest = self.ranked[self.low], self.ranked[self.high]
        if self.stats.std > self.knobs.load_balancer_broker_load_target_std:
            return UnloadReason.OVERLOADED
        if self._is_underloaded(lowest, highest):
            return UnloadReason.UNDERLOADED
        return UnloadReason.OVERLOADED if self._is_overloaded(highest) else None

    def run(self) -> list[Unload]:
        """All decisions of this cycle."""
        decisions: list[Unload] = []
        while self.has_pair():
            reason = self.reason()
            if reason is None:
                break
            highest, lowest = self.ranked[self.high], self.ranked[self.low]
            self.high -= 1  # always; the lowest broker stays until something moves to it
            decisions += self._shed(highest, lowest, reason)
        return decisions

    def has_pair(self) -> bool:
        """Whether the cycle may try another pair."""
        limit = self.knobs.load_balancer_max_number_of_broker_shedding_per_cycle
        return self.pairs < limit and self.low < self.high

    def obstacle(self) -> UnloadReason:
        """The one reason that is counted if no pair moved anything."""
        if self.without_load_data:
            return UnloadReason.NO_LOAD_DATA
        return UnloadReason.NO_BUNDLES if self.with_few_bundles else UnloadReason.HIT_COUNT

    def _shed(self, highest: BrokerLoad, lowest: BrokerLoad, reason: UnloadReason) -> list[Unload]:
        bundles = self.cluster.top_bundles(highest.broker)
        if not bundles:
            self.without_load_data += 1
            return []
        if len(bundles) == 1:
            self.with_few_bundles += 1
            return []
        pair = self._pair(highest, lowest, bundles)
        planned = plan_pair(pair, self._may_leave, self.cluster.transferable, self.knobs)
        if not planned.given > 0:
            self.with_few_bundles += 1
            return []
        load, traffic = highest.weighted_max_ema, highest.msg_throughput
        self.stats = self.stats.after(load, lowest.weighted_max_ema, divide(planned.net * load, traffic))
        self.pairs, self.low = self.pairs + 1, self.low + 1
        return [self._unload(move, highest.broker, lowest.broker, reason) for move in planned.moves]

    def _unload(self, move: Offload, highest: str, lowest: str, reason: UnloadReason) -> Unload:
        source, target = (lowest, highest) if move.back else (highest, lowest)
        return Unload(move.bundle, source, target if self.knobs.load_balancer_transfer_enabled else None, reason)

    def _pair(self, highest: BrokerLoad, lowest: BrokerLoad, bundles: Sequence[TopBundle]) -> Pair:
        half = (highest.weighted_max_ema - lowest.weighted_max_ema) / 2
        return Pair(
            highest.broker,
            lowest.broker,
            highest.msg_throughput,
            lowest.msg_throughput,
            divide(highest.msg_throughput * half, highest.weighted_max_ema),
            bundles,
            lambda: self.cluster.top_bundles(lowest.broker),
        )

    def _may_leave(self, bundle: str, source: str) -> bool:
        """The conditions that do not depend on the target."""
        return (
            self.cluster.is_owner(bundle, source)
            and namespace_of_bundle_name(bundle) not in self.knobs.load_balancer_shedding_excluded_namespaces
            and bundle not in self.cluster.unloaded_bundles
        )

    def _is_underloaded(self, lowest: BrokerLoad, highest: BrokerLoad) -> bool:
        part = min(0.5, max(0.0, self.knobs.load_balancer_broker_load_target_std / 2.0))
        if lowest.weighted_max_ema < self.stats.average * part:
            return True
        return lowest.msg_throughput_ema < highest.msg_throughput_ema * part

    def _is_overloaded(self, highest: BrokerLoad) -> bool:
        load, knobs = highest.weighted_max_ema, self.knobs
        full = load > knobs.load_balancer_broker_overloaded_threshold_percentage / 100.0
        return full and load > self.stats.average + knobs.load_balancer_broker_load_target_std


def divide(a: float, b: float) -> float:
    """a / b as Java divides doubles."""
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)
