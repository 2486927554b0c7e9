"""Two weeks of load averages, one an hour, by a formula: six brokers, office hours, quiet weekends, and growth.

What a short run cannot have: weekdays, days and a trend. Without noise, so that every figure of a question or notebook
can be computed by hand. The brokers are registered by a real journal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controller.domain.load import BUNDLE_FIELDS
from controller.ledger.append import append
from schemas.arrow import arrow_table
from schemas.load_tables import BROKER_LOAD
from tests.short_run import ShortRun

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
FIRST_MS = 20_703 * DAY_MS  # a Monday
DAYS = 14
HOURS = 24 * DAYS
BROKERS = tuple(f"b{number}:8080" for number in range(1, 7))
BUSIEST = BROKERS[0]
OFFICE = range(9, 18)  # hours
CPU_LIMIT, CPU_BASE, MESSAGES_A_PERCENT = 400.0, 40.0, 100.0
MEMORY, BANDWIDTH = 0.2, 125e6
GROWTH_A_DAY = 0.01


def messages(broker: str, hour: int) -> float:
    """In and out, a second, in an hour since the first."""
    day, of_day = divmod(hour, 24)
    busy = 0.4 if day % 7 >= 5 else 1.0 if of_day in OFFICE else 0.5
    return (20_000 if broker == BUSIEST else 12_000) * busy * (1 + GROWTH_A_DAY * day)


def cpu_usage(broker: str, hour: int) -> float:
    """In percent of one core."""
    return CPU_BASE + messages(broker, hour) / MESSAGES_A_PERCENT


def write_weeks(folder: Path) -> ShortRun:
    """The tables: the registry, and `broker_load`."""
    run = ShortRun(folder, FIRST_MS + HOURS * HOUR_MS)
    for broker in BROKERS:
        run.join(broker)
    run.project()
    rows = [_row(broker, hour) for hour in range(HOURS) for broker in BROKERS]
    append(run.root, "broker_load", arrow_table(BROKER_LOAD, rows), "weeks", 1)
    return run


def _row(broker: str, hour: int) -> dict[str, Any]:
    rate = messages(broker, hour) / 2
    used = {
        "cpu": (cpu_usage(broker, hour), CPU_LIMIT),
        "memory": (MEMORY * 4e9, 4e9),
        "bandwidth_in": (rate * 1_000, BANDWIDTH),
        "bandwidth_out": (rate * 1_000, BANDWIDTH),
    }
    row: dict[str, Any] = dict.fromkeys(BUNDLE_FIELDS, 0.0)
    for name, (usage, limit) in used.items():
        row |= {f"{name}_usage": usage, f"{name}_limit": limit, f"{name}_utilisation": usage / limit}
        row[f"{name}_utilisation_long"] = usage / limit
    row |= {"msg_rate_in": rate, "msg_rate_out": rate, "throughput_in": rate * 1_000, "throughput_out": rate * 1_000}
    row |= {"as_of_ms": FIRST_MS + hour * HOUR_MS, "short_from_ms": FIRST_MS + hour * HOUR_MS - 60_000}
    row |= {"broker": broker, "incarnation": 1, "reports": 12, "bundles": 10.0}
    return row | {"rpc_queue_ms": 0.5, "metadata_latency_ms": 3.0, "writer": "weeks", "batch_id": hour}
