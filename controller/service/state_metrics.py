"""The Prometheus metrics of what the controller knows of its cluster: mode, bundles without an owner, lag of followers.

`show` runs after every batch and counts nothing; `show_followers` goes through all brokers, every FOLLOWERS_MS. To know
what keeps orders back takes reading all of the cluster's rules, which may be thousands: scrapes ask that, in their own
thread, of the newest state, which never changes after its batch.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from controller.control.watch import Watch
from controller.domain.decision import PlanPhase
from controller.domain.settings.placement import PlacementSettings
from controller.domain.state import MODES, ClusterState
from controller.operations.bundles import find_order_obstacle
from controller.process.metrics import BrokerGauge

FOLLOWERS_MS = 5_000


class StateMetrics:
    """Written by the thread of the batches."""

    def __init__(self, registry: CollectorRegistry) -> None:
        r = registry
        self.mode = Gauge("ballast_mode", "1 for the mode in force, 0 for the others", ["mode"], registry=r)
        self.orphaned = Gauge("ballast_bundles_orphaned", "Bundles that lost their owner and wait for one", registry=r)
        self.stuck = Gauge("ballast_bundles_stuck", "Overdue handovers that no broker can take over", registry=r)
        self.lookups = Gauge("ballast_lookups_waiting", "Bundles looked up that wait for a first owner", registry=r)
        self.lagging = Gauge("ballast_brokers_lagging", "Brokers too far behind to be granted anything", registry=r)
        self.lag = BrokerGauge("ballast_broker_lag_entries", "Journal entries that an agent should have applied", r)
        self.waiting = Gauge("ballast_plan_waiting_moves", "Moves that wait for an operator's approval", registry=r)
        self.suspended = Gauge("ballast_orders_suspended", "1 while the cluster may not be sent orders", registry=r)
        self.in_doubt = Gauge("ballast_orders_in_doubt", "Bundles whose last order has no known outcome", registry=r)
        self.suspended.set_function(self._is_suspended)
        self._shown_ms: int | None = None
        self._state = ClusterState()
        self._placement = PlacementSettings()

    def show(self, state: ClusterState, watch: Watch) -> None:
        """What is known without counting."""
        self._state = state
        for mode in MODES:
            self.mode.labels(mode).set(mode == state.mode)
        self.orphaned.set(len(watch.orphans))
        self.stuck.set(sum(name in watch.deadlines for name in watch.alarmed))  # others are alarms about namespaces
        self.lookups.set(len(watch.lookups))
        waits = state.plan is not None and state.plan.phase is PlanPhase.WAITING
        self.waiting.set(len(state.plan.moves) if state.plan is not None and waits else 0)

    def show_followers(
        self, state: ClusterState, watch: Watch, lagging: int, placement: PlacementSettings, now_ms: int
    ) -> None:
        """How far every broker is behind the journal, and which orders are in doubt; at most every FOLLOWERS_MS.

        `lagging`: brokers that are granted nothing. `placement`: as configured. A broker whose agent has reported
        nothing yet is left out.
        """
        self.lagging.set(lagging)
        self._placement = placement
        if self._shown_ms is not None and now_ms - self._shown_ms < FOLLOWERS_MS:
            return
        self._shown_ms = now_ms
        behind = {session.broker: watch.entries_behind(session) for session in state.sessions}
        self.lag.show({broker: entries for broker, entries in behind.items() if entries is not None})
        self.in_doubt.set(sum(block.in_doubt_seq > 0 for block in state.observed.blocks.values()))

    def _is_suspended(self) -> float:
        return float(find_order_obstacle(self._state, self._placement) is not None)
