"""What became of a run: messages as store and clients have them, the journal from its first entry, and the figures.

A run is clean if nothing was lost, stored twice or reordered, and no invariant broke. In one of `FULL_MINUTES`, which
has the machine to itself, failovers and hand-overs of the calm phases also stayed within their bounds, and enough was
shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from controller.config.table_root import table_root
from controller.domain.errors import BallastError
from controller.ledger.journal_commit import Journal
from controller.testbed.chaos.faults import FAULTS
from controller.testbed.chaos.run import Record
from controller.testbed.chaos.stage import Stage
from controller.testbed.checker.checker import CheckReport, beyond_interval_ms, check_store, percentile
from controller.testbed.checker.journal import check_entries
from controller.testbed.checker.logs import read_logs
from controller.testbed.demo.workload import Workload

BROKEN = "InvariantBroken"  # in the log of whatever stopped because of it
FAILOVER_BEYOND_LEASE_MS = 3_000.0  # the worst
GAP_P99_MS = 250.0  # beyond the interval of sending, in calm phases
LEAST_GAPS = 100  # of fewer the 99th percentile is the worst one
FULL_MINUTES = 20.0
LEAST_FAILOVERS = 20  # of a full run


@dataclass(frozen=True, slots=True)
class Verdict:
    """`wrong`: sentences; none of them, and the run was clean."""

    figures: dict[str, Any]
    wrong: list[str]


def judge(stage: Stage, workload: Workload, record: Record, minutes: float, possible: Collection[str]) -> Verdict:
    """After the clients have stopped, and readers had the time to read the rest. `possible`: names of faults."""
    logs = [log for log in workload.logs if log.exists()]
    report = check_store(stage.folder / "store", logs, drained=True)
    calm = [gap for gap in read_logs(logs).gaps if gap["cause"] == "moved" and _is_calm(gap, record)]
    lease_ms = stage.cluster.settings.control.lease_ms
    figures = {
        "storms": record.storms,
        "faults": dict(sorted(record.faults.items())),
        "faults_without_turn": sorted(set(FAULTS) - set(record.faults)),
        "whole_after_s": _spread(record.whole_after_s),
        "failovers": len(record.failovers_ms),
        "failover_ms": _spread(record.failovers_ms),
        "failover_noticed_ms": _spread(record.noticed_ms),
        "lease_ms": lease_ms,
        "calm_hand_overs": len(calm),
        "calm_gap_beyond_interval_ms": _spread([beyond_interval_ms(gap) for gap in calm]),
        "ended_by_themselves": [f"{end.name}: {end.code}" for end in stage.supervisor.ends],
        **{name: value for name, value in report.to_json().items() if name.startswith("messages_")},
        "redelivered": report.redelivered,
    }
    wrong = [*_wrong_messages(report), *_wrong_journal(stage), *_broken_invariants(stage)]
    if minutes >= FULL_MINUTES:
        wrong += _missed_bounds(figures) + _shown_too_little(figures, set(possible) - set(record.faults))
    return Verdict(figures, wrong)


def _is_calm(gap: Mapping[str, Any], record: Record) -> bool:
    """Whether all of it lies in one calm phase; what began in a storm may end later."""
    began_ms = gap["at"] - gap["gap_ms"]
    return any(calm_ms <= began_ms and gap["at"] <= ended_ms for calm_ms, ended_ms in record.calm_ms)


def _spread(values: list[float]) -> dict[str, float | None]:
    """The middle, the 99th percentile, and the worst."""
    found = {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99), "worst": max(values, default=None)}
    return {name: None if value is None else round(value, 1) for name, value in found.items()}


def _wrong_messages(report: CheckReport) -> list[str]:
    """Of the invariants I1 and I5."""
    if report.ok:
        return [] if report.messages_written else ["no message was written"]
    return report.findings[:20] or ["the store or the clients saw something lost, stored twice or reordered"]


def _wrong_journal(stage: Stage) -> list[str]:
    try:
        check_entries(Journal(table_root(stage.cluster.settings)).read_since(0))
    except BallastError as error:
        return [f"journal: {error}"]
    return []


def _broken_invariants(stage: Stage) -> list[str]:
    """The processes that have stopped because of one, by their logs."""
    return [
        f"{log.name}: {line[:300]}"
        for log in sorted((stage.folder / "logs").glob("*.log"))
        for line in log.read_text(errors="replace").splitlines()
        if BROKEN in line
    ]


def _missed_bounds(figures: Mapping[str, Any]) -> list[str]:
    """Of the times in calm phases, as far as any were measured."""
    wrong = []
    slowest_ms, most_ms = figures["failover_ms"]["worst"], figures["lease_ms"] + FAILOVER_BEYOND_LEASE_MS
    if slowest_ms is not None and slowest_ms > most_ms:
        wrong.append(f"a failover took {slowest_ms:g} ms: {most_ms:g} ms are allowed, the lease and 3 s")
    gap_ms = figures["calm_gap_beyond_interval_ms"]["p99"]
    if figures["calm_hand_overs"] >= LEAST_GAPS and gap_ms > GAP_P99_MS:
        wrong.append(
            f"one in a hundred hand-overs in calm phases was a gap of {gap_ms:g} ms or more: {GAP_P99_MS:g} ms are"
            " allowed"
        )
    return wrong


def _shown_too_little(figures: Mapping[str, Any], missing: Collection[str]) -> list[str]:
    """What a full run has to show. `missing`: faults that had no turn, and could have had one."""
    least = {"failovers": ("failovers", LEAST_FAILOVERS), "calm_hand_overs": ("gaps of hand-overs", LEAST_GAPS)}
    wrong = [
        f"{figures[name]} {what} were measured, fewer than {count}"
        for name, (what, count) in least.items()
        if figures[name] < count
    ]
    return [*wrong, f"faults without a turn: {', '.join(sorted(missing))}"] if missing else wrong
