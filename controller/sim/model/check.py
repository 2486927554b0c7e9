"""Checks one configuration: the lease first, in time, then the protocol with what the lease allows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controller.domain.ownership import State
from controller.sim.model.configuration import Configuration
from controller.sim.model.explore import Found, explore
from controller.sim.model.lease import LeaseModel
from controller.sim.model.protocol import OwnershipModel


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration that was checked. `control_calls`, `core_calls`: how often the control step and the agents'
    hand-over core were called, each time with another input; `inputs`: of which kinds; `taken`: the transitions that
    the step has made."""

    configuration: Configuration
    lease: Found
    ownership: Found
    control_calls: int
    core_calls: int
    inputs: frozenset[str]
    taken: frozenset[tuple[State, State]]

    @property
    def breach(self) -> str:
        """What was broken, empty if nothing was."""
        return self.ownership.breach or self.lease.breach


def check(configuration: Configuration, disturbances: int | None = None, bug: str = "") -> Checked:
    """Explore the configuration up to its first breach, with another bound than its own if given.

    A lease that may end too early is no end: the trace through the protocol shows what it leads to.
    """
    if disturbances is not None:
        configuration = replace(configuration, disturbances=disturbances)
    lease = explore(LeaseModel(bug))
    model = OwnershipModel(configuration, bug, early_ends=bool(lease.breach))
    ownership = explore(model)
    control, agent = model.control, model.agent
    inputs, taken = agent.inputs | control.handled, frozenset(control.taken)
    return Checked(configuration, lease, ownership, control.calls, agent.calls, inputs, taken)
