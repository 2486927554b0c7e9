"""The true load of the simulation: what brokers really use, and what they can serve.

The limits of a broker are those of its machine. A slow broker (a noisy neighbour, a failing disk) needs `slow` times as
much CPU for the same work, while it reports the same limit. A broker cannot serve beyond a limit: all its bundles get
the same share of their demand, clients wait, and reports show the limit and the served rates. The balancer does not
see the demand, just as in reality.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.domain.ids import Bundle
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.sim.load.cost_model import FIELD, RESOURCE, CostModel, Floats
from controller.sim.load.workloads import Ints, Rates, TopicMap, Topics

NOBODY = -1
MEMORY_A_CORE_BYTES = float(1 << 30)
DISK_BYTES_PER_S = 2e9


@dataclass(frozen=True, eq=False)
class Moment:
    """One tick with B brokers and N live bundles: `demand` is the load asked for, `usage` and `fields` that served."""

    bundles: tuple[Bundle, ...]
    names: tuple[str, ...]
    owner: Ints  # [N] index of the serving broker, NOBODY
    cost: Floats  # [N x R] on a broker at full speed
    idle: Floats  # [B x R] usage without any load
    demand: Floats  # [B x R]
    usage: Floats  # [B x R] at most the limit
    limit: Floats  # [B x R]
    able: Floats  # [B x R] the limit in units of bundles' `cost`: lower on a slow broker
    fields: Floats  # [N x F] the traffic served
    topic_work: Floats  # [T] CPU demand at full speed, in percent of one core

    @property
    def utilisation(self) -> Floats:
        """[B x R] demand as a fraction of the limit; above 1 is more than can be served."""
        return self.demand / self.limit


class LoadWorld:
    """Brokers by index, in order of their first appearance; brokers that have gone keep their index."""

    def __init__(self, costs: CostModel, topics: Topics) -> None:
        self.costs = costs
        self.topics = topics
        self.brokers: list[str] = []
        self.limit: Floats = np.zeros((0, len(RESOURCES)))
        self.slow: Floats = np.ones(0)

    def add(self, broker: str, cores: float, nic_bytes_per_s: float) -> None:
        """Give the broker a machine, in place of any earlier one."""
        row = np.zeros(len(RESOURCES))
        row[RESOURCE["cpu"]] = 100.0 * cores
        row[RESOURCE["memory"]] = row[RESOURCE["direct_memory"]] = MEMORY_A_CORE_BYTES * cores
        row[RESOURCE["bandwidth_in"]] = row[RESOURCE["bandwidth_out"]] = nic_bytes_per_s
        row[RESOURCE["disk_io"]] = DISK_BYTES_PER_S
        if broker in self.brokers:
            self.limit[self.brokers.index(broker)] = row
            return
        self.brokers.append(broker)
        self.limit = np.vstack([self.limit, row])
        self.slow = np.append(self.slow, 1.0)

    def carry(self, offered: Rates, ring: TopicMap, owner: Ints, extra_cpu_pct: Floats) -> Moment:
        """Let the owners ([N] indices) serve the offered load. `extra_cpu_pct` [B]: for reconnecting clients."""
        asked = self._fields(offered, ring)
        cost = self.costs.usage(asked, ring.cost_factor)
        served = owner != NOBODY
        idle = self._idle_usage()
        demand = idle.copy()
        demand[:, RESOURCE["cpu"]] += extra_cpu_pct
        np.add.at(demand, owner[served], cost[served])
        demand[:, RESOURCE["cpu"]] *= self.slow
        full = np.max(demand / self.limit, axis=1, initial=0.0)
        share = np.append(1.0 / np.maximum(full, 1.0), 0.0)[owner]  # [N]
        fields = asked.copy()
        fields[:, : FIELD["throughput_out"] + 1] *= share[:, None]
        able = self.limit.copy()
        able[:, RESOURCE["cpu"]] /= self.slow
        return Moment(
            bundles=ring.bundles,
            names=ring.names,
            owner=owner,
            cost=cost,
            idle=idle,
            demand=demand,
            usage=np.minimum(demand, self.limit),
            limit=self.limit.copy(),
            able=able,
            fields=fields,
            topic_work=self._work_pct(offered),
        )

    def _fields(self, rates: Rates, ring: TopicMap) -> Floats:
        fields = np.zeros((len(ring.bundles), len(BUNDLE_FIELDS)))
        topics = ring.sums(np.ones(len(self.topics.hash)))
        sessions = ring.sums(self.topics.sessions)
        columns: dict[str, NDArray[np.float64]] = {
            "msg_rate_in": ring.sums(rates.msg_in),
            "msg_rate_out": ring.sums(rates.msg_out),
            "throughput_in": ring.sums(rates.bytes_in),
            "throughput_out": ring.sums(rates.bytes_out),
            "topics": topics,
            "partitions": topics,
            "producers": np.ceil(sessions / 2),
            "consumers": np.floor(sessions / 2),
            "sessions": sessions,
        }
        columns["cache_bytes"] = columns["throughput_in"] * self.costs.buffered_s
        for name, values in columns.items():
            fields[:, FIELD[name]] = values
        return fields

    def _idle_usage(self) -> Floats:
        usage = np.zeros_like(self.limit)
        usage[:, RESOURCE["cpu"]] = self.costs.base_cpu_pct
        usage[:, RESOURCE["memory"]] = 0.3 * self.limit[:, RESOURCE["memory"]]
        return usage

    def _work_pct(self, offered: Rates) -> Floats:
        each_us = self.costs.message_us(self.topics.message_bytes) * self.topics.cost_factor
        return np.asarray((offered.msg_in + offered.msg_out) * each_us / 1e4)
