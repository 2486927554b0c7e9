"""Stores benchmark figures: one JSON file per benchmark in benchmarks/results/, with the machine they were taken on.

Percentiles are nearest-rank. A file only holds the newest run; the repository keeps the history.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

RESULTS = Path(__file__).parents[1] / "results"
_PACKAGES = ("numpy", "pyarrow", "deltalake", "pyspark", "kafka-python")


def machine() -> dict[str, Any]:
    """What figures depend on: cores, memory, system, versions. No host name."""
    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(logical=True),
        "threads_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_1m": round(os.getloadavg()[0], 2),
        "system": platform.system(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def write(name: str, figures: Mapping[str, Any], directory: Path = RESULTS) -> Path:
    """Write `<name>.json` with the figures, the machine and the time; return the path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.json"
    taken_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
    document = {"benchmark": name, "taken_at": taken_at, "machine": machine(), "figures": figures}
    part = path.with_suffix(".json.part")
    part.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
    part.replace(path)
    return path


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed. Raises ValueError without values."""
    if not values:
        raise ValueError("no values to take a percentile of: did the benchmark measure anything?")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def summary(values: Sequence[float], digits: int = 3) -> dict[str, float]:
    """count, min, p50, p90, p99 and max."""
    figures = {"min": min(values), "max": max(values)} | {f"p{p}": percentile(values, p) for p in (50, 90, 99)}
    return {"count": len(values)} | {name: round(value, digits) for name, value in sorted(figures.items())}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
