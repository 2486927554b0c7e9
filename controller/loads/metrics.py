"""The Prometheus metrics of the loads query."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.process.clock import wall_ms


class LoadsMetrics:
    """The metrics of the loads query."""

    def __init__(self, registry: CollectorRegistry) -> None:
        r = registry
        self.reports = Counter("ballast_loads_reports", "Good load reports read", registry=r)
        self.rows = Counter("ballast_loads_rows", "Rows of panes and averages written", registry=r)
        self.quarantined = Counter("ballast_loads_quarantined", "Load reports quarantined", ["rule"], registry=r)
        self.batch_seconds = Gauge("ballast_loads_batch_seconds", "The newest batch, by stage", ["stage"], registry=r)
        self.lag_seconds = Gauge("ballast_loads_lag_seconds", "Age of the newest report that was read", registry=r)
        self.lost = Gauge("ballast_loads_lost_records", "Reports that Kafka removed unread", registry=r)

    def note_newest(self, event_ms: int) -> None:
        """The newest report of a batch is from then. Its age grows until the next one, so that reports which do not
        come any more are late, too."""
        self.lag_seconds.set_function(lambda: max(0, wall_ms() - event_ms) / 1000)
