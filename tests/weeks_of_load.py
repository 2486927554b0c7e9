"""Two weeks of load averages, one an hour, by a formula: six brokers, office hours, quiet weekends, and growth.

What a short run cannot have: weekdays, days and a trend. Without noise, so that every figure of a question or notebook
can be computed by hand. The brokers are registered by a real journal.

Some averages were written before all reports were there, or by a process of the broker that then ended: they hold
another load, and must not count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controller.domain.load import BUNDLE_FIELDS
from controller.ledger.append import append
from schemas.arrow import arrow_table
from schemas.load_tables import BROKER_LOAD, BUNDLE_LOAD
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
GROWTH_A_DAY = 0.010137  # no figure lies halfway between two that are shown: engines add up in different orders
REPORTS = 12
SURPLUS = 1.5  # of averages that do not count, as a part of the load
BUNDLE = "shop/orders/0x00000000_0x80000000"  # one on each broker, which has half of its messages
WRITER = "weeks"


def messages(broker: str, hour: int) -> float:
    """In and out, a second, in an hour since the first."""
    day, of_day = divmod(hour, 24)
    busy = 0.4 if day % 7 >= 5 else 1.0 if of_day in OFFICE else 0.5
    return (20_000 if broker == BUSIEST else 12_000) * busy * (1 + GROWTH_A_DAY * day)


def cpu_usage(broker: str, hour: int) -> float:
    """In percent of one core."""
    return CPU_BASE + messages(broker, hour) / MESSAGES_A_PERCENT


def write_weeks(folder: Path) -> ShortRun:
    """The tables: the registry, and `broker_load` and `bundle_load`, newest rows first."""
    run = ShortRun(folder, FIRST_MS + HOURS * HOUR_MS)
    for broker in BROKERS:
        run.join(broker)
    run.project()
    rows = [row for hour in range(HOURS) for broker in BROKERS for row in _rows(broker, hour)]
    append(run.root, "broker_load", arrow_table(BROKER_LOAD, list(reversed(rows))), WRITER, 1)
    of_bundles = [_of_bundle(row) for row in rows if row["incarnation"] == 1]
    append(run.root, "bundle_load", arrow_table(BUNDLE_LOAD, list(reversed(of_bundles))), WRITER, 1)
    return run


def _rows(broker: str, hour: int) -> list[dict[str, Any]]:
    """The row that counts last. Before it, in some hours, one that it replaced."""
    counts = _row(broker, hour) | {"incarnation": 1, "reports": REPORTS, "writer": WRITER, "batch_id": 2 * hour + 1}
    few = {"reports": REPORTS - 3, "batch_id": 2 * hour}
    replaced = {
        1: few,  # a report came late
        5: few | {"writer": "an older query", "batch_id": 1_000_000},  # a new checkpoint numbers its batches anew
        7: {"incarnation": 0, "batch_id": 2 * hour},  # the broker was started again
    }.get(hour % 10)
    return [counts] if replaced is None else [counts | _row(broker, hour, SURPLUS) | replaced, counts]


def _row(broker: str, hour: int, surplus: float = 1.0) -> dict[str, Any]:
    rate = surplus * messages(broker, hour) / 2
    used = {
        "cpu": (surplus * cpu_usage(broker, hour), CPU_LIMIT),
        "memory": (surplus * MEMORY * 4e9, 4e9),
        "bandwidth_in": (rate * 1_000, BANDWIDTH),
        "bandwidth_out": (rate * 1_000, BANDWIDTH),
    }
    row: dict[str, Any] = dict.fromkeys(BUNDLE_FIELDS, 0.0)
    for name, (usage, limit) in used.items():
        row |= {f"{name}_usage": usage, f"{name}_limit": limit, f"{name}_utilisation": usage / limit}
        row[f"{name}_utilisation_long"] = usage / limit
    row |= {"msg_rate_in": rate, "msg_rate_out": rate, "throughput_in": rate * 1_000, "throughput_out": rate * 1_000}
    row |= {"as_of_ms": FIRST_MS + hour * HOUR_MS, "short_from_ms": FIRST_MS + hour * HOUR_MS - 60_000}
    return row | {"broker": broker, "bundles": 10.0, "rpc_queue_ms": 0.5, "metadata_latency_ms": 3.0}


def _of_bundle(row: dict[str, Any]) -> dict[str, Any]:
    half = {name: row[name] / 2 for name in ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out")}
    long = {"msg_rate_long": half["msg_rate_in"] * 2, "throughput_long": half["throughput_in"] * 2}
    kept = {name: row[name] for name in ("as_of_ms", "broker", "reports", "writer", "batch_id")}
    return dict.fromkeys(BUNDLE_FIELDS, 0.0) | half | long | kept | {"bundle": BUNDLE, "namespace": "shop/orders"}
