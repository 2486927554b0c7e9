"""What a broker of the extensible manager reports about itself, and how it computes that (Pulsar: BrokerLoadData).

`usages` by resource, named as in load_data.RESOURCE_FIELDS; only their percentages matter. The moving averages (EMA)
are of fractions and bytes/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.load_data import RESOURCE_FIELDS, ResourceUsage

_UNKNOWN = ResourceUsage()


@dataclass(frozen=True, slots=True)
class BrokerLoadData:
    """One report. `updated_at_ms` 0: never updated, so the next update takes the raw values.

    Both fractions default to 1.0 in Pulsar: a broker that has not reported yet looks full.
    """

    usages: Mapping[str, ResourceUsage] = field(default_factory=dict)
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    bundle_count: int = 0
    topics: int = 0
    max_resource_usage: float = 1.0  # unweighted, without heap memory
    weighted_max_ema: float = 1.0
    msg_throughput_ema: float = 0.0
    updated_at_ms: int = 0
    reported_at_ms: int = 0

    @property
    def msg_throughput(self) -> float:
        """Bytes/s in + out."""
        return self.msg_throughput_in + self.msg_throughput_out

    @property
    def msg_rate(self) -> float:
        """Messages/s in + out."""
        return self.msg_rate_in + self.msg_rate_out


@dataclass(frozen=True, slots=True)
class BrokerSample:
    """The host's usage and the broker's statistics at one moment."""

    usages: Mapping[str, ResourceUsage] = field(default_factory=dict)
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    bundle_count: int = 0
    topics: int = 0


def max_resource_usage(usages: Mapping[str, ResourceUsage]) -> float:
    """The usage of the fullest resource as a fraction, unweighted and without heap memory."""
    return max(usages.get(name, _UNKNOWN).percent() for name in RESOURCE_FIELDS if name != "memory") / 100


def weighted_max(usages: Mapping[str, ResourceUsage], knobs: PulsarKnobs) -> float:
    """The largest percentage x weight as a fraction. Surprise: heap counts here, but its weight is 0 by default."""
    weights = (
        knobs.load_balancer_cpu_resource_weight,
        knobs.load_balancer_memory_resource_weight,
        knobs.load_balancer_direct_memory_resource_weight,
        knobs.bandwidth_in_weight,
        knobs.bandwidth_out_weight,
    )
    pairs = zip(RESOURCE_FIELDS, weights, strict=True)
    return max(usages.get(name, _UNKNOWN).percent() * weight for name, weight in pairs) / 100


def next_load(data: BrokerLoadData, sample: BrokerSample, knobs: PulsarKnobs, now_ms: int) -> BrokerLoadData:
    """The data after one update.

    Surprise: every update advances the averages by one step, and the report check, each scrape of the metrics and each
    forced report all update. So scraping the metrics makes the averages forget faster.
    """
    first = data.updated_at_ms == 0
    keep = knobs.load_balancer_history_resource_percentage
    raw = weighted_max(sample.usages, knobs)
    traffic = sample.msg_throughput_in + sample.msg_throughput_out
    return BrokerLoadData(
        usages=sample.usages,
        msg_throughput_in=sample.msg_throughput_in,
        msg_throughput_out=sample.msg_throughput_out,
        msg_rate_in=sample.msg_rate_in,
        msg_rate_out=sample.msg_rate_out,
        bundle_count=sample.bundle_count,
        topics=sample.topics,
        max_resource_usage=max_resource_usage(sample.usages),
        weighted_max_ema=raw if first else ema(data.weighted_max_ema, raw, keep),
        msg_throughput_ema=traffic if first else ema(data.msg_throughput_ema, traffic, keep),
        updated_at_ms=now_ms,
        reported_at_ms=data.reported_at_ms,
    )


def ema(average: float, value: float, keep: float) -> float:
    """One step of the moving average: `keep` is the weight of the average, the rest that of the new value."""
    return average * keep + (1 - keep) * value


def clear(data: BrokerLoadData) -> BrokerLoadData:
    """The data after a bundle came or left: all defaults, so that the averages start from scratch."""
    return replace(BrokerLoadData(), reported_at_ms=data.reported_at_ms)
