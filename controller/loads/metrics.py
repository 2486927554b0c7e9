"""The Prometheus metrics of the loads query."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class LoadsMetrics:
    """The metrics of the loads query."""

    def __init__(self, registry: CollectorRegistry) -> None:
        r = registry
        self.reports = Counter("ballast_loads_reports", "Good load reports read", registry=r)
        self.rows = Counter("ballast_loads_rows", "Rows of panes and averages written", registry=r)
        self.quarantined = Counter("ballast_loads_quarantined", "Load reports quarantined", ["rule"], registry=r)
        self.batch_seconds = Gauge("ballast_loads_batch_seconds", "The newest batch, by stage", ["stage"], registry=r)
        self.lag_seconds = Gauge("ballast_loads_lag_seconds", "Age of the newest report of a batch", registry=r)
        self.lost = Gauge("ballast_loads_lost_records", "Reports that Kafka removed unread", registry=r)
