"""What a round reads, and when one may be run: for the worker's rounds and for `ballast plan` alike."""

from __future__ import annotations

import controller
from controller.config.policy_values import policy_settings
from controller.config.settings import Settings
from controller.domain.state import ClusterState
from controller.ledger.loads import read_panes
from controller.ledger.tables import TableRoot
from controller.policy.round import RoundInputs, as_commanded
from controller.policy.strategies import get, traits_of
from controller.policy.usage.model import UsageModel
from controller.service.rounds.schedule import Schedule
from controller.service.rounds.shifts import ShiftWatch


class InputReader:
    """Reads the inputs of rounds of one configuration and its schedule."""

    def __init__(self, settings: Settings, tables: TableRoot, schedule: Schedule) -> None:
        self._settings, self._tables, self._schedule = settings, tables, schedule
        self._policy = policy_settings(settings)

    def may_be_early(self, state: ClusterState) -> bool:
        """Whether the strategy in charge can be asked between two rounds."""
        return traits_of(get(as_commanded(self._policy, state).strategy)).early

    def read(
        self,
        round_id: str,
        at_ms: int,
        state: ClusterState,
        usage: UsageModel,
        shifts: ShiftWatch,
        lagging: frozenset[str] = frozenset(),
        early: bool = False,
        by_traffic: bool = False,
    ) -> RoundInputs:
        """The inputs of the round at this time of the reports' axis. `state` must not change afterwards. `shifts`: has
        watched the panes up to this time; it says how far back the round looks, and what it believes of limits."""
        panes = read_panes(self._tables, at_ms, shifts.horizon_ms(at_ms))
        return RoundInputs(
            round_id=round_id,
            at_ms=at_ms,
            state=state,
            brokers=shifts.believed(panes.brokers, at_ms),
            bundles=panes.bundles,
            settings=self._policy,
            config_version=self._settings.version,
            code_version=controller.__version__,
            lagging=lagging,
            usage=usage,
            early=early,
            by_traffic=by_traffic,
            figures=shifts.figures if self._schedule.watches else {},
        )


def schedule_of(settings: Settings, every: bool = False) -> Schedule:
    """The times of rounds as configured. `every`: see `Schedule`."""
    interval_ms, least_ms = settings.rounds.round_interval_s * 1000, settings.rounds.least_interval_s * 1000
    return Schedule(
        interval_ms=interval_ms,
        late_allowance_ms=settings.rounds.late_allowance_ms,
        pane_ms=settings.loads.pane_s * 1000,
        every=every,
        least_ms=least_ms if 0 < least_ms < interval_ms else None,
    )
