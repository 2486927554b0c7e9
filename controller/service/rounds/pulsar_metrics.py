"""What Ballast does, under the names that Pulsar's extensible load manager gives to the same figures.

Dashboards made for Pulsar then show a cluster whose bundles Ballast moves. Only names that mean the same are here, and
only the controller job exposes them, so that they are told from the brokers' own by the scrape job. Decisions against
an unload are not among them: Pulsar counts one a cycle, Ballast one a broker (`ballast_round_skips_total`).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.reasons.table import REASON_TABLE
from controller.pulsar.reasons import SplitReason, UnloadLabel, UnloadReason

UNLOADING, SPLITTING = "bundleUnloading", "bundlesSplit"  # values of Pulsar's label `metric`
SPLIT_REASONS = {
    Reason.SPLIT_TOPICS: SplitReason.TOPICS,
    Reason.SPLIT_SESSIONS: SplitReason.SESSIONS,
    Reason.SPLIT_MSG_RATE: SplitReason.MSG_RATE,
    Reason.SPLIT_BANDWIDTH: SplitReason.BANDWIDTH,
}


class PulsarMetrics:
    """Counters and gauges with Pulsar's names and labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        r = registry
        self.unloaded = Counter(
            "pulsar_lb_unload_bundle", "Bundles that rounds have begun to move", ["metric"], registry=r
        )
        self.brokers = Counter(
            "pulsar_lb_unload_broker", "Brokers that rounds moved bundles off", ["metric"], registry=r
        )
        self.by_reason = Counter(
            "pulsar_lb_unload_broker_breakdown",
            "Brokers that rounds moved bundles off, by Pulsar's reasons",
            ["metric", "result", "reason"],
            registry=r,
        )
        self.splits = Counter(
            "pulsar_lb_bundles_split", "Bundles that rounds have begun to split", ["metric"], registry=r
        )
        self.splits_by_reason = Counter(
            "pulsar_lb_bundles_split_breakdown",
            "Bundles that rounds have begun to split, by Pulsar's reasons",
            ["metric", "result", "reason"],
            registry=r,
        )
        self.usage = Gauge(
            "pulsar_lb_resource_usage_stats",
            "Mean and deviation of the brokers' scores, fractions of limits",
            ["metric", "feature", "stat"],
            registry=r,
        )

    def count_round(self, begun: Sequence[Decision], scores: Sequence[float]) -> None:
        """Count the decisions of a round that were carried out. `scores`: of the brokers that can be compared."""
        splits = [decision for decision in begun if decision.kind is DecisionKind.SPLIT]
        moves = [decision for decision in begun if decision.kind is not DecisionKind.SPLIT]
        sources = {decision.source: decision.reason for decision in reversed(moves)}  # by the first move of each
        self.unloaded.labels(UNLOADING).inc(len(moves))
        self.brokers.labels(UNLOADING).inc(len(sources))
        for reason in sources.values():
            self.by_reason.labels(UNLOADING, UnloadLabel.SUCCESS.value, unload_reason(reason).value).inc()
        self.splits.labels(SPLITTING).inc(len(splits))
        for decision in splits:
            found = SPLIT_REASONS.get(decision.reason, SplitReason.UNKNOWN)
            self.splits_by_reason.labels(SPLITTING, UnloadLabel.SUCCESS.value, found.value).inc()
        if scores:
            self.usage.labels(UNLOADING, "max_ema", "avg").set(statistics.fmean(scores))
            self.usage.labels(UNLOADING, "max_ema", "std").set(statistics.pstdev(scores))


def unload_reason(reason: Reason) -> UnloadReason:
    """Pulsar's name of the reason for a move; Unknown where Pulsar has none."""
    try:
        return UnloadReason(REASON_TABLE[reason].pulsar)
    except ValueError:
        return UnloadReason.UNKNOWN
