"""The limits of strategy `weighted`. The names beside ours are the walkthrough's, with and without `loadBalancer.`."""

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
    """Limits of strategy `weighted`: a broker over one of them gives bundles away, and none for any other reason."""

    load_awareness_providers: Names = key(
        (),
        "Classes that look at a figure each, by dotted name; empty, or "
        "org.apache.pulsar.broker.load.LoadAwarenessProvider: all built-in ones. A limit nobody looks at is none.",
        source="design: every resource",
        allowed="a list of dotted names of classes that can be imported",
        pulsar=_names("loadAwarenessProviders"),
    )
    max_topics_per_broker: int | None = key(
        None,
        "Topics; empty: no limit.",
        source=DESIGN,
        unit="topics",
        lo=1,
        hi=1_000_000_000,
        pulsar=_names("maxTopicsPerBroker"),
    )
    max_partitions_per_broker: int | None = key(
        None,
        "Partitions of partitioned topics; empty: no limit.",
        source=DESIGN,
        unit="partitions",
        lo=1,
        hi=1_000_000_000,
        pulsar=_names("maxPartitionsPerBroker"),
    )
    cpu_threshold_pct: float | None = key(
        85,
        "CPU, as a share of the broker's; empty: no limit.",
        source=OVERLOADED,
        unit="percent",
        lo=1,
        hi=100,
        pulsar=_names("cpuThreshold"),
    )
    memory_threshold_pct: float | None = key(
        None,
        "Heap, and direct memory, as a share of the broker's; empty: no limit.",
        source="measured: a full heap says more about garbage collection than about load",
        unit="percent",
        lo=1,
        hi=100,
        pulsar=_names("memoryThreshold"),
    )
    disk_io_threshold_pct: float | None = key(
        85, "Disk I/O, as a share of what the disk can do; empty: no limit.", source=OVERLOADED, unit="percent", lo=1,
        hi=100,
    )  # fmt: skip
    bandwidth_threshold_pct: float | None = key(
        85,
        "Bandwidth, in and out each, as a share of the card's speed where no rate is given below; empty: no limit.",
        source=OVERLOADED,
        unit="percent",
        lo=1,
        hi=100,
    )
    bandwidth_in_threshold: RateBytesPerS | None = key(
        None,
        "Bandwidth towards the broker; empty: the share above.",
        source=DESIGN,
        unit="bytes/s",
        allowed=RATE,
        pulsar=_names("bandwidthInThreshold"),
    )
    bandwidth_out_threshold: RateBytesPerS | None = key(
        None,
        "Bandwidth from the broker; empty: the share above.",
        source=DESIGN,
        unit="bytes/s",
        allowed=RATE,
        pulsar=_names("bandwidthOutThreshold"),
    )
    offload_threshold: SizeBytes | None = key(
        None,
        "Bytes stored in the broker's bundles, which offloading would take away; empty: no limit.",
        source=DESIGN,
        unit="bytes",
        allowed=SIZE,
        pulsar=_names("offloadThreshold"),
    )
    max_unacked_messages_per_broker: int | None = key(
        None,
        "Messages delivered and not acknowledged yet; empty: no limit.",
        source=DESIGN,
        unit="messages",
        lo=1,
        hi=1_000_000_000_000,
        pulsar=_names("maxUnackedMessagesPerBroker"),
    )
    max_active_rpc_queue_ms: float | None = key(
        None,
        "Time that a request waits before it is worked on; empty: no limit.",
        source=DESIGN,
        unit="ms",
        lo=0.001,
        hi=3_600_000,
        pulsar=_names("maxActiveRpcQueueTime"),
    )
    fewest_moves: bool = key(
        True,
        "Of the bundles with which the fewest moves bring a broker back, the least valuable go first; false: the least "
        "valuable of all, however many that takes.",
        source="design: many small bundles would go instead of one",
    )
