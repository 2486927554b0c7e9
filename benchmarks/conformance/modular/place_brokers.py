"""The brokers in a case about placement, at the start and after each step, under any of the names for their fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.conformance.layout import RESOURCES, names_of, resource_of, rows_of, stats_of
from benchmarks.conformance.reading import first, known
from benchmarks.conformance.values import BadCase, Case
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.load_data import LocalBrokerData
from controller.pulsar.placement.strategies import BrokerLoads

_ALL = "allResources"  # a percentage that holds for every resource
_LONG_TERM = ("longTerm", "longTermData")
_AVERAGES = ("timeAverage", "timeAverageData", *_LONG_TERM)  # over all bundles of a broker
_FIELDS = (
    *RESOURCES,
    *("msgRate", "msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut"),
    *("numTopics", "topics", "numBundles", "bundles", "longTermMsgRate", "longTermMsgRateIn", "longTermMsgRateOut"),
)
_USAGE_WORDS = {"usage", "usages", "percent", "percentage", "all", "resource", "resources", "max", "of", "each"}
_RATE_WORDS = {"long", "term", "longterm", "msg", "message", "rate", "rates"}
_PREALLOCATED_WORDS = {"preallocated", "bundle", "bundles", "data", *_RATE_WORDS}
_RESTARTED = re.compile(
    r"(?:just_?)?(?:restart(?:ed)?|no_?bundles|without_?bundles|empty)(?:_?brokers?)?", re.IGNORECASE
)
_WAYS = ("RateIn", "RateOut", "ThroughputIn", "ThroughputOut")
_TIME_AVERAGES = tuple(f"{term}TermMsg{way}" for term in ("short", "long") for way in _WAYS)
Step = Mapping[str, Any]


class Brokers:
    """The fields of each broker according to the case and its steps so far."""

    def __init__(self, case: Case) -> None:
        self.fields: dict[str, dict[str, Any]] = {}
        self._merge(case)

    def apply(self, step: Step) -> None:
        """Set fields given as {broker: {field: value}} or as {field: {broker: value}}."""
        self._merge(step)
        for name in step:
            field = _field(name)
            if _RESTARTED.fullmatch(name):
                rows = step[name]
                self._update({broker: {"bundles": []} for broker in names_of(rows)})
                field = _ALL if isinstance(rows, Mapping) else None
            if field is not None:
                if not isinstance(step[name], Mapping):
                    raise BadCase(f"{name} of a step is {step[name]!r}: write it by broker")
                self._update({broker: {field: value} for broker, value in step[name].items()})

    def loads(self, knobs: PulsarKnobs) -> BrokerLoads:
        """The brokers as the placement strategies see them."""
        local = [_local(row) for row in self.fields.values()]
        return BrokerLoads(
            tuple(self.fields),
            _floats(data.max_resource_usage_with_weight(knobs) for data in local),
            _floats(data.msg_rate_in + data.msg_rate_out for data in local),
            np.array([_bundle_count(row) for row in self.fields.values()], np.int64),
            _floats(_long_rate(row) for row in self.fields.values()),
        )

    def highest_usage(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """[B] the largest usage without weights."""
        return _floats(_local(row).max_resource_usage() for row in self.fields.values())

    def indices(self, names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The indices of the candidates in the given order. An unknown broker is an idle one."""
        self._update({name: {} for name in names if name not in self.fields})
        at = {name: place for place, name in enumerate(self.fields)}
        return np.array([at[name] for name in names], np.int64)

    def _merge(self, case: Mapping[str, Any]) -> None:
        """Set the fields in `brokers`. A name that is no field stays unread."""
        for broker, row in rows_of(case, "brokers").items():
            fields = ((_field(name, in_row=True), name) for name in row)
            self._update({broker: {field: row[name] for field, name in fields if field is not None}})

    def _update(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        for broker, row in rows.items():
            self.fields.setdefault(broker, {}).update(row)


def _field(name: str, in_row: bool = False) -> str | None:
    """A field's name in Pulsar's spelling. `usage` or `percent` without a resource means all resources.

    None: there is no such field. Averages over all bundles are fields only in a broker's row.
    """
    spelt: dict[str, str] = {one.lower(): one for one in (*_FIELDS, *(_AVERAGES if in_row else ()))}
    plain = name.replace("_", "").lower()
    for suffix in ("", "percent", "usage", "usagepercent"):
        if plain.removesuffix(suffix) in spelt:
            return spelt[plain.removesuffix(suffix)]
    words = {word.lower() for word in re.findall(r"[a-z]+|[A-Z][a-z]*", name)}
    if words & {"usage", "usages", "percent", "percentage"} and words <= _USAGE_WORDS:
        return _ALL
    if words <= _RATE_WORDS and words & {"rate", "rates", "longterm", "long"}:
        return "longTermMsgRateIn"
    return "preallocated" if "preallocated" in words and words <= _PREALLOCATED_WORDS else None


def _local(row: Mapping[str, Any]) -> LocalBrokerData:
    """A busy broker by default: Pulsar's tests give it one bundle and 100 messages/s each way."""
    has_rate = any(name in row for name in ("msgRate", "msgRateIn", "msgRateOut"))
    document: dict[str, Any] = {} if has_rate else {"msgRateIn": 100.0, "msgRateOut": 100.0}
    document["msgRateIn"] = float(row.get("msgRate", document.get("msgRateIn", 0.0)))
    if _ALL in row:
        document |= {name: _resource(row[_ALL]) for name in RESOURCES}
    document |= {name: _resource(value) if name in RESOURCES else value for name, value in row.items()}
    return LocalBrokerData.from_json(document)


def _bundle_count(row: Mapping[str, Any]) -> int:
    """The number of bundles, given as a number or by their names; one by default."""
    return int(row["numBundles"]) if "numBundles" in row else len(row.get("bundles", ("one",)) or ())


def _resource(value: Any) -> list[float]:
    resource = resource_of(value)
    return [resource.usage, resource.limit]


def _long_rate(row: Mapping[str, Any]) -> float:
    """The long-term rate of the broker's bundles and of those preallocated to it: one rate, or rates by bundle."""
    rates: list[float] = []
    for name, given in row.items():
        if name.lower().startswith("preallocated"):
            values = given.values() if isinstance(given, Mapping) else given if isinstance(given, list) else [given]
            rates += [both_rates(one) if isinstance(one, Mapping) else float(one) for one in values]
        elif name in _AVERAGES and isinstance(given, Mapping):
            rates.append(both_rates(given))
    return both_rates(row) + float(row.get("longTermMsgRate", 0)) + sum(rates)


def both_rates(row: Mapping[str, Any]) -> float:
    """The long-term rate in + out, from longTermMsgRateIn or under longTerm. Pulsar's other averages are ignored."""
    said = known(row, *_TIME_AVERAGES)
    nested = stats_of(first(row, *_LONG_TERM, default={}))
    plain = float(said.get("longTermMsgRateIn", 0)) + float(said.get("longTermMsgRateOut", 0))
    return plain + nested.msg_rate_in + nested.msg_rate_out


def _floats(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(list(values), np.float64)
