"""The Prometheus metrics of the control query. Names end in their unit.

docs/metrics.md lists them (`python -m benchmarks.pages.metrics --write`). Those of rounds, of the cluster's state and
of the tables are parts with modules of their own.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.control.sessions import OTHER_AUTHORITY
from controller.control.step_decisions import StepEvidence
from controller.control.watch import Watch
from controller.domain.decision import EXECUTED, PLACEMENT
from controller.domain.entries import STRAY_AGENT, STRAY_COMMAND, STRAY_CONTROLLER, Entry, Kind
from controller.domain.facts import SUSPECT
from controller.domain.observed import ORDER_BUCKETS_S, OrderOutcome
from controller.domain.ownership import IN_FLIGHT, State
from controller.domain.state import ClusterState
from controller.service.records import Parsed, Row
from controller.service.rounds.metrics import RoundMetrics
from controller.service.state_metrics import StateMetrics
from controller.service.table_metrics import TableMetrics

DEADLINE, TARGET_ENDED, REJECTED = "deadline", "target_ended", "rejected"  # why a handover failed
SESSION_ENDS = ("lease", "goodbye", "superseded")
OWN, ANOTHER = "own", "another"  # journals of other controllers that are heard
BATCH_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0)


class ControlMetrics:
    """The metrics of one process, in the registry behind its `/metrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        r = registry
        self.rounds, self.state, self.tables = RoundMetrics(r), StateMetrics(r), TableMetrics(r)
        self._count_failures(r)
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
        self.bundles = Gauge(
            "ballast_bundles", "Bundles in flight, by state; of others see the table ownership", ["state"], registry=r
        )
        self.orders_open = Gauge("ballast_orders_open", "Orders to brokers without an outcome yet", registry=r)
        self.orders_ended = Counter("ballast_orders_ended", "Orders that ended", ["outcome"], registry=r)
        for outcome in OrderOutcome:
            self.orders_ended.labels(outcome.value)
        self.order_seconds = Histogram(
            "ballast_order_seconds", "Carrying out an order, as its agent says", buckets=ORDER_BUCKETS_S, registry=r
        )
        self.suspects = Gauge("ballast_suspect_brokers", "Brokers that are listed and do not answer", registry=r)
        self.rounds_journaled = Gauge("ballast_rounds", "Rounds journaled", registry=r)
        self.frozen = Gauge("ballast_guard_frozen", "1 while the mass-failure breaker keeps leases alive", registry=r)
        self.refused = Gauge("ballast_control_refused", "Events without effect", ["reason"], registry=r)
        self.projected_seq = Gauge("ballast_projected_seq", "Newest entry in ownership and brokers", registry=r)
        self.projection_failures = Counter("ballast_projection_failures", "Projection writes that failed", registry=r)
        self.worker_alive = Gauge("ballast_round_worker_alive", "1 while the round worker runs", registry=r)
        self.worker_restarts = Counter("ballast_round_worker_restarts", "Round workers that died", registry=r)
        self.round_seconds = Gauge("ballast_round_seconds", "Duration of the newest round", registry=r)

    def _count_failures(self, r: CollectorRegistry) -> None:
        """Who is in charge, what blocks it, and what fails. Label values are there from the start where they are known:
        a counter that begins with its first failure shows Prometheus no increase."""
        self.in_charge = Gauge("ballast_controller_in_charge", "1 while this process holds the journal", registry=r)
        self.batch_age_seconds = Gauge("ballast_control_batch_age_seconds", "Since the newest batch ended", registry=r)
        self.commit_blocked = Gauge(
            "ballast_journal_blocked", "1 while a commit has an unknown outcome and is tried again", registry=r
        )
        self.commit_retries = Counter(
            "ballast_journal_commit_retries", "Commits whose outcome was unknown at first", registry=r
        )
        self.other_ticks = Counter(
            "ballast_control_other_ticks", "Ticks of other controllers, by whose journal", ["journal"], registry=r
        )
        self.sessions_ended = Counter("ballast_sessions_ended", "Brokers' sessions ended", ["reason"], registry=r)
        self.handovers_failed = Counter(
            "ballast_handovers_failed",
            "Steps of handovers that failed: late, refused, target gone",
            ["why"],
            registry=r,
        )
        self.alarms = Counter("ballast_alarms", "Alarms journaled", ["reason"], registry=r)
        self.placements = Counter(
            "ballast_placements", "Bundles placed outside of rounds: orphans, lookups, drains", ["reason"], registry=r
        )
        for counter, values in (
            (self.other_ticks, (OWN, ANOTHER)),
            (self.sessions_ended, SESSION_ENDS),
            (self.handovers_failed, (DEADLINE, TARGET_ENDED, REJECTED)),
            (self.alarms, (STRAY_CONTROLLER, STRAY_AGENT, STRAY_COMMAND, OTHER_AUTHORITY)),
        ):
            for value in values:
                counter.labels(value)

    def count_other_ticks(self, own: int, another: int) -> None:
        """Ticks of other controllers: of this journal, which only one may hold, and of other journals."""
        self.other_ticks.labels(OWN).inc(own)
        self.other_ticks.labels(ANOTHER).inc(another)

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
        self.rounds.count_declined(entries)
        for entry in entries:
            self.entries.labels(entry.kind.value).inc()
            if entry.kind is Kind.ORDER_ENDED:
                self.orders_ended.labels(str(entry.data["outcome"])).inc()
                if entry.data.get("took_ms") is not None:
                    self.order_seconds.observe(entry.data["took_ms"] / 1000)
            elif entry.kind is Kind.OWNERSHIP:
                why = _why_failed(entry)
                if why is not None:
                    self.handovers_failed.labels(why).inc()
            elif entry.kind is Kind.SESSION_ENDED:
                self.sessions_ended.labels(str(entry.reason)).inc()
            elif entry.kind is Kind.ALARM:
                self.alarms.labels(str(entry.reason)).inc()

    def count_placed(self, decided: StepEvidence) -> None:
        """Count the bundles that the step itself has placed in a batch."""
        placed = (d for d in decided.decisions if d.strategy == PLACEMENT and decided.outcomes[d.id] == EXECUTED)
        for reason, count in Tally(decision.reason.value for decision in placed).items():
            self.placements.labels(reason).inc(count)

    def show_state(self, state: ClusterState, watch: Watch) -> None:
        """Show the state after a batch. Of bundle states only those in flight are counted; others need a full scan."""
        self.state.show(state, watch)
        self.seq.set(state.seq)
        self.rounds_journaled.set(state.rounds)
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


def _why_failed(entry: Entry) -> str | None:
    """Why the step of a handover that led to this ownership entry failed; None where nothing did.

    A bundle goes back to its owner with a reason only if a target refuses it, in the agent's own words, or has ended.
    """
    if entry.reason in (DEADLINE, TARGET_ENDED):
        return entry.reason
    return REJECTED if entry.state == State.OWNED.value and entry.reason else None
