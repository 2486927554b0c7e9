"""What a round reads, and when one may be run: for the worker's rounds and for `ballast plan` alike."""

from __future__ import annotations

import controller
from controller.config.policy_values import policy_settings
from controller.config.settings import Settings
from controller.domain.state import ClusterState
from controller.ledger.loads import read_panes
from controller.ledger.tables import TableRoot
from controller.policy.round import RoundInputs
from controller.policy.usage.model import UsageModel
from controller.service.rounds.schedule import Schedule


class InputReader:
    """Reads the inputs of rounds of one configuration."""

    def __init__(self, settings: Settings, tables: TableRoot) -> None:
        self._settings, self._tables = settings, tables
        self._policy = policy_settings(settings)

    def read(
        self, round_id: str, at_ms: int, state: ClusterState, usage: UsageModel, lagging: frozenset[str] = frozenset()
    ) -> RoundInputs:
        """The inputs of the round at this time of the reports' axis. `state` must not change afterwards."""
        panes = read_panes(self._tables, at_ms, self._settings.loads.short_horizon_s * 1000)
        return RoundInputs(
            round_id=round_id,
            at_ms=at_ms,
            state=state,
            brokers=panes.brokers,
            bundles=panes.bundles,
            settings=self._policy,
            config_version=self._settings.version,
            code_version=controller.__version__,
            lagging=lagging,
            usage=usage,
        )


def schedule_of(settings: Settings, every: bool = False) -> Schedule:
    """The times of rounds as configured. `every`: see `Schedule`."""
    return Schedule(
        interval_ms=settings.rounds.round_interval_s * 1000,
        late_allowance_ms=settings.rounds.late_allowance_ms,
        pane_ms=settings.loads.pane_s * 1000,
        every=every,
    )
