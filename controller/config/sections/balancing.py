"""When load is too high: shedding, weights, splits, caps. Most of these keys are Pulsar's and keep Pulsar's units."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from controller.config.definition import DESIGN, PULSAR, PulsarName, Section, key
from controller.config.units import parse_rate_bytes_per_s, parse_size_bytes

SizeBytes = Annotated[int, BeforeValidator(parse_size_bytes)]
RateBytesPerS = Annotated[int, BeforeValidator(parse_rate_bytes_per_s)]


def _weight(default: float, doc: str, source: str, *pulsar: PulsarName) -> float:
    declared: float = key(default, doc, source=source, lo=0, hi=100, pulsar=pulsar)
    return declared


class Shedding(Section):
    """When bundles move away from a broker, and how many."""

    enabled: bool = key(
        True,
        "Whether rounds move bundles. Orphans are assigned and commands are carried out either way.",
        source=PULSAR,
        pulsar=(PulsarName("loadBalancerSheddingEnabled"),),
    )
    overloaded_threshold_pct: float = key(
        85,
        "A broker with at least this score is a source of moves.",
        source=PULSAR,
        unit="percent",
        lo=1,
        hi=100,
        pulsar=(PulsarName("loadBalancerBrokerOverloadedThresholdPercentage"),),
    )
    difference_points: float = key(
        10,
        "A broker whose score is at least this far above the mean of the eligible brokers is a source as well.",
        source=PULSAR,
        unit="percentage points",
        lo=0,
        hi=100,
        pulsar=(PulsarName("loadBalancerBrokerThresholdShedderPercentage"),),
    )
    consecutive_rounds: int = key(
        2, "Number of consecutive rounds in which that must hold.", source=DESIGN, unit="rounds", lo=1, hi=1_000
    )
    grace_period_minutes: float = key(
        30,
        "Rounds do not move a bundle again within this time.",
        source=PULSAR,
        unit="minutes",
        lo=0,
        hi=10_080,
        pulsar=(PulsarName("loadBalancerSheddingGracePeriodMinutes"),),
    )
    max_moves_per_round: int = key(8, "Maximum moves per round.", source=DESIGN, unit="moves", lo=0, hi=10_000)
    target_margin_pct: float = key(
        5,
        "After a move the target must stay below the mean plus this.",
        source=DESIGN,
        unit="percentage points",
        lo=0,
        hi=100,
    )
    cpu_weight: float = _weight(
        1.0, "Weight of CPU in a broker's score; 0 leaves it out.", PULSAR, PulsarName("loadBalancerCPUResourceWeight")
    )
    memory_weight: float = _weight(
        0.0,
        "Weight of heap memory, whose usage says more about garbage collection than about load.",
        PULSAR,
        PulsarName("loadBalancerMemoryResourceWeight"),
    )
    direct_memory_weight: float = _weight(
        0.0, "Weight of direct memory.", PULSAR, PulsarName("loadBalancerDirectMemoryResourceWeight")
    )
    bandwidth_in_weight: float = _weight(
        1.0,
        "Weight of inbound bandwidth.",
        PULSAR,
        PulsarName("loadBalancerBandwidthInResourceWeight"),
        PulsarName("loadBalancerBandwithInResourceWeight", misspelling_of="loadBalancerBandwidthInResourceWeight"),
    )
    bandwidth_out_weight: float = _weight(
        1.0,
        "Weight of outbound bandwidth.",
        PULSAR,
        PulsarName("loadBalancerBandwidthOutResourceWeight"),
        PulsarName("loadBalancerBandwithOutResourceWeight", misspelling_of="loadBalancerBandwidthOutResourceWeight"),
    )
    disk_io_weight: float = _weight(1.0, "Weight of disk I/O, which Pulsar does not report.", DESIGN)


class Steady(Section):
    """The three knobs of strategy `steady`, and what a backtest measured."""

    tolerance: float = key(
        0.06,
        "How far a broker may stay above the level that all brokers could share, as a fraction of that level.",
        source="measured on the field: docs/strategies.md",
        unit="fraction",
        lo=0.001,
        hi=1,
    )
    churn: float = key(
        0.04,
        "Load that a move must take off its source to be worth it, a fraction of that level; more with many sessions.",
        source="measured on the field: docs/strategies.md",
        unit="fraction",
        lo=0,
        hi=1,
    )
    budget: float = key(
        1.0,
        "Maximum moves per round, for each broker of the cluster.",
        source=DESIGN,
        unit="moves",
        lo=0,
        hi=100,
    )
    model_error: float = key(
        0.0,
        "Difference between predicted and actual loads as measured by `ballast backtest`, as a fraction of that level; "
        "moves that gain less are not made.",
        source=DESIGN,
        unit="fraction",
        lo=0,
        hi=1,
    )


class Split(Section):
    """When a bundle is too big. Rates and bandwidth are in + out; above the limit it is split."""

    enabled: bool = key(
        True,
        "Whether oversized bundles are split; `ballast split` works either way.",
        source=PULSAR,
        pulsar=(PulsarName("loadBalancerAutoBundleSplitEnabled"),),
    )
    auto_unload: bool = key(
        True,
        "Whether one half moves on after an automatic split; the busier half stays.",
        source=PULSAR,
        pulsar=(PulsarName("loadBalancerAutoUnloadSplitBundlesEnabled"),),
    )
    max_topics: int | None = key(
        1_000,
        "Maximum topics of a bundle; empty: no limit.",
        source=PULSAR,
        unit="topics",
        lo=1,
        hi=100_000_000,
        pulsar=(PulsarName("loadBalancerNamespaceBundleMaxTopics"),),
    )
    max_sessions: int | None = key(
        1_000,
        "Maximum producers plus consumers of a bundle; empty, 0 or -1: no limit.",
        source=PULSAR,
        unit="sessions",
        lo=-1,
        hi=100_000_000,
        pulsar=(PulsarName("loadBalancerNamespaceBundleMaxSessions"),),
    )
    max_msg_rate_per_s: float | None = key(
        30_000,
        "Maximum message rate of a bundle; empty: no limit.",
        source=PULSAR,
        unit="messages/s",
        lo=1,
        hi=1_000_000_000,
        pulsar=(PulsarName("loadBalancerNamespaceBundleMaxMsgRate"),),
    )
    max_bandwidth_mbytes: float | None = key(
        100,
        "Maximum throughput of a bundle; empty: no limit.",
        source=PULSAR,
        unit="MiB/s",
        lo=0.001,
        hi=1_000_000,
        pulsar=(PulsarName("loadBalancerNamespaceBundleMaxBandwidthMbytes"),),
    )
    namespace_maximum_bundles: int = key(
        128,
        "Maximum bundles of a namespace, including splits in flight; bundles of such a namespace are not split.",
        source=PULSAR,
        unit="bundles",
        lo=1,
        hi=65_536,
        pulsar=(PulsarName("loadBalancerNamespaceMaximumBundles"),),
    )
    default_number_of_namespace_bundles: int = key(
        4,
        "Number of bundles of a new namespace, unless its creator gives a number.",
        source=PULSAR,
        unit="bundles",
        lo=1,
        hi=65_536,
        pulsar=(PulsarName("defaultNumberOfNamespaceBundles"),),
    )
    max_storage_bytes: SizeBytes | None = key(
        None,
        "Maximum bytes stored in a bundle's topics; empty: no limit.",
        source=DESIGN,
        unit="bytes",
        allowed="a size such as 512kB, 100MB or 1GiB (M means 1024 x 1024, as in Pulsar)",
    )


class Broker(Section):
    """Caps on the bundles of one broker; a broker at a cap is no target."""

    max_topics: int | None = key(
        50_000,
        "Maximum topics of a broker; empty: no cap.",
        source=PULSAR,
        unit="topics",
        lo=1,
        hi=1_000_000_000,
        pulsar=(PulsarName("loadBalancerBrokerMaxTopics"),),
    )
    max_bundles: int | None = key(
        None,
        "Maximum bundles of a broker; empty: no cap. An orphan exceeds the cap only if all brokers have reached it.",
        source=DESIGN,
        unit="bundles",
        lo=1,
        hi=1_000_000_000,
    )
    max_memory: SizeBytes | None = key(
        None,
        "Maximum memory of a broker's bundles, the sum of storage and cache bytes; empty: no cap.",
        source=DESIGN,
        unit="bytes",
        allowed="a size such as 512kB, 100MB or 1GiB (M means 1024 x 1024, as in Pulsar)",
        pulsar=(PulsarName("loadBalancerBrokerMaxMemory"),),
    )
    max_net_usage: RateBytesPerS | None = key(
        None,
        "Maximum throughput of a broker's bundles, in + out; empty: no cap.",
        source=DESIGN,
        unit="bytes/s",
        allowed="a rate such as 100MB/s (M means 1024 x 1024, as in Pulsar)",
        pulsar=(PulsarName("loadBalancerBrokerMaxNetUsage"),),
    )
