"""What a change of owner costs: the gap without service, and the clients that reconnect to the target.

The gap comes from the ownership simulation, to the millisecond. Then every producer and consumer of the bundle connects
to the new broker, which accepts a limited number per second and spends CPU on each. So a broker that gets thirty
bundles at once is busy accepting connections.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from controller.sim.load.cost_model import CostModel, Floats


@dataclass(frozen=True, slots=True)
class Arrival:
    """A bundle that another broker than before begins to serve after `gap_ms` without service."""

    broker: int
    sessions: float
    gap_ms: int


class ReconnectStorms:
    """Clients that wait to reconnect: one queue per broker, first come, first served."""

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs
        self._waiting: Floats = np.zeros(0)
        self.unavailable_bundle_s = 0.0  # gaps, plus the mean wait of clients after them
        self.longest_gap_ms = 0
        self.reconnects = 0.0

    def tick(self, arrivals: Iterable[Arrival], brokers: int, tick_ms: int) -> Floats:
        """Add the arrivals of a tick; return the CPU that reconnects cost in it, in percent of one core [B]."""
        self._waiting = np.append(self._waiting, np.zeros(brokers - len(self._waiting)))
        for arrival in arrivals:
            ahead = self._waiting[arrival.broker] + arrival.sessions / 2
            self.unavailable_bundle_s += arrival.gap_ms / 1000.0 + float(ahead) / self._costs.reconnects_per_s
            self.longest_gap_ms = max(self.longest_gap_ms, arrival.gap_ms)
            self._waiting[arrival.broker] += arrival.sessions
            self.reconnects += arrival.sessions
        greeted = np.minimum(self._waiting, self._costs.reconnects_per_s * tick_ms / 1000.0)
        self._waiting = self._waiting - greeted
        return np.asarray(greeted * self._costs.reconnect_cpu_ms / tick_ms * 100.0)
