"""Adapters for the modular manager's placements: place, place-state.

A step says what changed since the step before (loads by broker, candidates, histories) and asks for one selection, or
for several in a row (`times`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.conformance_layout import RESOURCES, knobs_of
from benchmarks.conformance_values import Adapters, BadCase, Case, Pick, Series
from controller.domain.pulsar_knobs import PulsarKnobs
from controller.policy.pulsar.broker_selection import BrokerSelection
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
NAMESPACE = "t/ns"
FURTHER_BUNDLES = 49  # placed after those of the case to see where they go
_ALL = "allResources"  # a percentage that holds for every resource
_COUNTS = ("times", "repeat", "selections", "selects", "picks", "calls", "n", "count")
_FAR = 1_000_000  # a `count` from here on is a counter to start from
_MANY = 30  # selections in a row, where a case without steps states a sequence
_PLANNED = ("preassigned", "planned", "assigned", "remembered", "bundleBrokerMap")
_LIKE_A_KNOB = re.compile(r"loadBalance|loadManager|maxUnload|minUnload|preferLater|failureDomains|lowerBoundary")
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
            if name in ("brokers", "history", *_PLANNED) or not isinstance(rows, Mapping):
                if _RESTARTED.search(name):
                    self._merge({broker: {"bundles": []} for broker in rows})
                continue
            self._merge({broker: {_field(name): value} for broker, value in rows.items()})

    def loads(self, knobs: PulsarKnobs) -> BrokerLoads:
        """As the placements see them."""
        local = [_local(row) for row in self.fields.values()]
        return BrokerLoads(
            tuple(self.fields),
            _floats(data.max_resource_usage_with_weight(knobs) for data in local),
            _floats(data.msg_rate_in + data.msg_rate_out for data in local),
            np.array([len(data.bundles) for data in local], np.int64),
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
    knobs, said = _knobs_and_rest(case)
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
        told |= dict.fromkeys(("sequence", "picks"), Series((picks[0], *more)))
    return told


def place_by_manager(case: Case) -> Mapping[str, Any]:
    """The whole pipeline: the case's bundles first, then more of the same namespace.

    None may join a broker over the topic limit while there are others, and of those the ones with the fewest bundles
    of the namespace come first.
    """
    knobs, _ = _knobs_and_rest(case)
    brokers = Brokers(case)
    loads = brokers.loads(knobs)
    topics = np.array([int(row.get("numTopics", row.get("topics", 0))) for row in brokers.fields.values()], np.int64)
    spread = np.zeros(len(topics), np.int64)
    lowest = LeastLongTermMessageRate(knobs, Draw(SEED))
    pipeline = BrokerSelection(
        loads, brokers.highest_usage(), topics, lambda namespace: np.zeros_like(spread), lowest, knobs
    )
    where: dict[str, str | None] = {}
    broken = []
    for name, row in [*(case.get("bundles") or {}).items(), *((f"further-{at}", {}) for at in range(FURTHER_BUNDLES))]:
        open_ = topics <= knobs.load_balancer_broker_max_topics
        allowed = open_ if open_.any() else np.ones_like(open_)
        if knobs.load_balancer_distribute_bundles_evenly_enabled:
            allowed = allowed & (spread == spread[allowed].min())
        bundle = Bundle(_both(row), name)
        at = pipeline.select(bundle, NAMESPACE, np.ones(len(topics), bool)).broker
        where[name] = None if at is None else loads.brokers[at]
        if at is None or not allowed[at]:
            broken.append(name)
        if at is not None:
            pipeline.placed(bundle, NAMESPACE, at, int(row.get("topics", 0)))
            topics[at] += int(row.get("topics", 0))
            spread[at] += 1
    return {"property": not broken or f"{broken} were placed against the filters", "placed": where, **where}


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
    return {"history_size": sizes[-1] if sizes else 0, "per_step": sizes, "history": getattr(placement, "history", {})}


def _knobs_and_rest(case: Case) -> tuple[PulsarKnobs, dict[str, Any]]:
    """The case's knobs, and what its config says beside them. A name like a knob's that is none is an error."""
    config = case.get("config") or {}
    rest = {name: value for name, value in config.items() if not _LIKE_A_KNOB.match(name)}
    return knobs_of(case, rest), rest


def _checked(
    placement: Placement, at: np.ndarray[Any, np.dtype[np.int64]], bundle: Bundle, loads: BrokerLoads
) -> Pick | str | None:
    """One selection. What AvgShedder drew must be remembered: asked again it must say the same."""
    choice: Choice = placement.select(at, bundle, loads)
    if choice.broker is None:
        return None
    if isinstance(placement, AvgPlacement) and placement.select(at, bundle, loads).broker != choice.broker:
        return "not remembered"
    return Pick(loads.brokers[choice.broker], tuple(loads.brokers[one] for one in choice.among))


def _prepare(placement: Placement, brokers: Brokers, said: Mapping[str, Any]) -> None:
    """What a case or step gives a strategy to start with: a history, a counter, a planned destination."""
    if isinstance(placement, LeastResourceUsageWithWeight) and isinstance(said.get("history"), Mapping):
        placement.history = {str(broker): float(value) for broker, value in said["history"].items()}
    if isinstance(placement, RoundRobinBrokerSelector):
        given = int(said.get("set_count", said.get("counter", said.get("count", -1))))
        placement.count = given if given >= _FAR or {"set_count", "counter"} & set(said) else placement.count
    if isinstance(placement, AvgPlacement):
        for name in _PLANNED:
            planned = said.get(name)
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
    document: dict[str, Any] = {"msgRateIn": 100.0, "msgRateOut": 100.0, "bundles": ["0x00000000_0xffffffff"]}
    if _ALL in row:
        document |= {name: _resource(row[_ALL]) for name in RESOURCES}
    document |= {name: _resource(value) if name in RESOURCES else value for name, value in row.items()}
    return LocalBrokerData.from_json(document)


def _resource(value: Any) -> list[float]:
    """[usage, limit], or a percentage."""
    if isinstance(value, Mapping):
        return [float(value["usage"]), float(value["limit"])]
    return [float(one) for one in value] if isinstance(value, list) else [float(value), 100.0]


def _long_rate(row: Mapping[str, Any]) -> float:
    """Of the broker's bundles, and of those preallocated to it: a rate, or rates by bundle."""
    given = row.get("preallocated", 0)
    values = given.values() if isinstance(given, Mapping) else given if isinstance(given, list) else [given]
    rates = [_both(one) if isinstance(one, Mapping) else float(one) for one in values]
    return _both(row) + float(row.get("longTermMsgRate", 0)) + sum(rates)


def _both(row: Mapping[str, Any]) -> float:
    return float(row.get("longTermMsgRateIn", 0)) + float(row.get("longTermMsgRateOut", 0))


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
        maker = _MAKERS.get(_OTHER_NAMES.get(name, name))
        if maker is None:
            raise BadCase(f"no placement of the modular manager is called {name!r}")
        return run(maker, case)

    return adapter


ADAPTERS: Adapters = {
    "place": by_strategy(place),
    "place-state": by_strategy(place_state),
    ("place", "ModularLoadManagerImpl"): place_by_manager,
}
