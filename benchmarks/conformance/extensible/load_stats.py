"""Adapter for TransferShedder's LoadStats: mean and spread of given loads, before and after a pair is planned."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.conformance.extensible.transfer import SEED, TRIALS
from benchmarks.conformance.extensible.transfer_loads import loads_of
from benchmarks.conformance.layout import knobs_of
from benchmarks.conformance.values import Adapters, BadCase, Case, Sentence
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.load_data import ResourceUsage
from controller.pulsar.load.load_stats import LoadStats

_FRACTIONS = re.compile(r"ema\b|fraction", re.IGNORECASE)
_PERCENTS = re.compile(r"cpu|percent|pct", re.IGNORECASE)
_LISTED = re.compile(
    r"(?:(?:weighted_?max_?)?ema|fractions?|cpu|percents?|pct|loads?|usages?)(?:_?(?:ema|fractions?|percents?|pct|usages?))*",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"(\d+) brokers? (?:at |with )?(?:cpu )?([\d.]+)\s*%")
_AVERAGES = ("avg", "loadAvg", "mean", "average")
_SPREADS = ("std", "loadStd", "standardDeviation")
_DELTA = 1e-4
_SAME_STD = (
    r"after each planned pair,? (?:the )?sqsum-based std equals (?:the )?population std of the load vector"
    r"(?: with max-=offload and min\+=offload where offload=\(max-min\)/2)?(?: \(delta (?P<delta>[\d.]+(?:e-?\d+)?)\))?"
)
_AFTER = ("stdAfterPlan", "stdAfterOffload", "stdAfter")


def load_stats(case: Case) -> Mapping[str, Any]:
    """The statistics of the case's brokers. Without brokers: whether the sum of squares stays right after each pair."""
    knobs = knobs_of(case)
    loads = _values(case, knobs)
    if loads is None:
        return {"property": _property()}
    stats = LoadStats.of(loads)
    found: dict[str, Any] = dict.fromkeys(_AVERAGES, stats.average) | dict.fromkeys(_SPREADS, stats.std)
    found |= {"sqSum": stats.square_sum, "totalBrokers": stats.brokers, "sum": sum(loads)}
    if not loads:
        return found
    highest, lowest = max(loads), min(loads)
    return found | dict.fromkeys(_AFTER, stats.after(highest, lowest, (highest - lowest) / 2).std)


def _property() -> Sentence:
    rng = random.Random(SEED)
    furthest = 0.0
    for _ in range(TRIALS):
        loads = sorted(rng.random() for _ in range(rng.randint(2, 20)))
        stats = LoadStats.of(loads)
        for low in range(len(loads) // 2):
            high = len(loads) - 1 - low
            half = (loads[high] - loads[low]) / 2
            stats = stats.after(loads[high], loads[low], half)
            loads[high], loads[low] = loads[high] - half, loads[low] + half
            furthest = max(furthest, abs(stats.std - float(np.std(loads))))
    held = furthest < _DELTA or f"a std is {furthest} from that of its loads"
    return Sentence(_SAME_STD, held, {"delta": furthest})


def _values(case: Case, knobs: PulsarKnobs) -> list[float] | None:
    """Loads as fractions, from a list under any name for loads, or from the brokers. None: the case gives none."""
    brokers = case.get("brokers") or {}
    if isinstance(brokers, list):
        return _fractions(brokers, "brokers")
    for rows in (brokers, case.get("bundles"), case.get("config"), case):
        named: Mapping[str, Any] = rows if isinstance(rows, Mapping) else {}
        for name in named:
            if _LISTED.fullmatch(name) and isinstance(named[name], list):
                return _fractions(named[name], name)
    if not brokers:
        return None
    text = str(brokers.get("generator", ""))
    groups = _COUNTED.findall(text)
    if groups:
        return _fractions([float(percent) for count, percent in groups for _ in range(int(count))], "percent")
    values = list(brokers.values())
    if all(isinstance(value, int | float) for value in values):
        return _fractions(values, "brokers")
    if all(isinstance(value, Mapping) for value in values) or text:
        return [load.weighted_max_ema for load in loads_of(brokers, knobs=knobs)[0]]
    raise BadCase(f"no loads found in {brokers!r}")


def _fractions(values: Sequence[float], name: str) -> list[float]:
    """Loads as fractions. Under a neutral name they are percentages if all are whole and one is above 1."""
    whole = all(float(value).is_integer() for value in values) and any(value > 1 for value in values)
    if not _FRACTIONS.search(name) and (whole or _PERCENTS.search(name)):
        return [ResourceUsage(float(value), 100.0).percent() / 100 for value in values]
    return [float(value) for value in values]


ADAPTERS: Adapters = {
    (kind, "LoadStats"): load_stats for kind in ("formula", "load-stats", "property", "shed-transfer")
}
