"""Fills a topic with load reports for `loads_throughput`, and checks the tables against what was sent."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from kafka import KafkaProducer

from benchmarks.measure.loads.fleet import serialize, stamp
from benchmarks.measure.result import NotMeasured
from controller.domain.load import BUNDLE_FIELDS, COUNTS, RATES, RESOURCES
from controller.ledger.tables import TableRoot
from controller.testbed.kafka import EmbeddedKafka

INTERVAL_MS, PANE_MS = 5_000, 10_000
VARIANTS = 2  # of each broker's report; the sequence differs in all of them
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Workload:
    """How many brokers report, bundles in a report, and reports of each broker."""

    brokers: int
    bundles: int
    rounds: int


@dataclass
class Sent:
    """What was sent to the topic."""

    reports: int = 0
    size_bytes: int = 0
    sums: dict[str, float] = field(default_factory=dict)  # of each field over all bundle rows
    newest: dict[str, float] = field(default_factory=dict)  # bundle -> msg_rate_in over the last minute
    newest_end_ms: int = 0


def report(broker: str, bundles: int, dice: np.random.Generator) -> dict[str, Any]:
    """A load report whose totals are the sums over its bundles, with all that an agent writes."""
    rates = dice.uniform(0, 1000, (bundles, len(RATES))).round(3).tolist()
    counts = dice.integers(0, 1000, (bundles, len(COUNTS))).tolist()
    width = 0xFFFFFFFF // bundles
    listed: list[dict[str, Any]] = [
        {"bundle": f"t/{broker.split(':')[0]}/0x{n * width:08x}_0x{(n + 1) * width:08x}"}
        | dict(zip(RATES, rates[n], strict=True))
        | dict(zip(COUNTS, counts[n], strict=True))
        | {"partitioned_topics": []}
        for n in range(bundles)
    ]
    totals: dict[str, Any] = {name: sum(b[name] for b in listed) for name in BUNDLE_FIELDS} | {"bundles": bundles}
    return {
        "v": 1,
        "broker": broker,
        "incarnation": 1,
        "nonce": "bench",
        "session": 1,
        "resources": {name: {"usage": float(dice.uniform(0, 100)), "limit": 100.0} for name in RESOURCES},
        "rpc_queue_ms": 1.0,
        "metadata_latency_ms": 2.0,
        "totals": totals,
        "bundles": listed,
        "tail": None,
    }


def fill(kafka: EmbeddedKafka, topic: str, workload: Workload, start_ms: int) -> Sent:
    """Send the reports of every broker, in the order of their event times."""
    dice = np.random.default_rng(random.Random(2).randrange(2**32))
    sent, names = Sent(), [f"b{number}:8080" for number in range(workload.brokers)]
    documents = {name: [report(name, workload.bundles, dice) for _ in range(VARIANTS)] for name in names}
    variants = {name: [serialize(document) for document in docs] for name, docs in documents.items()}
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks=1, max_request_size=8 * MIB, batch_size=MIB)
    for number in range(workload.rounds):
        for position, name in enumerate(names):
            at_ms = start_ms + number * INTERVAL_MS + position * INTERVAL_MS // len(names)
            value = stamp(variants[name][number % VARIANTS], number + 1, at_ms)
            producer.send(topic, key=name.encode(), value=value, timestamp_ms=at_ms)
            sent.reports += 1
            sent.size_bytes += len(value)
            sent.newest_end_ms = max(sent.newest_end_ms, (at_ms // PANE_MS + 1) * PANE_MS)
        producer.flush()  # the client's own queue has no limit
    producer.close()
    for docs in documents.values():
        for number in range(workload.rounds):
            totals = docs[number % VARIANTS]["totals"]
            for name in BUNDLE_FIELDS:
                sent.sums[name] = sent.sums.get(name, 0.0) + totals[name]
    return sent


def check(root: Path, workload: Workload, sent: Sent) -> None:
    """Compare the tables with what was sent. Raises NotMeasured."""
    tables = TableRoot(root)
    bundles = check_sums(tables, workload.bundles, sent)
    load = tables.open("bundle_load").to_pyarrow_table()
    _check_averages(bundles, load.filter(pc.equal(load["as_of_ms"], sent.newest_end_ms)), workload, sent)


def check_sums(tables: TableRoot, rows_a_report: int, sent: Sent) -> pa.Table:
    """Compare counts and sums of the panes with what was sent; returns `bundle_panes`. Raises NotMeasured."""
    if tables.open("quarantine").to_pyarrow_table().num_rows:
        raise NotMeasured(
            f"quarantine is not empty: {tables.open('quarantine').to_pyarrow_table()['rule'].to_pylist()[:3]}"
        )
    brokers = tables.open("broker_panes").to_pyarrow_table()
    bundles = tables.open("bundle_panes").to_pyarrow_table()
    _check_equal("reports of broker_panes", pc.sum(brokers["reports"]).as_py(), sent.reports)
    _check_equal("reports of bundle_panes", pc.sum(bundles["reports"]).as_py(), sent.reports * rows_a_report)
    for name in BUNDLE_FIELDS:
        for table in (brokers, bundles):
            _check_equal(f"sum of {name}", pc.sum(table[f"{name}_sum"]).as_py(), sent.sums[name])
    return bundles


def _check_averages(panes: pa.Table, load: pa.Table, workload: Workload, sent: Sent) -> None:
    """Check that the newest row of each bundle is the mean of its panes of the last minute."""
    newest = load.sort_by("batch_id").group_by(["bundle"], use_threads=False)
    newest = newest.aggregate([("msg_rate_in", "last"), ("reports", "last")]).sort_by("bundle")
    _check_equal("bundles with a newest average", newest.num_rows, workload.brokers * workload.bundles)
    window = panes.filter(pc.greater(panes["pane_end_ms"], sent.newest_end_ms - 60_000))
    merged = window.group_by(["bundle"]).aggregate([("msg_rate_in_sum", "sum"), ("reports", "sum")]).sort_by("bundle")
    wanted = pc.divide(merged["msg_rate_in_sum_sum"], merged["reports_sum"]).to_numpy()
    if not np.allclose(newest["msg_rate_in_last"].to_numpy(), wanted, rtol=1e-9):
        raise NotMeasured("the newest averages of bundle_load are not the means of its panes")
    _check_equal(
        "reports in the newest averages", pc.sum(newest["reports_last"]).as_py(), pc.sum(merged["reports_sum"]).as_py()
    )


def _check_equal(what: str, found: float, wanted: float) -> None:
    if abs(found - wanted) > 1e-9 * abs(wanted):
        raise NotMeasured(f"{what}: {found} in the tables, {wanted} sent")
