"""The load data of Pulsar's modular manager as plain values, and the maths on it.

Names and fields are those of Pulsar's classes (LocalBrokerData, ResourceUsage, NamespaceBundleStats, BundleData,
TimeAverageMessageData, TimeAverageBrokerData). Percentages are computed in 32-bit floats exactly where Pulsar does so:
the error is visible (10, 20 and 30 % have a mean of 0.2000000063578288) and decides whether a threshold is just met.

Units: messages/s and bytes/s; usage and limit of a resource share any one unit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.domain.settings.pulsar import PulsarKnobs

Floats = NDArray[np.float64]

NUM_SHORT_SAMPLES = 10  # ModularLoadManagerImpl.NUM_SHORT_SAMPLES
NUM_LONG_SAMPLES = 1_000  # ModularLoadManagerImpl.NUM_LONG_SAMPLES
MIB = 1024 * 1024


class ResourceUsage(NamedTuple):
    """Usage and limit of one resource. A freshly started broker reports -1 of -1."""

    usage: float = -1.0
    limit: float = -1.0

    def percent(self) -> float:
        """Percent of the limit (ResourceUsage.percentUsage): 32-bit, 0 without a limit, not capped at 100."""
        return float(percent_usage(np.array([self.usage]), np.array([self.limit]))[0])


NEVER_SAMPLED = ResourceUsage()


def percent_usage(usage: Floats, limit: Floats) -> Floats:
    """Percent of the limit, element by element, each step in 32 bits as in Java; 0 where the limit is <= 0 or NaN."""
    known = (limit > 0) & np.isfinite(usage)
    with np.errstate(over="ignore"):  # a limit beyond 32 bits becomes infinite, as in Java
        part = np.where(known, usage, 0.0).astype(np.float32) / np.where(known, limit, 1.0).astype(np.float32)
        return np.asarray((part * np.float32(100)).astype(np.float64))


def max_usage_with_weight(percent: Floats, weights: Floats) -> Floats:
    """The largest weighted percentage over the last axis, as a fraction computed in 64 bits.

    LocalBrokerData.getMaxResourceUsageWithWeight. Columns: cpu, direct memory, bandwidth in, bandwidth out. The modular
    manager ignores heap memory whatever its weight: it says more about garbage collection than about load.
    """
    return np.asarray((percent * weights).max(axis=-1, initial=-np.inf) / 100)


def max_usage(percent: Floats) -> Floats:
    """The largest percentage as a fraction computed in 32 bits (getMaxResourceUsage). Columns as above."""
    largest = percent.max(axis=-1, initial=-np.inf).astype(np.float32)
    return np.asarray((largest / np.float32(100)).astype(np.float64))


def resource_weights(knobs: PulsarKnobs) -> Floats:
    """The weights in the order of the columns of `max_usage_with_weight`."""
    return np.array(
        [
            knobs.load_balancer_cpu_resource_weight,
            knobs.load_balancer_direct_memory_resource_weight,
            knobs.bandwidth_in_weight,
            knobs.bandwidth_out_weight,
        ]
    )


@dataclass(frozen=True, slots=True)
class NamespaceBundleStats:
    """What a broker reports about one bundle at one moment."""

    msg_rate_in: float = 0.0
    msg_throughput_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_out: float = 0.0
    consumer_count: int = 0
    producer_count: int = 0
    topics: int = 0
    cache_size: int = 0


# assumed for a bundle that no broker has reported yet (ModularLoadManagerImpl's defaultStats)
DEFAULT_STATS = NamespaceBundleStats(
    msg_rate_in=50.0, msg_rate_out=50.0, msg_throughput_in=50_000.0, msg_throughput_out=50_000.0
)


@dataclass(frozen=True, slots=True)
class LocalBrokerData:
    """What a broker reports about itself."""

    cpu: ResourceUsage = NEVER_SAMPLED
    memory: ResourceUsage = NEVER_SAMPLED
    direct_memory: ResourceUsage = NEVER_SAMPLED
    bandwidth_in: ResourceUsage = NEVER_SAMPLED
    bandwidth_out: ResourceUsage = NEVER_SAMPLED
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    num_topics: int = 0
    num_bundles: int = 0
    bundles: tuple[str, ...] = ()
    last_stats: Mapping[str, NamespaceBundleStats] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LocalBrokerData:
        """Parse Pulsar's JSON. Unused fields and those of other versions (bundleStats, maxResourceUsage) are ignored.

        A resource is {"usage": u, "limit": l} or, in case files, [u, l].
        """
        known = {_camel(f.name): f.name for f in fields(cls) if f.name != "last_stats"}
        values: dict[str, Any] = {}
        for name, value in document.items():
            if name == "lastStats":
                values["last_stats"] = {bundle: _stats(stats) for bundle, stats in value.items()}
            elif name in known:
                resource = isinstance(getattr(_EMPTY, known[name]), ResourceUsage)
                values[known[name]] = _resource(value) if resource else tuple(value) if name == "bundles" else value
        return cls(**values)

    def percents(self) -> dict[str, float]:
        """Usage of each resource in percent of its limit, by Pulsar's name of the resource."""
        return {_camel(name): getattr(self, name).percent() for name in RESOURCE_FIELDS}

    def max_resource_usage(self) -> float:
        """The largest usage as a fraction; see `max_usage`."""
        return float(max_usage(self._percent_columns()))

    def max_resource_usage_with_weight(self, knobs: PulsarKnobs) -> float:
        """The largest weighted usage as a fraction; see `max_usage_with_weight`."""
        return float(max_usage_with_weight(self._percent_columns(), resource_weights(knobs)))

    def _percent_columns(self) -> Floats:
        return np.array([getattr(self, name).percent() for name in WEIGHED_FIELDS])


RESOURCE_FIELDS = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
WEIGHED_FIELDS = ("cpu", "direct_memory", "bandwidth_in", "bandwidth_out")  # columns of max_usage_with_weight
_EMPTY = LocalBrokerData()


@dataclass(frozen=True, slots=True)
class TimeAverageMessageData:
    """A moving average with a saturating count: n = min(n + 1, max), average = ((n - 1) * average + x) / n.

    The first sample replaces the initial values. From `max_samples` on this is an exponential average with weight
    1 / max_samples.
    """

    max_samples: int = 0
    num_samples: int = 0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0

    @classmethod
    def initial(cls, max_samples: int, stats: NamespaceBundleStats, num_samples: int = 0) -> TimeAverageMessageData:
        """The averages before the first sample."""
        return cls(
            max_samples,
            num_samples,
            stats.msg_throughput_in,
            stats.msg_throughput_out,
            stats.msg_rate_in,
            stats.msg_rate_out,
        )

    def after(self, stats: NamespaceBundleStats) -> TimeAverageMessageData:
        """The averages after one more sample."""
        n = min(self.num_samples + 1, self.max_samples)
        averages = {name: ((n - 1) * getattr(self, name) + getattr(stats, name)) / n for name in RATE_FIELDS}
        return replace(self, num_samples=n, **averages)


RATE_FIELDS = ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")


@dataclass(frozen=True, slots=True)
class BundleData:
    """What the leader remembers about a bundle. Surprise: equal content makes two bundles equal (see AvgShedder)."""

    short_term: TimeAverageMessageData
    long_term: TimeAverageMessageData
    topics: int = 0

    @classmethod
    def default(cls) -> BundleData:
        """The data of a bundle that no broker has reported yet."""
        return cls(
            TimeAverageMessageData.initial(NUM_SHORT_SAMPLES, DEFAULT_STATS),
            TimeAverageMessageData.initial(NUM_LONG_SAMPLES, DEFAULT_STATS),
        )

    @classmethod
    def from_quota(
        cls, msg_rate_in: float, msg_rate_out: float, bandwidth_in: float, bandwidth_out: float
    ) -> BundleData:
        """The data of a bundle with a resource quota, which counts as a full history: both averages start saturated."""
        stats = NamespaceBundleStats(msg_rate_in, bandwidth_in, msg_rate_out, bandwidth_out)
        return cls(
            TimeAverageMessageData.initial(NUM_SHORT_SAMPLES, stats, NUM_SHORT_SAMPLES),
            TimeAverageMessageData.initial(NUM_LONG_SAMPLES, stats, NUM_LONG_SAMPLES),
        )

    def after(self, stats: NamespaceBundleStats) -> BundleData:
        """The data after one more sample in both averages."""
        return BundleData(self.short_term.after(stats), self.long_term.after(stats), int(stats.topics))


@dataclass(frozen=True, slots=True)
class TimeAverageBrokerData:
    """Sums over a broker's bundles, by RATE_FIELDS."""

    short_term: Mapping[str, float]
    long_term: Mapping[str, float]

    @classmethod
    def of(
        cls,
        bundles: Collection[str],
        data: Mapping[str, BundleData],
        default: NamespaceBundleStats = DEFAULT_STATS,
    ) -> TimeAverageBrokerData:
        """Sum up the bundles (TimeAverageBrokerData.reset). A bundle without data counts with the default stats."""
        short = dict.fromkeys(RATE_FIELDS, 0.0)
        long = dict.fromkeys(RATE_FIELDS, 0.0)
        for bundle in bundles:
            held = data.get(bundle)
            for name in RATE_FIELDS:
                short[name] += getattr(held.short_term if held else default, name)
                long[name] += getattr(held.long_term if held else default, name)
        return cls(short, long)


def next_history(history: Floats, usage: Floats, history_weight: float) -> Floats:
    """One step of the historical average p * h + (1 - p) * u. Without a history (NaN) it starts at the usage."""
    return np.where(np.isnan(history), usage, history * history_weight + (1 - history_weight) * usage)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _resource(value: Any) -> ResourceUsage:
    if isinstance(value, Mapping):
        return ResourceUsage(float(value.get("usage", -1.0)), float(value.get("limit", -1.0)))
    usage, limit = value
    return ResourceUsage(float(usage), float(limit))


def _stats(value: Mapping[str, Any]) -> NamespaceBundleStats:
    known = {_camel(f.name): f.name for f in fields(NamespaceBundleStats)}
    return NamespaceBundleStats(**{known[name]: number for name, number in value.items() if name in known})
