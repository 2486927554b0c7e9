"""The limits of strategy `weighted`. The walkthrough's names are accepted with and without `loadBalancer.`."""

from __future__ import annotations

from controller.config.definition import DESIGN, PulsarName, Section, key
from controller.config.sections.balancing import RateBytesPerS, SizeBytes
from controller.config.sections.control import Names

RATE = "a rate such as 100MB/s (M means 1024 x 1024, as in Pulsar)"
SIZE = "a size such as 512kB, 100MB or 1GiB (M means 1024 x 1024, as in Pulsar)"
OVERLOADED = "as shedding.overloaded_threshold_pct"


def _names(name: str) -> tuple[PulsarName, ...]:
    return PulsarName(f"loadBalancer.{name}"), PulsarName(name)


class Weighted(Section):
    """Limits of strategy `weighted`: a broker sheds bundles if it is above one of them, and for no other reason."""

    load_awareness_providers: Names = key(
        (),
        "Dotted names of classes that each check one limit; empty, or "
        "org.apache.pulsar.broker.load.LoadAwarenessProvider: all built-in ones. Limits that no class checks are off.",
        source="design: every resource",
        allowed="a list of dotted names of classes that can be imported",
        pulsar=_names("loadAwarenessProviders"),
    )
    max_topics_per_broker: int | None = key(
        None,
        "Maximum topics of a broker; empty: no limit.",
        source=DESIGN,
        unit="topics",
        lo=1,
        hi=1_000_000_000,
        pulsar=_names("maxTopicsPerBroker"),
    )
    max_partitions_per_broker: int | None = key(
        None,
        "Maximum partitions of partitioned topics; empty: no limit.",
        source=DESIGN,
        unit="partitions",
        lo=1,
        hi=1_000_000_000,
        pulsar=_names("maxPartitionsPerBroker"),
    )
    cpu_threshold_pct: float | None = key(
        85,
        "Maximum CPU usage; empty: no limit.",
        source=OVERLOADED,
        unit="percent",
        lo=1,
        hi=100,
        pulsar=_names("cpuThreshold"),
    )
    memory_threshold_pct: float | None = key(
        None,
        "Maximum usage of heap and of direct memory; empty: no limit.",
        source="measured: a full heap says more about garbage collection than about load",
        unit="percent",
        lo=1,
        hi=100,
        pulsar=_names("memoryThreshold"),
    )
    disk_io_threshold_pct: float | None = key(
        85, "Maximum disk I/O, relative to the disk's capacity; empty: no limit.", source=OVERLOADED, unit="percent",
        lo=1, hi=100,
    )  # fmt: skip
    bandwidth_threshold_pct: float | None = key(
        85,
        "Maximum inbound and outbound bandwidth, relative to the card's speed, unless a rate is set below; empty: no "
        "limit.",
        source=OVERLOADED,
        unit="percent",
        lo=1,
        hi=100,
    )
    bandwidth_in_threshold: RateBytesPerS | None = key(
        None,
        "Maximum inbound bandwidth; empty: the percentage above applies.",
        source=DESIGN,
        unit="bytes/s",
        allowed=RATE,
        pulsar=_names("bandwidthInThreshold"),
    )
    bandwidth_out_threshold: RateBytesPerS | None = key(
        None,
        "Maximum outbound bandwidth; empty: the percentage above applies.",
        source=DESIGN,
        unit="bytes/s",
        allowed=RATE,
        pulsar=_names("bandwidthOutThreshold"),
    )
    offload_threshold: SizeBytes | None = key(
        None,
        "Maximum bytes stored in the broker's bundles, which offloading would reduce; empty: no limit.",
        source=DESIGN,
        unit="bytes",
        allowed=SIZE,
        pulsar=_names("offloadThreshold"),
    )
    max_unacked_messages_per_broker: int | None = key(
        None,
        "Maximum delivered messages without an acknowledgement; empty: no limit.",
        source=DESIGN,
        unit="messages",
        lo=1,
        hi=1_000_000_000_000,
        pulsar=_names("maxUnackedMessagesPerBroker"),
    )
    max_active_rpc_queue_ms: float | None = key(
        None,
        "Maximum time that a request waits before it is processed; empty: no limit.",
        source=DESIGN,
        unit="ms",
        lo=0.001,
        hi=3_600_000,
        pulsar=_names("maxActiveRpcQueueTime"),
    )
    fewest_moves: bool = key(
        True,
        "Move the least valuable of the bundles that bring a broker below its limits with the fewest moves; false: the "
        "least valuable of all, however many moves that takes.",
        source="design: otherwise many small bundles would move instead of one",
    )
