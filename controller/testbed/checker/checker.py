"""The checker: tells from the store's files and the clients' logs whether invariants I1 and I5 held.

It trusts neither the brokers nor the store process. Records carry the epoch and owner they were written under and are
checked against the log of fences; deliveries and acknowledgements are checked against the records.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.brokers.reference.store import dump
from controller.brokers.reference.store.cursor import Cursor
from controller.testbed.checker.logs import ClientRecords, read_logs
from controller.testbed.checker.topic import Findings, check_acknowledged, check_delivered, check_stored


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The figures of a run. `ok` is False if anything was lost, stored twice, reordered or fenced too late."""

    messages_stored: int
    messages_written: int  # acknowledged to their producers
    messages_read: int  # distinct, per subscription
    messages_lost: int
    messages_duplicated: int
    messages_reordered: int
    redelivered: int
    fence_violations: int
    mismatched: int
    handovers: int
    handover_gap_p50_ms: float | None  # acknowledgement to acknowledgement, including the sending interval
    handover_gap_p99_ms: float | None
    handover_beyond_interval_p50_ms: float | None  # the same, minus the producer's own sending interval
    handover_beyond_interval_max_ms: float | None
    sending_interval_p50_ms: float | None
    failover_gap_max_ms: float | None
    unwatched_subscriptions: int  # in the store but without a consumer's log: their deliveries were not checked
    findings: list[str]

    @property
    def ok(self) -> bool:
        """Whether I1 and I5 held."""
        return not (
            self.messages_lost
            or self.messages_duplicated
            or self.messages_reordered
            or self.fence_violations
            or self.mismatched
        )

    def to_json(self) -> dict[str, Any]:
        """All fields, and `ok`."""
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "ok": self.ok}


def check_store(store_dir: Path, logs: Iterable[Path], *, drained: bool) -> CheckReport:
    """Check the folder of a store against the logs of its clients.

    `drained`: producers have stopped and consumers had time to read everything, so undelivered messages are lost;
    otherwise only missing records count as lost.
    """
    clients = read_logs(logs)
    found = Findings()
    fences = dump.fences(store_dir)
    unwatched = 0
    known = set()
    for topic in dump.topics(store_dir):
        known.add(topic.name)
        rows = check_stored(topic.name, topic.records(), fences, found)
        acked = _acknowledged_in(clients, topic.name)
        check_acknowledged(topic.name, rows, acked, found)
        for subscription, cursor in topic.cursors().items():
            consumptions = clients.consumed.get((topic.name, subscription))
            if consumptions is None:
                unwatched += 1
                continue
            check_delivered(topic.name, subscription, rows, cursor.start, acked, consumptions, found, drained=drained)
    for missing in {topic for topic, _ in clients.acked} - known:
        check_acknowledged(missing, [], _acknowledged_in(clients, missing), found)
    return _report(found, clients, unwatched)


def percentile(values: list[float], fraction: float) -> float | None:
    """Nearest-rank percentile; None without values."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(fraction * len(values)) - 1)]


def beyond_interval_ms(gap: Mapping[str, Any]) -> float:
    """How much longer a sender waited than it waits between two messages anyhow."""
    return max(0.0, float(gap["gap_ms"] - gap["interval_ms"]))


def _acknowledged_in(clients: ClientRecords, topic: str) -> dict[str, Cursor]:
    return {producer: cursor for (name, producer), cursor in clients.acked.items() if name == topic}


def _report(found: Findings, clients: ClientRecords, unwatched: int) -> CheckReport:
    of_moves = [gap for gap in clients.gaps if gap["cause"] == "moved"]
    moved = [gap["gap_ms"] for gap in of_moves]
    paced = [gap for gap in of_moves if gap.get("interval_ms") is not None]  # logs of version 0.1.0 have none
    beyond = [beyond_interval_ms(gap) for gap in paced]
    other = [gap["gap_ms"] for gap in clients.gaps if gap["cause"] != "moved"]
    return CheckReport(
        messages_stored=found.stored,
        messages_written=found.acked,
        messages_read=found.read,
        messages_lost=found.lost,
        messages_duplicated=found.duplicated,
        messages_reordered=found.reordered,
        redelivered=found.redelivered,
        fence_violations=found.fence_violations,
        mismatched=found.mismatched,
        handovers=len(moved),
        handover_gap_p50_ms=percentile(moved, 0.5),
        handover_gap_p99_ms=percentile(moved, 0.99),
        handover_beyond_interval_p50_ms=percentile(beyond, 0.5),
        handover_beyond_interval_max_ms=max(beyond, default=None),
        sending_interval_p50_ms=percentile([gap["interval_ms"] for gap in paced], 0.5),
        failover_gap_max_ms=max(other, default=None),
        unwatched_subscriptions=unwatched,
        findings=found.texts,
    )


def main(argv: list[str] | None = None) -> None:
    """Print the report as JSON; exit code 1 if an invariant broke."""
    parser = argparse.ArgumentParser(description="Check a segment store against the logs of its clients.")
    parser.add_argument("--data-dir", type=Path, required=True, help="the store's folder")
    parser.add_argument("--log", type=Path, action="append", default=[], help="log of a client; repeatable")
    parser.add_argument("--drained", action="store_true", help="consumers had time to read everything")
    given = parser.parse_args(argv)
    report = check_store(given.data_dir, given.log, drained=given.drained)
    print(json.dumps(report.to_json()))
    sys.exit(0 if report.ok else 1)


if __name__ == "__main__":
    main()
