"""Selects the bundles that a broker of the extensible manager splits: DefaultNamespaceBundleSplitStrategyImpl.

The strategy uses instant rates and splits a bundle once it was too big in more consecutive cycles than the threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controller.domain.errors import BadRecord, BallastError
from controller.domain.ids import Bundle
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.bundle_stats import msg_rate, sessions, throughput
from controller.pulsar.load.load_data import MIB, NamespaceBundleStats
from controller.pulsar.reasons import SplitReason


class SplitDecision(NamedTuple):
    """One split. Both children stay on the parent's broker; Pulsar's auto-unload knob is ignored."""

    bundle: str
    broker: str
    children: tuple[str, str]  # ranges
    reason: SplitReason


@dataclass(frozen=True, slots=True)
class SplitOutcome:
    """`hits`: bundle -> consecutive cycles in which it was too big, for the next cycle. `failures`: how many."""

    decisions: tuple[SplitDecision, ...]
    hits: Mapping[str, int]
    failures: int


class Surroundings(NamedTuple):
    """What the strategy asks its broker. The callables raise BallastError where Pulsar's lookup would fail."""

    broker: str
    is_owner: Callable[[str], bool]
    namespace_bundles: Callable[[str], int]
    boundaries: Callable[[str], Sequence[int] | None]
    splitting: Collection[str] = ()  # bundles in state Splitting in the channel


def too_big(stats: NamespaceBundleStats, knobs: PulsarKnobs) -> SplitReason | None:
    """The first limit that the bundle exceeds, in Pulsar's order."""
    max_sessions = knobs.load_balancer_namespace_bundle_max_sessions
    if stats.topics > knobs.load_balancer_namespace_bundle_max_topics:
        return SplitReason.TOPICS
    if max_sessions > 0 and sessions(stats) > max_sessions:
        return SplitReason.SESSIONS
    if msg_rate(stats) > knobs.load_balancer_namespace_bundle_max_msg_rate:
        return SplitReason.MSG_RATE
    if throughput(stats) > knobs.load_balancer_namespace_bundle_max_bandwidth_mbytes * MIB:
        return SplitReason.BANDWIDTH
    return None


def find_bundles_to_split(
    stats: Mapping[str, NamespaceBundleStats], hits: Mapping[str, int], knobs: PulsarKnobs, around: Surroundings
) -> SplitOutcome:
    """Run one cycle over the broker's bundles, in the broker's own order."""
    cycle = _Cycle(hits={b: n for b, n in hits.items() if b in stats}, knobs=knobs, around=around)
    for bundle, one in stats.items():
        cycle.judge(bundle, one)
        # Surprise: bundles behind a full cycle are not even counted, so they take longer to split
        if len(cycle.decisions) == knobs.load_balancer_max_number_of_bundles_to_split_per_cycle:
            break
    return SplitOutcome(tuple(cycle.decisions), cycle.hits, cycle.failures)


class _Cycle:
    def __init__(self, hits: dict[str, int], knobs: PulsarKnobs, around: Surroundings) -> None:
        self.hits, self.knobs, self.around = hits, knobs, around
        self.decisions: list[SplitDecision] = []
        self.planned: dict[str, int] = {}
        self.failures = 0

    def judge(self, name: str, stats: NamespaceBundleStats) -> None:
        """Count a hit of this bundle and decide on a split once there are enough."""
        if stats.topics < 2 or not self.around.is_owner(name):
            return
        try:
            bundle = Bundle.parse(name)
        except BadRecord:
            self.failures += 1
            return
        if bundle.upper - bundle.lower <= 1:
            self.failures += 1
            return
        reason = too_big(stats, self.knobs)
        if reason is None:
            self.hits.pop(name, None)
            return
        self.hits[name] = self.hits.get(name, 0) + 1
        # Surprise: only a split resets the counter; a bundle that _decide holds back stays armed
        if self.hits[name] > self.knobs.load_balancer_namespace_bundle_split_condition_hit_count_threshold:
            self._decide(name, bundle, reason)

    def _decide(self, name: str, bundle: Bundle, reason: SplitReason) -> None:
        namespace = bundle.namespace
        try:
            count = self.around.namespace_bundles(namespace) + self.planned.get(namespace, 0)
            if count >= self.knobs.load_balancer_namespace_maximum_bundles or self._sibling_splits(bundle):
                return
            boundaries = self.around.boundaries(name)
        except BallastError:
            self.failures += 1
            return
        # Surprise: the automatic split can never use flow_or_qps_equally_divide with two or more boundaries
        if boundaries is None or len(boundaries) != 1 or not bundle.lower < boundaries[0] < bundle.upper:
            self.failures += 1
            return
        lower, upper = (str(child).rpartition("/")[2] for child in bundle.split_at(boundaries[0]))
        self.decisions.append(SplitDecision(name, self.around.broker, (lower, upper), reason))
        self.planned[namespace] = self.planned.get(namespace, 0) + 1
        del self.hits[name]

    def _sibling_splits(self, bundle: Bundle) -> bool:
        """Whether a bundle of the namespace that shares this bundle's lower or upper bound is being split.

        Surprise: Pulsar compares namespaces by prefix, so a split in `t/ns10` holds back `t/ns1`.
        """
        for other in self.around.splitting:
            if not other.startswith(bundle.namespace):
                continue
            lower, upper = _bounds(other)
            if lower == bundle.lower or upper == bundle.upper:
                return True
        return False


def _bounds(name: str) -> tuple[int, int]:
    found = Bundle.parse(name)
    return found.lower, found.upper
