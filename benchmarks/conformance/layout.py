"""The layouts of case files: knobs, usages, statistics, moments, groups of identical brokers.

A layout may leave things out (Pulsar's defaults apply), but it must not name anything unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.conformance.reading import known
from benchmarks.conformance.values import BadCase, Case
from controller.domain.settings.pulsar import KNOBS_BY_PULSAR_NAME, PulsarKnobs, from_pulsar
from controller.pulsar.load.load_data import LocalBrokerData, NamespaceBundleStats, ResourceUsage

NOW_MS = 1_000_000_000_000  # unless a case sets the time
RESOURCES = {
    "cpu": "cpu",
    "memory": "memory",
    "directMemory": "direct_memory",
    "bandwidthIn": "bandwidth_in",
    "bandwidthOut": "bandwidth_out",
}
_STATS = {
    "msgRateIn": "msg_rate_in",
    "msgRateOut": "msg_rate_out",
    "msgThroughputIn": "msg_throughput_in",
    "msgThroughputOut": "msg_throughput_out",
    "topics": "topics",
    "consumerCount": "consumer_count",
    "producerCount": "producer_count",
    "cacheSize": "cache_size",
}
_LOCAL = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut", "numTopics", "numBundles")
_NAMES = ("id", "name", "broker", "brokerId", "bundle", "bundleName")
_ELAPSED = re.compile(
    r"(?P<minutes>minute|_min\b)|(?P<seconds>second|_s\b)|(?P<ms>milli|_ms\b|elapsedMs)", re.IGNORECASE
)
_UNIT_NAMES = {"minutes": "min", "seconds": "s", "ms": "ms"}
_UNITS_MS = {"ms": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_UNITS_MS |= {"seconds": 1_000, "minutes": 60_000}


def knobs_of(case: Case, *more: Mapping[str, Any]) -> PulsarKnobs:
    """Pulsar's knobs from the case's config, overridden by `more`. Other names stay unread."""
    said: dict[str, Any] = {}
    for config in (case.get("config") or {}, *more):
        said |= known(config, *(name for name in config if name in KNOBS_BY_PULSAR_NAME))
    return from_pulsar(said)


def usages_of(row: Mapping[str, Any]) -> dict[str, ResourceUsage]:
    """The resources of a row, given as [usage, limit] or {"usage": …, "limit": …}."""
    found: dict[str, ResourceUsage] = {}
    for name, ours in RESOURCES.items():
        if row.get(name) is not None:
            found[ours] = resource_of(row[name])
    return found


def stats_of(row: Mapping[str, Any]) -> NamespaceBundleStats:
    """The statistics of one bundle; missing ones are 0, other names are ignored."""
    return NamespaceBundleStats(**{ours: row[name] for name, ours in _STATS.items() if row.get(name) is not None})


def local_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row in Pulsar's JSON of LocalBrokerData, for `LocalBrokerData.from_json`, without nulls."""
    found = known(row, *_LOCAL)
    found |= {name: [*resource_of(value)] for name, value in known(row, *RESOURCES).items()}
    if row.get("bundles") is not None:
        found["bundles"] = names_of(row["bundles"])
    if row.get("lastStats") is not None:
        found["lastStats"] = {bundle: known(stats, *_STATS) for bundle, stats in row["lastStats"].items()}
    return found


def local_of(row: Mapping[str, Any]) -> LocalBrokerData:
    """The report of a broker."""
    return LocalBrokerData.from_json(local_fields(row))


def names_of(value: Any) -> list[str]:
    """Names from a list, or from the keys of an object."""
    return [str(name) for name, _ in value.items()] if isinstance(value, Mapping) else [str(name) for name in value]


def rows_of(case: Case, name: str) -> Mapping[str, Mapping[str, Any]]:
    """The case's brokers or bundles by name. Null counts as an empty object. Raises BadCase for any other value."""
    rows = {one: {} if row is None else row for one, row in (case.get(name) or {}).items()}
    wrong = next((one for one, row in rows.items() if not isinstance(row, Mapping)), None)
    if wrong is not None:
        raise BadCase(f"{name}.{wrong} is {rows[wrong]!r}: it must be an object")
    return rows


def only_row(rows: Mapping[str, Mapping[str, Any]], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The one broker or bundle of the case. Raises BadCase if there is not exactly one."""
    if len(rows) != 1:
        raise BadCase(f"{name} are {', '.join(rows) or 'none'}: the case must be about one")
    return list(rows.items())


def resource_of(value: Any) -> ResourceUsage:
    """A resource from [usage, limit], {"usage": …, "limit": …} or a percentage; null was never sampled."""
    if value is None:
        return ResourceUsage()
    if isinstance(value, Mapping):
        return ResourceUsage(float(value.get("usage", -1.0)), float(value.get("limit", -1.0)))
    usage, limit = value if isinstance(value, list) else (value, 100)
    return ResourceUsage(float(usage), float(limit))


def by_name(rows: Any) -> Any:
    """Turn a list of objects with names into an object by name; return anything else unchanged."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        return rows
    keys = [next((key for key in _NAMES if isinstance(row.get(key), str)), None) for row in rows]
    named = [(row, key) for row, key in zip(rows, keys, strict=True) if key is not None]
    if len(named) < len(rows):
        return rows
    return {row[key]: {name: value for name, value in row.items() if name != key} for row, key in named}


def elapsed_ms(*rows: Mapping[str, Any]) -> float | None:
    """How long ago the last report was, under any name that says so with its unit."""
    for row in rows:
        for name in row:
            found = _ELAPSED.search(name)
            if found is not None and isinstance(value := row[name], int | float):
                return value * _UNITS_MS[_UNIT_NAMES[found.lastgroup or ""]]
    return None


def moment_ms(value: Any, now_ms: int = NOW_MS) -> int:
    """Parse a moment: ms, "now", "now-90s" or "90s ago". Raises BadCase."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if value >= 0 else now_ms + int(value)
    text = str(value).replace(" ", "").lower()
    if text == "now":
        return now_ms
    if text.isdigit():
        return int(text)
    if re.search(r"older|expired|elapsed|longago|past", text):
        return 0
    if re.search(r"justnow|recent|fresh", text):
        return now_ms
    found = re.fullmatch(
        r"(?:now)?([+-]?)(\d+(?:\.\d+)?)(ms|s|sec|seconds|m|min|minutes|h)?(ago|before|earlier)?", text
    )
    if found is None:
        raise BadCase(f"{value!r} is no moment: write ms, now, now-90s or 90s ago")
    distance = round(float(found[2]) * _UNITS_MS[found[3] or "ms"])
    return now_ms + (distance if found[1] == "+" else -distance)


def moments_ms(value: Any, now_ms: int = NOW_MS) -> dict[str, int]:
    """Name -> moment. The names of a list are all at `now_ms`."""
    if isinstance(value, Mapping):
        return {name: moment_ms(when, now_ms) for name, when in value.items()}
    return dict.fromkeys(value or (), now_ms)


def number(text: str) -> float:
    """Parse a number in text: 100,000,000 or 30e6."""
    return float(text.replace(",", ""))


def parse_numbers(text: str, stem: str) -> list[int]:
    """Parse the numbers in `broker0..broker98` or `broker99`. Raises BadCase."""
    found = re.fullmatch(rf"\s*{stem}(\d+)(?:\.\.{stem}(\d+))?\s*", text)
    if found is None:
        raise BadCase(f"{text!r} names no {stem} or range of them")
    return list(range(int(found[1]), int(found[2] or found[1]) + 1))
