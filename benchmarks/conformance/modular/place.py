"""Adapters for the modular manager's placement strategies: place, place-state.

A step says what changed since the previous step (loads by broker, candidates, histories; its `config` applies to that
step only) and requests one selection, or several in a row (`times`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.conformance.layout import knobs_of, names_of
from benchmarks.conformance.modular.place_brokers import Brokers, Step
from benchmarks.conformance.modular.shed import active_brokers
from benchmarks.conformance.reading import first
from benchmarks.conformance.values import Adapters, BadCase, Case, Either, Pick, Series
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.placement.strategies import (
    AvgPlacement,
    BrokerLoads,
    BundleToPlace,
    Choice,
    Draw,
    LeastLongTermMessageRate,
    LeastResourceUsageWithWeight,
    PlacementStrategy,
    RoundRobinBrokerSelector,
)

SEED = 20240815
_COUNTS = ("times", "repeat", "selections", "selects", "picks", "calls", "n", "count")
_FAR = 1_000_000  # a `count` of at least this is the initial value of the counter
_MANY = 30  # selections in a row if a case without steps states a sequence
_PLANNED = re.compile(
    r"(?:pre_?assigned|planned|assigned|remembered|destination|bundleBrokerMap)(?:_?broker)?", re.IGNORECASE
)
_COUNTER = re.compile(r"(?:(?:set|start|initial)_?)?counter|(?:set|start|initial)_?count|count_?(?:set|start|is)", re.I)


def place(make: Callable[[PulsarKnobs], PlacementStrategy], case: Case) -> Mapping[str, Any]:
    """One placement strategy, step by step. It keeps its state between steps."""
    placement, brokers = make(knobs_of(case)), Brokers(case)
    _prepare(placement, brokers, case.get("config") or {})
    _prepare(placement, brokers, case)
    bundle = BundleToPlace(0.0, "the bundle of the case")
    picks: list[Any] = []
    of_case = first(case, "candidates", "available_brokers")
    candidates: list[str] = []
    for given in case.get("steps") or [{}]:
        step: Step = {"candidates": given} if isinstance(given, list) else given
        knobs = knobs_of(case, step.get("config") or {})
        placement = _carry_over(make(knobs), placement)
        brokers.apply(step)
        fallback = candidates or of_case or list(brokers.fields)
        candidates = _candidates(step, fallback, picks)
        _prepare(placement, brokers, step)
        at = brokers.indices(candidates)
        loads = brokers.loads(knobs)
        times = _times(step)
        found = [_select(placement, at, bundle, loads) for _ in range(1 if times is None else times)]
        picks.append(found[0] if times is None else found)
    results: dict[str, Any] = {
        "per_step": picks,
        "steps": [{"expect": pick} for pick in picks],
        "selected": picks[-1],
        "broker": picks[-1],
        "count": getattr(placement, "count", None),
        "history": dict(getattr(placement, "history", {})),
        "history_size": len(getattr(placement, "history", ())),
    }
    if not case.get("steps") and candidates:
        more = [_select(placement, at, bundle, loads) for _ in range((_times(case) or _MANY) - 1)]
        series = Series((picks[0], *more))
        results |= dict.fromkeys(("sequence", "picks", "selections"), series)
        selected = Either((picks[0], series)) if _takes_turns(placement) else picks[0]
        results |= dict.fromkeys(("selected", "broker"), selected)
    return {**results, **dict.fromkeys(("one_of", "any_of"), picks[-1])}


def _times(row: Mapping[str, Any]) -> int | None:
    """The number of selections in a row. None: one selection, whose result is not in a list."""
    return next((int(row[name]) for name in _COUNTS if int(row.get(name, _FAR)) < _FAR), None)


def _carry_over(fresh: PlacementStrategy, before: PlacementStrategy) -> PlacementStrategy:
    """The placement with a step's knobs and its state so far. Placements with other state have no knobs."""
    if isinstance(fresh, LeastResourceUsageWithWeight) and isinstance(before, LeastResourceUsageWithWeight):
        fresh.history = before.history
        return fresh
    return fresh if isinstance(fresh, LeastLongTermMessageRate) else before


def _takes_turns(placement: PlacementStrategy) -> bool:
    """Whether a list of brokers means one after the other rather than any one of them."""
    return isinstance(placement, RoundRobinBrokerSelector)


def place_state(make: Callable[[PulsarKnobs], PlacementStrategy], case: Case) -> Mapping[str, Any]:
    """Steps in words: a selection among all brokers, or a change of the active brokers."""
    knobs = knobs_of(case)
    placement, brokers = make(knobs), Brokers(case)
    at = brokers.indices(list(brokers.fields))
    sizes = []
    for step in case.get("steps") or ():
        active = active_brokers(str(step))
        if active is None and not re.match(r"(run )?(one |a )?(select|place)", str(step)):
            raise BadCase(f"step {step!r} is not understood: write 'select' or 'onActiveBrokersChange({{…}})'")
        if active is None:
            placement.select(at, BundleToPlace(0.0), brokers.loads(knobs))
        elif isinstance(placement, LeastResourceUsageWithWeight):
            placement.on_active_brokers_change(active)
        sizes.append(len(getattr(placement, "history", ())))
    return {
        "history_size": sizes[-1] if sizes else 0,
        "per_step": sizes,
        "history": getattr(placement, "history", {}),
        "count": getattr(placement, "count", None),
    }


def _select(
    placement: PlacementStrategy, at: np.ndarray[Any, np.dtype[np.int64]], bundle: BundleToPlace, loads: BrokerLoads
) -> Pick | str:
    """Select once. AvgShedder must remember what it drew: a second call must return the same broker."""
    choice: Choice = placement.select(at, bundle, loads)
    if choice.broker is None:
        return Pick(None, ())
    if isinstance(placement, AvgPlacement) and placement.select(at, bundle, loads).broker != choice.broker:
        return "not remembered"
    among = tuple(loads.brokers[one] for one in choice.among)
    return Pick(loads.brokers[choice.broker], among, remembered=isinstance(placement, AvgPlacement))


def _prepare(placement: PlacementStrategy, brokers: Brokers, said: Mapping[str, Any]) -> None:
    """Set the initial state that a case or step gives: a history, a counter, a planned destination."""
    if isinstance(placement, LeastResourceUsageWithWeight) and isinstance(said.get("history"), Mapping):
        placement.history = {str(broker): float(value) for broker, value in said["history"].items()}
    if isinstance(placement, RoundRobinBrokerSelector):
        for name in said:
            far = name == "count" and int(said[name] or 0) >= _FAR
            if far or _COUNTER.fullmatch(name):
                placement.count = int(said[name])
    if isinstance(placement, AvgPlacement):
        for name in said:
            if _PLANNED.fullmatch(name):
                planned = list(said[name].values()) if isinstance(said[name], Mapping) else [said[name]]
                if len(planned) != 1:
                    raise BadCase(f"{name} names {len(planned)} destinations: the case places one bundle")
                placement.plan(BundleToPlace(0.0, "the bundle of the case"), int(brokers.indices([str(planned[0])])[0]))


def _candidates(step: Step, fallback: Sequence[str], picks: Sequence[Any]) -> list[str]:
    """The candidates of the step, else of the previous step, the case, or all. "The others": all but the last pick."""
    given = step["candidates"] if "candidates" in step else step.get("available_brokers")
    if isinstance(given, str):
        if re.search(r"\bothers?\b", given) is None or not picks:
            raise BadCase(f"candidates {given!r}: write a list of brokers")
        last = picks[-1].value if isinstance(picks[-1], Pick) else picks[-1]
        return [name for name in fallback if name != last]
    return names_of(fallback if given is None else given)


_MAKERS: Mapping[str, Callable[[PulsarKnobs], PlacementStrategy]] = {
    "LeastLongTermMessageRate": lambda knobs: LeastLongTermMessageRate(knobs, Draw(SEED)),
    "LeastResourceUsageWithWeight(modular)": lambda knobs: LeastResourceUsageWithWeight(knobs, Draw(SEED)),
    "RoundRobinBrokerSelector": lambda knobs: RoundRobinBrokerSelector(),
    "AvgShedder(placement)": lambda knobs: AvgPlacement(Draw(SEED)),
}
_OTHER_NAMES = {
    "LeastResourceUsageWithWeight": "LeastResourceUsageWithWeight(modular)",
    "AvgShedder": "AvgShedder(placement)",
}


def by_strategy(run: Callable[..., Mapping[str, Any]]) -> Callable[[Case], Mapping[str, Any]]:
    """Make an adapter that uses the placement named by the case's strategy."""

    def adapter(case: Case) -> Mapping[str, Any]:
        name = str(case["strategy"])
        maker = _MAKERS.get(_OTHER_NAMES.get(name, name)) or _MAKERS.get(name.removesuffix("(modular)"))
        if maker is None:
            raise BadCase(f"no placement of the modular manager is called {name!r}")
        return run(maker, case)

    return adapter


ADAPTERS: Adapters = {
    "place": by_strategy(place),
    "place-state": by_strategy(place_state),
}
