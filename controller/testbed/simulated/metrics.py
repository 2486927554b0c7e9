"""The metrics of simulated processes: the real ones in every tenth run, and otherwise ones that keep nothing.

Nobody scrapes a simulated process, and counting takes a fifth of a run. What it costs otherwise to be wrong about a
metric's labels, or about the state that one shows, the tenth run finds out.
"""

from __future__ import annotations

from typing import Any, cast

from prometheus_client import CollectorRegistry

from controller.agent.metrics import AgentMetrics
from controller.service.metrics import ControlMetrics

REAL_EVERY = 10  # runs
_AGENT = AgentMetrics(CollectorRegistry())  # shared by all: making one takes longer than many a run
_CONTROL = ControlMetrics(CollectorRegistry())


class _Quiet:
    """Takes every call, and keeps nothing."""

    def __getattr__(self, name: str) -> _Quiet:
        setattr(self, name, self)  # found at once from now on
        return self

    def __call__(self, *args: Any, **named: Any) -> _Quiet:
        return self

    def __enter__(self) -> _Quiet:
        return self

    def __exit__(self, *error: object) -> None:
        return None


_QUIET = _Quiet()


def metrics_of_agents(seed: int) -> AgentMetrics:
    """Those of every agent in the run of this seed."""
    return _AGENT if seed % REAL_EVERY == 0 else cast(AgentMetrics, _QUIET)


def metrics_of_controllers(seed: int) -> ControlMetrics:
    """Those of every controller in the run of this seed."""
    return _CONTROL if seed % REAL_EVERY == 0 else cast(ControlMetrics, _QUIET)
