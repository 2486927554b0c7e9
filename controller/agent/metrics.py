"""The Prometheus metrics of an agent: names, units and labels in one place.

Nothing here is global, so several agents can run in one process.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SESSION_ENDS = ("lease", "cut_off", "journal")
LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class AgentMetrics:
    """The metrics of one agent."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """`registry`: the process's own; None makes one, for several agents in one process."""
        self.registry = r = registry or CollectorRegistry()
        self.served_bundles = Gauge("ballast_agent_served_bundles", "Bundles served now", registry=r)
        self.applied_seq = Gauge("ballast_agent_applied_seq", "Newest journal seq applied", registry=r)
        self.known_seq = Gauge("ballast_agent_known_seq", "Newest journal seq heard of", registry=r)
        self.lease_remaining_ms = Gauge("ballast_agent_lease_remaining_ms", "Until the lease lapses, ms", registry=r)
        self.registered = Gauge("ballast_agent_registered", "1 while the session is registered", registry=r)
        self.sessions = Counter("ballast_agent_sessions", "Sessions begun by this process", registry=r)
        self.session_ends = Counter("ballast_agent_session_ends", "Sessions ended, by cause", ["cause"], registry=r)
        for cause in SESSION_ENDS:  # a counter that begins with its first end shows Prometheus no increase
            self.session_ends.labels(cause)
        self.heartbeats_acked = Counter("ballast_agent_heartbeats_acked", "Heartbeats acknowledged", registry=r)
        self.heartbeats_failed = Counter("ballast_agent_heartbeats_failed", "Heartbeats not delivered", registry=r)
        self.answers = Counter(
            "ballast_agent_answers", "Answers to the journal, repeats included", ["kind"], registry=r
        )
        self.work = Counter("ballast_agent_work", "Calls of the runtime", ["action", "outcome"], registry=r)
        self.work_seconds = Histogram(
            "ballast_agent_work_seconds", "Calls of the runtime", ["action"], buckets=LATENCY_BUCKETS_S, registry=r
        )
        self.handover_seconds = Histogram(
            "ballast_agent_handover_seconds",
            "From hearing `released` to serving the bundle",
            buckets=LATENCY_BUCKETS_S,
            registry=r,
        )
        self.lookups = Counter("ballast_agent_lookups", "Lookups answered", ["outcome"], registry=r)
        self.assign_requests = Counter("ballast_agent_assign_requests", "Assign requests sent", registry=r)
        self.reports = Counter("ballast_agent_reports", "Load reports sent", registry=r)
        self.reports_failed = Counter("ballast_agent_reports_failed", "Load reports not delivered", registry=r)
        self.split_proposals = Counter("ballast_agent_split_proposals", "Splits proposed", registry=r)
        self.catch_ups = Counter("ballast_agent_catch_ups", "Reads of the journal's table", ["outcome"], registry=r)
        self.bad_records = Counter("ballast_agent_bad_records", "Records that could not be read", ["rule"], registry=r)
