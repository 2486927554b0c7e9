"""Adapter for TransferShedder's LoadStats: mean and spread of given loads, and what a planned pair makes of them."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.conformance_transfer import SEED, TRIALS, loads_of
from benchmarks.conformance_values import Adapters, BadCase, Case
from controller.policy.pulsar.load_data import ResourceUsage
from controller.policy.pulsar.load_stats import LoadStats

_PERCENTS = ("cpu", "cpu_percent", "cpuPercent", "percent", "loads", "load")
_COUNTED = re.compile(r"(\d+) brokers? (?:at |with )?(?:cpu )?([\d.]+)\s*%")


def load_stats(case: Case) -> Mapping[str, Any]:
    """Of the case's brokers; of a case without any, whether the kept sum of squares is right after every pair."""
    brokers = case.get("brokers") or {}
    if not brokers:
        return {"property": _property()}
    loads = _values(brokers)
    stats = LoadStats.of(loads)
    found: dict[str, Any] = {"avg": stats.average, "loadAvg": stats.average, "std": stats.std, "loadStd": stats.std}
    found |= {"sqSum": stats.square_sum, "totalBrokers": stats.brokers, "sum": sum(loads)}
    highest, lowest = max(loads), min(loads)
    after = stats.after(highest, lowest, (highest - lowest) / 2)
    return {**found, "stdAfterPlan": after.std, "stdAfterOffload": after.std}


def _property() -> bool | str:
    rng = random.Random(SEED)
    for _ in range(TRIALS):
        loads = sorted(rng.random() for _ in range(rng.randint(2, 20)))
        stats = LoadStats.of(loads)
        for low in range(len(loads) // 2):
            high = len(loads) - 1 - low
            half = (loads[high] - loads[low]) / 2
            stats = stats.after(loads[high], loads[low], half)
            loads[high], loads[low] = loads[high] - half, loads[low] + half
            if abs(stats.std - float(np.std(loads))) > 1e-4:
                return f"std {stats.std} of loads with std {np.std(loads)}"
    return True


def _values(brokers: Any) -> list[float]:
    """Fractions, from a list or an object of lists, numbers or brokers, or from prose. A value above 1 is a percent."""
    if isinstance(brokers, list):
        return _fractions(brokers)
    if isinstance(brokers.get("weightedMaxEMA"), list):
        return [float(value) for value in brokers["weightedMaxEMA"]]
    for name in _PERCENTS:
        if isinstance(brokers.get(name), list):
            return _fractions(brokers[name])
    text = str(brokers.get("generator", ""))
    groups = _COUNTED.findall(text)
    if groups:
        return _fractions([float(percent) for count, percent in groups for _ in range(int(count))], percents=True)
    values = list(brokers.values())
    if values and all(isinstance(value, int | float) for value in values):
        return _fractions(values)
    if all(isinstance(value, Mapping) for value in values) or text:
        return [load.weighted_max_ema for load in loads_of(brokers)[0]]
    raise BadCase(f"no loads found in {brokers!r}")


def _fractions(values: list[Any], percents: bool = False) -> list[float]:
    if percents or any(value > 1 for value in values):
        return [ResourceUsage(float(value), 100.0).percent() / 100 for value in values]
    return [float(value) for value in values]


ADAPTERS: Adapters = {("*", "LoadStats"): load_stats}
