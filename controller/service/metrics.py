"""The Prometheus metrics of the control query. Names end in their unit."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.control.watch import Watch
from controller.domain.entries import Entry, Kind
from controller.domain.facts import SUSPECT
from controller.domain.observed import ORDER_BUCKETS_S
from controller.domain.ownership import IN_FLIGHT
from controller.domain.state import ClusterState
from controller.service.records import Parsed, Row

BATCH_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0)


class ControlMetrics:
    """The metrics of one process, in the registry behind its `/metrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        r = registry
        self.batch_seconds = Histogram(
            "ballast_control_batch_seconds", "Rows collected to journal committed", buckets=BATCH_BUCKETS_S, registry=r
        )
        self.collect_seconds = Histogram(
            "ballast_control_collect_seconds", "Reading a batch's rows from Kafka", buckets=BATCH_BUCKETS_S, registry=r
        )
        self.commit_seconds = Histogram(
            "ballast_control_commit_seconds", "One journal commit", buckets=BATCH_BUCKETS_S, registry=r
        )
        self.lag_seconds = Gauge("ballast_control_lag_seconds", "Age of the oldest record of a batch", registry=r)
        self.records = Counter("ballast_control_records", "Records read", ["topic"], registry=r)
        self.dropped = Counter("ballast_control_dropped", "Records applied before, read again", registry=r)
        self.quarantined = Counter("ballast_control_quarantined", "Records quarantined", ["rule"], registry=r)
        self.quarantine_failures = Counter(
            "ballast_control_quarantine_failures", "Writes of quarantine that failed", registry=r
        )
        self.decision_failures = Counter(
            "ballast_control_decision_failures", "Writes of the step's own decisions that failed", registry=r
        )
        self.missing = Counter("ballast_control_missing_records", "Removed from Kafka unread", ["topic"], registry=r)
        self.entries = Counter("ballast_journal_entries", "Journal entries committed", ["kind"], registry=r)
        self.seq = Gauge("ballast_journal_seq", "Newest journal entry", registry=r)
        self.brokers = Gauge("ballast_brokers_alive", "Brokers with a living session", registry=r)
        self.bundles = Gauge("ballast_bundles", "Bundles by state", ["state"], registry=r)
        self.orders_open = Gauge("ballast_orders_open", "Orders to brokers without an outcome yet", registry=r)
        self.orders_ended = Counter("ballast_orders_ended", "Orders that ended", ["outcome"], registry=r)
        self.order_seconds = Histogram(
            "ballast_order_seconds", "Carrying out an order, as its agent says", buckets=ORDER_BUCKETS_S, registry=r
        )
        self.suspects = Gauge("ballast_suspect_brokers", "Brokers that are listed and do not answer", registry=r)
        self.rounds = Gauge("ballast_rounds", "Rounds journaled", registry=r)
        self.frozen = Gauge("ballast_guard_frozen", "1 while the mass-failure breaker keeps leases alive", registry=r)
        self.refused = Gauge("ballast_control_refused", "Events without effect", ["reason"], registry=r)
        self.projected_seq = Gauge("ballast_projected_seq", "Newest entry in ownership and brokers", registry=r)
        self.projection_failures = Counter("ballast_projection_failures", "Projection writes that failed", registry=r)
        self.worker_alive = Gauge("ballast_round_worker_alive", "1 while the round worker runs", registry=r)
        self.worker_restarts = Counter("ballast_round_worker_restarts", "Round workers that died", registry=r)
        self.round_seconds = Gauge("ballast_round_seconds", "Duration of the newest round", registry=r)

    def count_read(self, found: Parsed, rows: Sequence[Row], wall_ms: int) -> None:
        """Count the rows of a batch."""
        for row in rows:
            self.records.labels(row.topic).inc()
        if rows:
            self.lag_seconds.set(max(0, wall_ms - min(row.timestamp_ms for row in rows)) / 1000)
        self.dropped.inc(found.dropped)
        for bad in found.bad:
            self.quarantined.labels(bad.rule_id).inc()
        for gap in found.gaps:
            self.missing.labels(gap.topic).inc(gap.next - gap.first)

    def count_committed(self, entries: Sequence[Entry]) -> None:
        """Count the entries of a commit."""
        for entry in entries:
            self.entries.labels(entry.kind.value).inc()
            if entry.kind is Kind.ORDER_ENDED:
                self.orders_ended.labels(str(entry.data["outcome"])).inc()
                if entry.data.get("took_ms") is not None:
                    self.order_seconds.observe(entry.data["took_ms"] / 1000)

    def show_state(self, state: ClusterState, watch: Watch) -> None:
        """Show the state after a batch. Of bundle states only those in flight are counted; others need a full scan."""
        self.seq.set(state.seq)
        self.rounds.set(state.rounds)
        self.orders_open.set(len(state.observed.orders))
        self.suspects.set(sum(key.startswith(SUSPECT) for key in state.observed.facts))
        self.frozen.set(state.frozen)
        self.brokers.set(len({session.broker for session in state.sessions}))
        in_flight = dict.fromkeys(IN_FLIGHT, 0)
        for name in watch.deadlines:
            record = state.bundles[name]
            if record.state in in_flight:
                in_flight[record.state] += 1
        for bundle_state, count in in_flight.items():
            self.bundles.labels(bundle_state.value).set(count)
        for reason, count in watch.refused.items():
            self.refused.labels(reason).set(count)
