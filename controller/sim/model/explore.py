"""Breadth-first exploration of a model: every reachable state once, a shortest trace to the first breach, liveness.

A model says where it starts, what may happen next, and what a state breaks. It is live if from every reachable state a
settled one can be reached without further disturbances. `code` is a state's normal form; states with the same code
behave alike. A trace is walked without normal forms, so that names and numbers in it mean the same from step to step.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from controller.sim.model.configuration import STUCK


class Step(NamedTuple):
    """One step. `cost`: disturbances; `broken`: what the step itself breaks."""

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


@dataclass(frozen=True, slots=True)
class Found:
    """The result of an exploration. `breach`: what was broken, empty if nothing was; `trace`: the steps to it."""

    states: int
    steps: int
    depth: int
    breach: str
    trace: list[str]


def explore(model: Model) -> Found:
    """Explore the model up to the first breach."""
    search = _Search(model)
    breach = search.run()
    if not breach and search.find_stuck():
        breach = f"{STUCK}: nothing leads to a state in which everything is served"
    trace, in_its_names = search.walk() if breach else ([], "")
    return Found(len(search.states), len(search.targets), search.depth, in_its_names or breach, trace)


class _Search:
    """The states by their numbers, in the order in which they were reached. `broken`: the state that breaks something,
    or has a step that does."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.states: list[Hashable] = [model.start()]
        self.parents = array("i", [-1])
        self.sources, self.targets, self.costs = array("i"), array("i"), array("b")
        self.depth = 0
        self.broken = 0
        self.broken_by_step = False

    def run(self) -> str:
        """Reach everything; returns the first breach."""
        states, model = self.states, self.model
        numbers: dict[Hashable, int] = {states[0]: 0}
        at, level_ends = 0, 1
        while at < len(states):
            if at == level_ends:
                self.depth, level_ends = self.depth + 1, len(states)
            for step in model.steps(states[at]):
                if step.broken:
                    self.broken, self.broken_by_step = at, True
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
                        self.broken = number
                        return breach
            at += 1
        return ""

    def find_stuck(self) -> bool:
        """Whether there is a state from which no settled one is reached without disturbances; it is then `broken`."""
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
        self.broken = int(stuck[0]) if len(stuck) else 0
        return bool(len(stuck))

    def walk(self) -> tuple[list[str], str]:
        """The steps from the start to what is broken, in words, and the breach in the same names; empty if stuck."""
        path: list[Hashable] = []
        at = self.broken
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
        if self.broken_by_step:
            step = next(step for step in self.model.steps(state, coded=False) if step.broken)
            return [*told, self.model.tell(state, step)], step.broken
        return told, self.model.breach(state)
