"""What a broker of the extensible manager reports about itself, and how it makes it (Pulsar: BrokerLoadData).

`usages` by resource, named as in load_data.RESOURCE_FIELDS; only their percentage counts. EMAs are of fractions and
bytes/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.load_data import RESOURCE_FIELDS, ResourceUsage

_UNKNOWN = ResourceUsage()


@dataclass(frozen=True, slots=True)
class BrokerLoadData:
    """One report. `updated_at_ms` 0: never updated; the next update takes the raw values.

    The defaults of the two fractions are 1.0 in Pulsar: a broker that has reported nothing yet looks full.
    """

    usages: Mapping[str, ResourceUsage] = field(default_factory=dict)
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    bundle_count: int = 0
    topics: int = 0
    max_resource_usage: float = 1.0  # unweighted, heap left out
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
    """What the host and the broker's statistics say at one moment."""

    usages: Mapping[str, ResourceUsage] = field(default_factory=dict)
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    bundle_count: int = 0
    topics: int = 0


def max_resource_usage(usages: Mapping[str, ResourceUsage]) -> float:
    """The fullest resource as a fraction, heap memory left out and no weights."""
    return max(usages.get(name, _UNKNOWN).percent() for name in RESOURCE_FIELDS if name != "memory") / 100


def weighted_max(usages: Mapping[str, ResourceUsage], knobs: PulsarKnobs) -> float:
    """The largest percentage x weight as a fraction. Surprise: heap counts here, with a weight that is 0 by default."""
    weights = (
        knobs.load_balancer_cpu_resource_weight,
        knobs.load_balancer_memory_resource_weight,
        knobs.load_balancer_direct_memory_resource_weight,
        knobs.bandwidth_in_weight,
        knobs.bandwidth_out_weight,
    )
    pairs = zip(RESOURCE_FIELDS, weights, strict=True)
    return max(usages.get(name, _UNKNOWN).percent() * weight for name, weight in pairs) / 100


def updated(data: BrokerLoadData, sample: BrokerSample, knobs: PulsarKnobs, now_ms: int) -> BrokerLoadData:
    """The data after one update.

    Surprise: every update is one step of the averages, and the report check, each scrape of the metrics and each forced
    report update; so scraping metrics makes the averages forget faster.
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
    """One step: `keep` of the average, the rest of the new value."""
    return average * keep + (1 - keep) * value


def cleared(data: BrokerLoadData) -> BrokerLoadData:
    """After a bundle left or came: all back to the defaults, so that the averages begin anew."""
    return replace(BrokerLoadData(), reported_at_ms=data.reported_at_ms)
