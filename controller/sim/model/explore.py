"""Breadth-first exploration of a model: every reachable state once, a shortest trace to the first breach, liveness.

A model says where it starts, what may happen next, and what a state breaks. It is live if from every reachable state a
settled one can be reached without further disturbances. `code` is a state's normal form; states with the same code
behave alike. A trace is walked without normal forms, so that names and numbers in it mean the same from step to step.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from controller.domain.errors import BallastError
from controller.sim.model.configuration import STUCK


class TooManyStates(BallastError):
    """The exploration has become larger than was asked for."""


class Step(NamedTuple):
    """One step. `cost`: disturbances; `broken`: what the step itself breaks, its state is then the one before."""

    label: Any
    cost: int
    state: Any
    broken: str = ""


class Model(Protocol):
    """What can be explored."""

    def start(self) -> Hashable:
        """The first state, in normal form."""

    def code(self, state: Any) -> Hashable:
        """The normal form of a state that `steps` has made without it."""

    def steps(self, state: Any, coded: bool = True) -> Iterable[Step]:
        """What may happen next; `coded`: with states in normal form."""

    def breach(self, state: Any) -> str:
        """What must not be about this state; empty if it may be."""

    def is_settled(self, state: Any) -> bool:
        """Whether everything is as it should be in the end."""

    def tell(self, before: Any, step: Step) -> str:
        """A step in words."""


@dataclass(slots=True)
class Found:
    """The result of an exploration. `breach`: what was broken, empty if nothing was; `trace`: the steps that lead to
    it."""

    states: int = 0
    steps: int = 0
    depth: int = 0
    breach: str = ""
    trace: list[str] = field(default_factory=list)


def explore(model: Model, most_states: int | None = None) -> Found:
    """Explore the model up to the first breach. Raises TooManyStates beyond `most_states`."""
    search = _Search(model)
    breach = search.run(most_states)
    at = len(search.states) - 1
    if not breach:
        at = search.find_stuck()
        breach = f"{STUCK}: nothing leads to a state in which everything is served" if at >= 0 else ""
    found = Found(len(search.states), len(search.targets), search.depth, breach)
    if breach:
        found.trace = search.walk_to(search.broken_at if search.broken_at >= 0 else at, search.broken_at >= 0)
    return found


class _Search:
    """The states by their numbers, in the order in which they were reached."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.states: list[Hashable] = [model.start()]
        self.parents = array("i", [-1])
        self.sources, self.targets, self.costs = array("i"), array("i"), array("b")
        self.depth = 0
        self.broken_at = -1  # the state that has a step which breaks something

    def run(self, most_states: int | None) -> str:
        """Reach everything; returns the first breach, of the newest state unless `broken_at` is set."""
        states, model = self.states, self.model
        numbers: dict[Hashable, int] = {states[0]: 0}
        at, level_ends = 0, 1
        while at < len(states):
            if at == level_ends:
                self.depth, level_ends = self.depth + 1, len(states)
            for step in model.steps(states[at]):
                if step.broken:
                    self.broken_at = at
                    return step.broken
                number = numbers.setdefault(step.state, len(states))
                self.sources.append(at)
                self.targets.append(number)
                self.costs.append(step.cost)
                if number == len(states):
                    states.append(step.state)
                    self.parents.append(at)
                    breach = model.breach(step.state)
                    if breach:
                        return breach
            at += 1
            if most_states is not None and len(states) > most_states:
                raise TooManyStates(f"more than {most_states} states at depth {self.depth}: allow fewer disturbances")
        return ""

    def find_stuck(self) -> int:
        """The first state from which no settled one is reached without disturbances; -1 if there is none."""
        free = np.frombuffer(self.costs, dtype=np.int8) == 0
        sources = np.frombuffer(self.sources, dtype=np.int32)[free]
        targets = np.frombuffer(self.targets, dtype=np.int32)[free]
        by_target = np.argsort(targets, kind="stable")
        sources = sources[by_target]
        begins = np.searchsorted(targets[by_target], np.arange(len(self.states) + 1))
        live = np.fromiter((self.model.is_settled(state) for state in self.states), dtype=bool, count=len(self.states))
        newest = np.flatnonzero(live)
        while len(newest):
            counts = begins[newest + 1] - begins[newest]
            ends = np.cumsum(counts)
            places = np.arange(ends[-1]) + np.repeat(begins[newest] - (ends - counts), counts)
            before = np.unique(sources[places])
            newest = before[~live[before]]
            live[newest] = True
        stuck = np.flatnonzero(~live)
        return int(stuck[0]) if len(stuck) else -1

    def walk_to(self, at: int, to_broken_step: bool) -> list[str]:
        """The steps from the start to a state, in words, and the step there that breaks something."""
        path: list[Hashable] = []
        while at > 0:
            path.append(self.states[at])
            at = self.parents[at]
        state: Any = self.states[0]
        told: list[str] = []
        for wanted in reversed(path):
            steps = self.model.steps(state, coded=False)
            step = next(step for step in steps if not step.broken and self.model.code(step.state) == wanted)
            told.append(self.model.tell(state, step))
            state = step.state
        if to_broken_step:
            broken = next(step for step in self.model.steps(state, coded=False) if step.broken)
            told.append(self.model.tell(state, broken))
        return told
