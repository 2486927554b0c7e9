"""The plays: which balancer, on which load manager, with which settings. Pure.

`COMMON` holds for all. Ballast has the same interval and grace period, by its own names for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BROKERS = 3
INTERVAL_MINUTES, GRACE_MINUTES = 1, 5
_SHEDDERS = "org.apache.pulsar.broker.loadbalance"

COMMON = {
    "loadBalancerSheddingIntervalMinutes": str(INTERVAL_MINUTES),
    "loadBalancerSheddingGracePeriodMinutes": str(GRACE_MINUTES),
}
# As shipped, a change of load counts for a tenth of itself after a minute, and less than 10 MB/s are not worth a move.
RESPONSIVE = {
    "loadBalancerHistoryResourcePercentage": "0.5",
    "loadBalancerBundleUnloadMinThroughputThreshold": "0.1",
}
AVERAGE = {
    "loadBalancerLoadSheddingStrategy": f"{_SHEDDERS}.impl.AvgShedder",
    "loadBalancerLoadPlacementStrategy": f"{_SHEDDERS}.impl.AvgShedder",
    "loadBalancerAvgShedderHitCountLowThreshold": "2",
    "loadBalancerAvgShedderHitCountHighThreshold": "1",
    "minUnloadMessage": "10",
    "minUnloadMessageThroughput": "10000",
    "maxUnloadPercentage": "0.5",
}
TRANSFER = {
    "loadBalancerLoadSheddingStrategy": f"{_SHEDDERS}.extensions.scheduler.TransferShedder",
    "loadBalancerSheddingConditionHitCountThreshold": "1",
    "loadBalanceSheddingDelayInSeconds": "60",
    "loadBalancerBrokerLoadTargetStd": "0.1",
}
# Pulsar's own balancer is off, as Ballast demands before it sends an order.
HANDS_OFF = {"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false"}
BALLAST = (
    f"rounds.round_interval_s={60 * INTERVAL_MINUTES}",
    f"shedding.grace_period_minutes={GRACE_MINUTES}",
    "pulsar_cluster.host_cpu=true",
    "loads.trigger_ms=5000",  # rounds are a minute apart, and the brokers want the CPU, too
)
# What no balancer inside Pulsar can be told, whose shortest interval is a minute: not part of the comparison proper.
QUICK = ("rounds.round_interval_s=10", "loads.short_horizon_s=20", "pulsar_cluster.orders_per_broker=4")
STILL = ("shedding.enabled=false",)  # orders come from commands alone


@dataclass(frozen=True)
class Play:
    """One run on a fresh cluster. `settings`: of Pulsar, besides `COMMON`. `overrides`: of Ballast; None without it."""

    name: str
    title: str
    manager: str
    settings: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[str, ...] | None = None
    unloads: bool = False  # measures single unloads instead of balance

    @property
    def broker_settings(self) -> dict[str, str]:
        """What broker.conf gets besides what makes a cluster small and local."""
        return {**COMMON, **self.settings}


QUIET = Play("quiet", "nobody balances", "modular", HANDS_OFF)
PLAYS = {
    play.name: play
    for play in (
        Play("threshold_shipped", "ThresholdShedder, as shipped", "modular"),
        Play("threshold", "ThresholdShedder, responsive", "modular", RESPONSIVE),
        Play("average", "AvgShedder, responsive", "modular", RESPONSIVE | AVERAGE),
        Play("transfer", "TransferShedder, responsive", "extensible", RESPONSIVE | TRANSFER),
        Play("ballast_modular", "Ballast, rounds of 60 s", "modular", HANDS_OFF, BALLAST),
        Play("ballast_extensible", "Ballast, rounds of 60 s", "extensible", HANDS_OFF, BALLAST),
        Play("quick_modular", "Ballast, rounds of 10 s", "modular", HANDS_OFF, BALLAST + QUICK),
        Play("unloads_modular", "unloads", "modular", HANDS_OFF, BALLAST + STILL, unloads=True),
        Play("unloads_extensible", "unloads", "extensible", HANDS_OFF, BALLAST + STILL, unloads=True),
    )
}
