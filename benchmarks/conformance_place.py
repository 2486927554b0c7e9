"""Adapters for the modular manager's placements: place, place-state.

A step says what changed since the step before (loads by broker, candidates, histories) and asks for one selection, or
for several in a row (`times`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.conformance_layout import RESOURCES, knobs_of, resource_of
from benchmarks.conformance_values import Adapters, BadCase, Case, Either, Pick, Series
from controller.domain.pulsar_knobs import PulsarKnobs
from controller.policy.pulsar.load_data import LocalBrokerData
from controller.policy.pulsar.placement import (
    AvgPlacement,
    BrokerLoads,
    Bundle,
    Choice,
    Draw,
    LeastLongTermMessageRate,
    LeastResourceUsageWithWeight,
    Placement,
    RoundRobinBrokerSelector,
)

SEED = 20240815
_ALL = "allResources"  # a percentage that holds for every resource
_COUNTS = ("times", "repeat", "selections", "selects", "picks", "calls", "n", "count")
_FAR = 1_000_000  # a `count` from here on is a counter to start from
_MANY = 30  # selections in a row, where a case without steps states a sequence
_PLANNED = re.compile(r"pre_?assigned|planned|assigned|remembered|destination|bundleBrokerMap", re.IGNORECASE)
_LONG_TERM = ("longTerm", "longTermData")
_AVERAGES = ("timeAverage", "timeAverageData", *_LONG_TERM)  # of all that a broker holds
_LIKE_A_KNOB = re.compile(r"loadBalance|loadManager|maxUnload|minUnload|preferLater|failureDomains|lowerBoundary")
_COUNTER = re.compile(r"counter|(?:set|start|initial)_?count|count_?(?:set|start|is)", re.IGNORECASE)
_RESTARTED = re.compile(r"restart|no_?bundles|without_?bundles|empty", re.IGNORECASE)
Step = Mapping[str, Any]


class Brokers:
    """What the case and its steps so far say of each broker."""

    def __init__(self, case: Case) -> None:
        self.fields: dict[str, dict[str, Any]] = {}
        self._merge(case.get("brokers") or {})

    def apply(self, step: Step) -> None:
        """Fields by broker, given as {broker: {field: value}} or as {field: {broker: value}}."""
        self._merge(step.get("brokers") or {})
        for name, rows in step.items():
            if name in ("brokers", "history") or _PLANNED.match(name) or not isinstance(rows, Mapping):
                if _RESTARTED.search(name):
                    self._merge({broker: {"bundles": []} for broker in rows})
                continue
            again: dict[str, Any] = {"bundles": []} if _RESTARTED.search(name) else {}
            field = _ALL if again else _field(name)
            self._merge({broker: {**again, field: value} for broker, value in rows.items()})

    def loads(self, knobs: PulsarKnobs) -> BrokerLoads:
        """As the placements see them."""
        local = [_local(row) for row in self.fields.values()]
        return BrokerLoads(
            tuple(self.fields),
            _floats(data.max_resource_usage_with_weight(knobs) for data in local),
            _floats(data.msg_rate_in + data.msg_rate_out for data in local),
            np.array([_bundle_count(row) for row in self.fields.values()], np.int64),
            _floats(_long_rate(row) for row in self.fields.values()),
        )

    def highest_usage(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """[B] without weights."""
        return _floats(_local(row).max_resource_usage() for row in self.fields.values())

    def indices(self, names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Candidates in the order given; a broker that nothing was said of is an idle one."""
        self._merge({name: {} for name in names if name not in self.fields})
        at = {name: place for place, name in enumerate(self.fields)}
        return np.array([at[name] for name in names], np.int64)

    def _merge(self, rows: Mapping[str, Any]) -> None:
        for broker, row in rows.items():
            self.fields.setdefault(broker, {}).update(row or {})


def place(make: Callable[[PulsarKnobs], Placement], case: Case) -> Mapping[str, Any]:
    """One placement strategy, step by step; what it keeps goes on."""
    knobs, said = knobs_and_rest(case)
    placement, brokers = make(knobs), Brokers(case)
    _prepare(placement, brokers, {**said, **case})
    bundle = Bundle(0.0, "the bundle of the case")
    picks: list[Any] = []
    candidates: list[str] = []
    for given in case.get("steps") or [{}]:
        step: Step = {"candidates": given} if isinstance(given, list) else given
        brokers.apply(step)
        candidates = _candidates(step, case, brokers, candidates, picks)
        _prepare(placement, brokers, step)
        at = brokers.indices(candidates)
        loads = brokers.loads(knobs)
        times = next((int(step[name]) for name in _COUNTS if int(step.get(name, _FAR)) < _FAR), None)
        found = [_checked(placement, at, bundle, loads) for _ in range(1 if times is None else times)]
        picks.append(found[0] if times is None else found)
    told: dict[str, Any] = {
        "per_step": picks,
        "steps": [{"expect": pick} for pick in picks],
        "selected": picks[-1],
        "broker": picks[-1],
        "count": getattr(placement, "count", None),
        "history": dict(getattr(placement, "history", {})),
        "history_size": len(getattr(placement, "history", ())),
    }
    if not case.get("steps") and candidates:
        more = (_checked(placement, at, bundle, loads) for _ in range(_MANY - 1))
        series = Series((picks[0], *more))
        told |= dict.fromkeys(("sequence", "picks", "selections"), series)
        told |= dict.fromkeys(("selected", "broker"), Either((picks[0], series)) if _in_turn(placement) else picks[0])
    return {**told, **dict.fromkeys(("one_of", "any_of"), picks[-1])}


def _in_turn(placement: Placement) -> bool:
    """Whether a list of brokers means one after the other, not one of them."""
    return isinstance(placement, RoundRobinBrokerSelector)


def place_state(make: Callable[[PulsarKnobs], Placement], case: Case) -> Mapping[str, Any]:
    """Steps in words: a selection among all brokers, or a change of the active ones."""
    knobs = knobs_of(case)
    placement, brokers = make(knobs), Brokers(case)
    at = brokers.indices(list(brokers.fields))
    sizes = []
    for step in case.get("steps") or ():
        changed = re.search(r"onActiveBrokersChange\(\{(.*)\}\)", str(step))
        if changed is None:
            placement.select(at, Bundle(0.0), brokers.loads(knobs))
        elif isinstance(placement, LeastResourceUsageWithWeight):
            placement.on_active_brokers_change(re.findall(r"[^\s,]+", changed[1]))
        sizes.append(len(getattr(placement, "history", ())))
    return {
        "history_size": sizes[-1] if sizes else 0,
        "per_step": sizes,
        "history": getattr(placement, "history", {}),
        "count": getattr(placement, "count", None),
    }


def knobs_and_rest(case: Case) -> tuple[PulsarKnobs, dict[str, Any]]:
    """The case's knobs, and what its config says beside them. A name like a knob's that is none is an error."""
    config = case.get("config") or {}
    rest = {name: value for name, value in config.items() if not _LIKE_A_KNOB.match(name)}
    return knobs_of(case, rest), rest


def _checked(
    placement: Placement, at: np.ndarray[Any, np.dtype[np.int64]], bundle: Bundle, loads: BrokerLoads
) -> Pick | str:
    """One selection. What AvgShedder drew must be remembered: asked again it must say the same."""
    choice: Choice = placement.select(at, bundle, loads)
    if choice.broker is None:
        return Pick(None, ())
    if isinstance(placement, AvgPlacement) and placement.select(at, bundle, loads).broker != choice.broker:
        return "not remembered"
    return Pick(loads.brokers[choice.broker], tuple(loads.brokers[one] for one in choice.among))


def _prepare(placement: Placement, brokers: Brokers, said: Mapping[str, Any]) -> None:
    """What a case or step gives a strategy to start with: a history, a counter, a planned destination."""
    if isinstance(placement, LeastResourceUsageWithWeight) and isinstance(said.get("history"), Mapping):
        placement.history = {str(broker): float(value) for broker, value in said["history"].items()}
    if isinstance(placement, RoundRobinBrokerSelector):
        for name, value in said.items():
            if isinstance(value, int) and (_COUNTER.search(name) or (name == "count" and value >= _FAR)):
                placement.count = value
    if isinstance(placement, AvgPlacement):
        for planned in [value for name, value in said.items() if _PLANNED.match(name)]:
            planned = next(iter(planned.values()), None) if isinstance(planned, Mapping) else planned
            if isinstance(planned, str):
                placement.plan(Bundle(0.0, "the bundle of the case"), int(brokers.indices([planned])[0]))


def _candidates(step: Step, case: Case, brokers: Brokers, before: Sequence[str], picks: Sequence[Any]) -> list[str]:
    """The step's, else those of the step before, the case's, or all brokers. "The others" are all but the last pick."""
    given = step.get("candidates", step.get("available_brokers"))
    if isinstance(given, str):
        if re.search(r"\bothers?\b", given) is None or not picks:
            raise BadCase(f"candidates {given!r}: write a list of brokers")
        last = picks[-1].value if isinstance(picks[-1], Pick) else picks[-1]
        return [name for name in before if name != last]
    if given is not None:
        return [str(name) for name in given]
    fallback = before or case.get("candidates") or case.get("available_brokers") or list(brokers.fields)
    return [str(name) for name in fallback]


def _field(name: str) -> str:
    """A field's name in Pulsar's spelling; one that says `usage` or `percent` of nothing in particular is of all."""
    known = {one.lower(): one for one in (*RESOURCES, "longTermMsgRateIn", "longTermMsgRateOut", "numTopics")}
    plain = name.replace("_", "").lower()
    for suffix in ("", "percent", "usage", "usagepercent"):
        if plain.removesuffix(suffix) in known:
            return known[plain.removesuffix(suffix)]
    if "usage" in plain or "percent" in plain:
        return _ALL
    if "preallocated" in plain:
        return "preallocated"
    return "longTermMsgRateIn" if "longterm" in plain or plain in ("rate", "rates") else name


def _local(row: Mapping[str, Any]) -> LocalBrokerData:
    """A broker that serves something: Pulsar's tests give theirs one bundle and 100 messages/s each way."""
    told = any(name in row for name in ("msgRate", "msgRateIn", "msgRateOut"))
    document: dict[str, Any] = {} if told else {"msgRateIn": 100.0, "msgRateOut": 100.0}
    document["msgRateIn"] = float(row.get("msgRate", document.get("msgRateIn", 0.0)))
    if _ALL in row:
        document |= {name: _resource(row[_ALL]) for name in RESOURCES}
    document |= {name: _resource(value) if name in RESOURCES else value for name, value in row.items()}
    return LocalBrokerData.from_json(document)


def _bundle_count(row: Mapping[str, Any]) -> int:
    """As the row says, by number or by name; one where it says nothing."""
    return int(row["numBundles"]) if "numBundles" in row else len(row.get("bundles", ("one",)) or ())


def _resource(value: Any) -> list[float]:
    resource = resource_of(value)
    return [resource.usage, resource.limit]


def _long_rate(row: Mapping[str, Any]) -> float:
    """Of the broker's bundles, and of those preallocated to it: a rate, or rates by bundle."""
    rates: list[float] = []
    for name, given in row.items():
        if name.lower().startswith("preallocated"):
            values = given.values() if isinstance(given, Mapping) else given if isinstance(given, list) else [given]
            rates += [both_rates(one) if isinstance(one, Mapping) else float(one) for one in values]
        elif name in _AVERAGES and isinstance(given, Mapping):
            rates.append(both_rates(given))
    return both_rates(row) + float(row.get("longTermMsgRate", 0)) + sum(rates)


def both_rates(row: Mapping[str, Any]) -> float:
    inner = [row[name] for name in _LONG_TERM if isinstance(row.get(name), Mapping)]
    nested: Mapping[str, Any] = inner[0] if inner else {}
    return sum(
        float(row.get(f"longTermM{way}", 0)) + float(nested.get(f"m{way}", 0)) for way in ("sgRateIn", "sgRateOut")
    )


def _floats(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(list(values), np.float64)


_MAKERS: Mapping[str, Callable[[PulsarKnobs], Placement]] = {
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
    """An adapter that looks its placement up by the case's strategy."""

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
