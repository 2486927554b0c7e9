"""What the loads query needs for many brokers: lines through the measurements `growth` of `cluster_scale`.

They are lines of least squares, so every measurement counts; each says how far the furthest one is from it. Only
reports of one shape belong on a line: a bundle in the tail costs nothing of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.measure.loads.sent_reports import INTERVAL_MS
from controller.loads.settings import LoadsSettings

SHARES = ("executors", "driver")
PREDICTED = (1_000, 5_000)


def fit(growth: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """CPU of a batch and memory as lines over its statistics, and what they give for many brokers.

    A batch is what comes in a trigger: brokers report every five seconds, and the query looks every two.
    """
    stats = np.array([row["stats_a_batch"] for row in growth], dtype=float)
    lines: dict[str, Any] = {}
    for part in SHARES:
        cpu_s = _line(stats, [row[f"{part}_cpu_s_a_batch"] for row in growth])
        memory_mib = _line(stats, [row["memory_mib"][part] for row in growth])
        lines[part] = {
            "cpu_s_a_batch": round(cpu_s[0], 4), "cpu_us_a_stat": round(1e6 * cpu_s[1], 3),
            "cpu_s_missed": round(cpu_s[2], 3), "memory_mib": round(memory_mib[0]),
            "memory_bytes_a_stat": round(2**20 * memory_mib[1], 1), "memory_mib_missed": round(memory_mib[2]),
        }  # fmt: skip
    rows_a_report = growth[-1]["stats_a_batch"] / growth[-1]["brokers"]
    return {"lines": lines, "predicted": [_predict(lines, brokers, rows_a_report) for brokers in PREDICTED]}


def of_one_shape(growth: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The measurements with reports like those of the first."""
    return [row for row in growth if (row["listed"], row["tail"]) == (growth[0]["listed"], growth[0]["tail"])]


def _line(x: np.ndarray[Any, Any], y: Sequence[float]) -> tuple[float, float, float]:
    """Offset and slope by least squares, and the furthest that a point is off."""
    slope, offset = np.polyfit(x, np.array(y, dtype=float), 1)
    return float(offset), float(slope), float(np.abs(offset + slope * x - y).max())


def _predict(lines: Mapping[str, Any], brokers: int, rows_a_report: float) -> dict[str, Any]:
    trigger_s = LoadsSettings.trigger_ms / 1000
    stats = brokers * rows_a_report * trigger_s / (INTERVAL_MS / 1000)
    found: dict[str, Any] = {"brokers": brokers, "stats_per_s": round(stats / trigger_s)}
    for part, line in lines.items():
        cpu_s = line["cpu_s_a_batch"] + line["cpu_us_a_stat"] * stats / 1e6
        found[f"{part}_cores"] = round(cpu_s / trigger_s, 2)
        found[f"{part}_mib"] = round(line["memory_mib"] + line["memory_bytes_a_stat"] * stats / 2**20)
    return found
