"""Knobs that only Pulsar's own strategies use, with Pulsar's names, units and defaults.

Keys that Ballast uses as well (thresholds, weights, limits of bundles) are declared once, in the section where Ballast
uses them, along with Pulsar's name. Pulsar's strategies get the same values (`controller.config.policy_values`).
"""

from __future__ import annotations

from typing import Literal

from controller.config.definition import PULSAR, PulsarName, Section, key
from controller.config.sections.control import Names

Placement = Literal[
    "org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate",
    "org.apache.pulsar.broker.loadbalance.impl.LeastResourceUsageWithWeight",
    "org.apache.pulsar.broker.loadbalance.impl.RoundRobinBrokerSelector",
]


class Pulsar(Section):
    """Further knobs of Pulsar's own strategies. Each description starts with the strategies that use the knob."""

    loadBalancerHistoryResourcePercentage: float = key(
        0.9,
        "threshold, transfer: weight of the past in the average of a broker's usage.",
        source=PULSAR,
        unit="fraction",
        lo=0,
        hi=1,
        pulsar=(PulsarName("loadBalancerHistoryResourcePercentage"),),
    )
    loadBalancerBundleUnloadMinThroughputThreshold: float = key(
        10.0,
        "threshold: a broker with less than this to shed sheds nothing.",
        source=PULSAR,
        unit="MiB/s",
        lo=0,
        hi=1_000_000,
        pulsar=(PulsarName("loadBalancerBundleUnloadMinThroughputThreshold"),),
    )
    lowerBoundarySheddingEnabled: bool = key(
        False,
        "threshold: the fullest broker also sheds if some broker is far below the mean.",
        source=PULSAR,
        pulsar=(PulsarName("lowerBoundarySheddingEnabled"),),
    )
    loadBalancerMsgRateDifferenceShedderThreshold: float = key(
        50.0,
        "uniform: gap of message rates, (max - min) / min, above which it sheds; 0: off.",
        source=PULSAR,
        unit="percent",
        lo=0,
        hi=1_000_000,
        pulsar=(PulsarName("loadBalancerMsgRateDifferenceShedderThreshold"),),
    )
    loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold: float = key(
        4.0,
        "uniform: ratio of throughputs, max / min, above which it sheds; 0: off.",
        source=PULSAR,
        lo=0,
        hi=1_000_000,
        pulsar=(PulsarName("loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"),),
    )
    minUnloadMessage: int = key(
        1_000,
        "uniform, average: a broker with less than this to move moves nothing.",
        source=PULSAR,
        unit="messages/s",
        lo=0,
        hi=1_000_000_000,
        pulsar=(PulsarName("minUnloadMessage"),),
    )
    minUnloadMessageThroughput: int = key(
        1_048_576,
        "uniform, average: the same for throughput.",
        source=PULSAR,
        unit="bytes/s",
        lo=0,
        hi=1_000_000_000_000,
        pulsar=(PulsarName("minUnloadMessageThroughput"),),
    )
    maxUnloadPercentage: float = key(
        0.2,
        "uniform, average: share of the gap to move.",
        source=PULSAR,
        unit="fraction",
        lo=0,
        hi=1,
        pulsar=(PulsarName("maxUnloadPercentage"),),
    )
    maxUnloadBundleNumPerShedding: int = key(
        -1,
        "uniform: maximum bundles per round; -1: no limit.",
        source=PULSAR,
        unit="bundles",
        lo=-1,
        hi=1_000_000,
        pulsar=(PulsarName("maxUnloadBundleNumPerShedding"),),
    )
    loadBalancerAvgShedderLowThreshold: int = key(
        15,
        "average: difference between the scores of a pair that counts as a low hit.",
        source=PULSAR,
        unit="percentage points",
        lo=0,
        hi=1_000,
        pulsar=(PulsarName("loadBalancerAvgShedderLowThreshold"),),
    )
    loadBalancerAvgShedderHighThreshold: int = key(
        40,
        "average: difference between the scores of a pair that counts as a high hit.",
        source=PULSAR,
        unit="percentage points",
        lo=0,
        hi=1_000,
        pulsar=(PulsarName("loadBalancerAvgShedderHighThreshold"),),
    )
    loadBalancerAvgShedderHitCountLowThreshold: int = key(
        8,
        "average: number of consecutive low hits after which a pair sheds.",
        source=PULSAR,
        unit="rounds",
        lo=1,
        hi=1_000_000,
        pulsar=(PulsarName("loadBalancerAvgShedderHitCountLowThreshold"),),
    )
    loadBalancerAvgShedderHitCountHighThreshold: int = key(
        2,
        "average: number of consecutive high hits after which a pair sheds.",
        source=PULSAR,
        unit="rounds",
        lo=1,
        hi=1_000_000,
        pulsar=(PulsarName("loadBalancerAvgShedderHitCountHighThreshold"),),
    )
    loadBalancerAverageResourceUsageDifferenceThresholdPercentage: int = key(
        10,
        "Placement by least resource usage: a broker must be this far below the mean to be among the best.",
        source=PULSAR,
        unit="percentage points",
        lo=0,
        hi=1_000,
        pulsar=(PulsarName("loadBalancerAverageResourceUsageDifferenceThresholdPercentage"),),
    )
    loadBalancerDistributeBundlesEvenlyEnabled: bool = key(
        True,
        "Placement of the modular manager: only brokers with the fewest bundles of the namespace.",
        source=PULSAR,
        pulsar=(PulsarName("loadBalancerDistributeBundlesEvenlyEnabled"),),
    )
    loadBalancerLoadPlacementStrategy: Placement = key(
        "org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate",
        "overload, threshold, uniform, simple: Pulsar's class that places the bundles they shed; average has its own.",
        source=PULSAR,
        pulsar=(PulsarName("loadBalancerLoadPlacementStrategy"),),
    )
    loadBalancerSheddingExcludedNamespaces: Names = key(
        (),
        "Namespaces whose bundles Pulsar's strategies never shed; `ballast override exclude-namespace` holds for all.",
        source=PULSAR,
        allowed="a list of namespaces",
        pulsar=(PulsarName("loadBalancerSheddingExcludedNamespaces"),),
    )
    loadBalancerBrokerLoadTargetStd: float = key(
        0.25,
        "transfer: standard deviation of the brokers' loads above which it sheds.",
        source=PULSAR,
        unit="fraction",
        lo=0,
        hi=10,
        pulsar=(PulsarName("loadBalancerBrokerLoadTargetStd"),),
    )
    loadBalancerSheddingConditionHitCountThreshold: int = key(
        3,
        "transfer: it sheds once its condition has held in more than this many consecutive rounds.",
        source=PULSAR,
        unit="rounds",
        lo=0,
        hi=1_000_000,
        pulsar=(PulsarName("loadBalancerSheddingConditionHitCountThreshold"),),
    )
    loadBalancerTransferEnabled: bool = key(
        True,
        "transfer: it chooses targets and swaps bundles; off: it only unloads.",
        source=PULSAR,
        pulsar=(PulsarName("loadBalancerTransferEnabled"),),
    )
    loadBalancerMaxNumberOfBrokerSheddingPerCycle: int = key(
        3,
        "transfer: maximum pairs of brokers per round.",
        source=PULSAR,
        unit="pairs",
        lo=1,
        hi=1_000_000,
        pulsar=(PulsarName("loadBalancerMaxNumberOfBrokerSheddingPerCycle"),),
    )
    loadBalanceSheddingDelayInSeconds: int = key(
        180,
        "transfer: it waits until every broker's report is at least this much newer than the broker's last unload.",
        source=PULSAR,
        unit="s",
        lo=0,
        hi=86_400,
        pulsar=(PulsarName("loadBalanceSheddingDelayInSeconds"),),
    )
    loadBalancerBrokerLoadDataTTLInSeconds: int = key(
        1_800,
        "transfer: load data older than this does not count for mean and standard deviation.",
        source=PULSAR,
        unit="s",
        lo=1,
        hi=86_400,
        pulsar=(PulsarName("loadBalancerBrokerLoadDataTTLInSeconds"),),
    )
    loadBalancerSheddingBundlesWithPoliciesEnabled: bool = key(
        False,
        "transfer: also move bundles under isolation or anti-affinity policies.",
        source=PULSAR,
        pulsar=(PulsarName("loadBalancerSheddingBundlesWithPoliciesEnabled"),),
    )
    loadBalancerDebugModeEnabled: bool = key(
        False,
        "transfer: Pulsar's debug mode, in which it also counts the bundles that a swap returns.",
        source=PULSAR,
        pulsar=(PulsarName("loadBalancerDebugModeEnabled"),),
    )
