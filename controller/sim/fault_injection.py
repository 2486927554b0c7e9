"""Applies a scenario's faults to the simulated cluster: each begins at its time and, with `for`, ends after it."""

from __future__ import annotations

from collections.abc import Callable

from controller.domain.errors import ConfigError
from controller.sim.load.world import LoadWorld
from controller.sim.ownership.agent import SimAgent
from controller.sim.ownership.load_cluster import LoadCluster
from controller.sim.scenario import faults
from controller.sim.scenario.faults import Fault, Turn, timeline
from controller.sim.scenario.scenario import Scenario


class FaultInjector:
    """Begins and ends faults. `silent`: brokers whose load reports are lost now."""

    def __init__(self, scenario: Scenario, cluster: LoadCluster, world: LoadWorld) -> None:
        self.silent: set[str] = set()
        self._machines = scenario.cluster
        self._cluster = cluster
        self._world = world
        self._turns: list[Turn] = timeline(scenario.faults)

    def advance(self, time_ms: int) -> None:
        """Begin and end every fault that is due."""
        while self._turns and self._turns[0].at_ms <= time_ms:
            self._apply(self._turns.pop(0))

    def join(self, broker: str, cores: float, nic_bytes_per_s: float) -> None:
        """Start a broker on a machine of its own."""
        self._world.add(broker, cores, nic_bytes_per_s)
        self._cluster.start(broker)

    def _apply(self, turn: Turn) -> None:
        fault = turn.fault
        begin = {
            faults.CRASH: self._crash,
            faults.LEAVE: self._leave,
            faults.JOIN: self._join_new,
            faults.SLOW: lambda fault: self._slow(fault.broker, fault.factor),
            faults.SILENT: lambda fault: self.silent.add(fault.broker),
            faults.LAG: lambda fault: self._lag(fault, True),
            faults.CUT: lambda fault: self._cluster.cut.update({fault.broker: self._cluster.now_ms + fault.for_ms}),
            faults.RESTART: lambda fault: self._cluster.restart_controller(),
        }
        end: dict[str, Callable[[Fault], object]] = {
            faults.CRASH: lambda fault: self._cluster.start(fault.broker),
            faults.LEAVE: lambda fault: self._cluster.start(fault.broker),
            faults.JOIN: self._leave,
            faults.SLOW: lambda fault: self._slow(fault.broker, 1.0),
            faults.SILENT: lambda fault: self.silent.discard(fault.broker),
            faults.LAG: lambda fault: self._lag(fault, False),
        }
        action = (begin if turn.begins else end).get(fault.kind)
        if action is not None:
            action(fault)

    def _join_new(self, fault: Fault) -> None:
        """Bandwidth grows in proportion to `cores`; without `cores` the machine is like the first broker's."""
        cores, nic_bytes_per_s = self._machines.machine(0)
        factor = (fault.cores or cores) / cores
        self.join(fault.broker, cores * factor, nic_bytes_per_s * factor)

    def _crash(self, fault: Fault) -> None:
        self._running(fault).crash()

    def _leave(self, fault: Fault) -> None:
        self._running(fault).leave()

    def _running(self, fault: Fault) -> SimAgent:
        agent = self._cluster.process_of(fault.broker)
        if agent is None:
            kind = faults.CRASH if fault.kind == faults.CRASH else faults.LEAVE  # a join that ends is a leave
            raise ConfigError(f"fault {kind} of {fault.broker} at {fault.at_ms} ms: it does not run then")
        return agent

    def _lag(self, fault: Fault, begins: bool) -> None:
        agent = self._cluster.process_of(fault.broker)
        if agent is not None:  # otherwise it has died meanwhile
            agent.reads_journal = not begins

    def _slow(self, broker: str, factor: float) -> None:
        self._world.slow[self._world.brokers.index(broker)] = factor
