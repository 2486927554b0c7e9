"""Load of a broker in the shape of Pulsar's `LocalBrokerData`, whatever load manager it runs.

The modular manager answers it itself (`broker-stats/load-report`); a clean copy is taken, with what Ballast reads and
nothing else. The extensible one refuses that path: its usages are in `broker-stats/metrics`, in percent, where an exact
0 of CPU or bandwidth means unknown; its bundles are those it owns, with the sums of their topics.

Bundles that nobody may move are left out of `lastStats`; what they carry is summed up separately, so that a broker's
usage is not put down to the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.brokers.pulsar.numbers import UNKNOWN, amount, number, usage_of
from controller.brokers.pulsar.observe import Exclude, bundle_of
from controller.brokers.pulsar.outcomes import Answer, Outcome
from controller.brokers.pulsar.process_cpu import ProcessFigures
from controller.brokers.pulsar.topic_stats import RATES, Stats
from controller.domain.ids import Bundle

REPORT_PATH, METRICS_PATH = "/admin/v2/broker-stats/load-report", "/admin/v2/broker-stats/metrics"
LOCAL_BROKER_DATA = "LocalBrokerData"
MIB = 1024 * 1024
_RESOURCES = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
_COUNTS = ("topics", "producerCount", "consumerCount", "cacheSize")
_FROM_TOPICS = frozenset(
    {"partitions", "unackedMessages", "backlogSize", "storageSize", "nonPersistentTopics", "splitBoundary"}
)
_NO_CARD = {"usage": 0.0, "limit": -1000.0}  # as the modular manager says it
_UNSUPPORTED = "UnsupportedOperationException"


@dataclass(frozen=True, slots=True)
class Reported:
    """`report`: LocalBrokerData. `excluded`: the rates and counts of its bundles that are left out."""

    report: dict[str, Any]
    excluded: dict[str, float]


def is_extensible(answer: Answer) -> bool:
    """Whether a broker refuses the load report because it runs the extensible load manager."""
    return answer.outcome is Outcome.SERVER_ERROR and _UNSUPPORTED in answer.detail


def parse_load_report(answer: Answer, owned: Iterable[Bundle], exclude: Exclude) -> Reported:
    """The modular manager's report, with all `owned` bundles and no others. Raises CallFailed."""
    given = answer.mapping()
    stats, kind = given.get("lastStats"), given.get("loadReportType", LOCAL_BROKER_DATA)
    if kind != LOCAL_BROKER_DATA or not isinstance(stats, dict) or not isinstance(given.get("cpu"), dict):
        raise answer.failure(Outcome.BAD_ANSWER, f"no load report of the modular load manager but {str(kind)[:60]!r}")
    names = {str(bundle) for bundle in owned}
    listed, left_out = dict.fromkeys(sorted(names)), list[Mapping[str, Any]]()
    for name, row in stats.items():  # one that is not owned any more was moved since the rates were computed
        bundle = None if name in names else bundle_of(name, exclude)
        if name in names or str(bundle) in names:
            listed[name if bundle is None else str(bundle)] = row
        elif bundle is None and isinstance(row, dict):
            left_out.append(row)
    report: dict[str, Any] = {name: usage_of(given.get(name)) for name in _RESOURCES}
    report |= {name: amount(given.get(name)) for name in RATES}
    report |= {name: int(amount(given.get(name))) for name in ("lastUpdate", "startTimestamp")}
    report |= {name: str(given.get(name, ""))[:200] for name in ("brokerVersionString", "loadManagerClassName")}
    return Reported(_with_bundles(report, listed), _sums(left_out))


def parse_metrics(
    answer: Answer, process: ProcessFigures | None, owned: Iterable[Bundle], topics: Mapping[str, Stats],
    exclude: Exclude, at_ms: int,
) -> Reported:  # fmt: skip
    """The extensible manager's load, from `broker-stats/metrics` and the sums of its topics. Raises CallFailed.

    `process`: for the number of processors; None if it is not known, and CPU with it.
    """
    figures: dict[str, float] = {}
    for row in answer.listing():
        metrics = row.get("metrics") if isinstance(row, dict) else None
        for name, value in metrics.items() if isinstance(metrics, dict) else ():
            if name.startswith(("brk_lb_", "jvm_")):
                figures[name] = amount(value)
    if not any(name.startswith("brk_lb_") for name in figures):
        raise answer.failure(Outcome.BAD_ANSWER, "no brk_lb_ metrics of a load manager")
    names = {str(bundle) for bundle in owned}
    left_out = [stats for name, stats in topics.items() if bundle_of(name, exclude) is None]
    report: dict[str, Any] = {
        "cpu": _host_cpu(figures.get("brk_lb_cpu_usage", 0.0), process),
        "memory": _mebibytes(figures, "jvm_heap_used", "jvm_max_memory"),
        "directMemory": _mebibytes(figures, "jvm_direct_memory_used", "jvm_max_direct_memory"),
        "bandwidthIn": dict(_NO_CARD),
        "bandwidthOut": dict(_NO_CARD),
        "lastUpdate": at_ms,
        "startTimestamp": process.started_ms if process else 0,
        "brokerVersionString": "",
        "loadManagerClassName": "ExtensibleLoadManagerImpl",
    }
    listed = {name: topics.get(name) for name in sorted(names)}
    excluded = _sums(left_out)
    for rate in RATES:
        report[rate] = excluded[rate] + sum(amount((stats or {}).get(rate)) for stats in listed.values())
    return Reported(_with_bundles(report, listed), excluded)


def add_topics(reported: Reported, topics: Mapping[str, Stats]) -> None:
    """Add to the modular manager's report what only the statistics of topics tell of its bundles. What the report says
    itself stays."""
    rows = reported.report["lastStats"]
    for name, found in topics.items():
        if name in rows:
            rows[name] = {**found, **rows[name]}


def _with_bundles(report: dict[str, Any], listed: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    stats = {name: _bundle_stats(row if isinstance(row, dict) else {}) for name, row in listed.items()}
    report |= {"bundles": list(stats), "lastStats": stats, "loadReportType": LOCAL_BROKER_DATA}
    return report


def _bundle_stats(row: Mapping[str, Any]) -> dict[str, float | int]:
    stats: dict[str, float | int] = {name: amount(row.get(name)) for name in RATES}
    for name in _COUNTS:
        stats[name] = int(amount(row.get(name)))
    for name in _FROM_TOPICS & row.keys():
        if number(row[name]) is not None:
            stats[name] = int(amount(row[name]))
    return stats


def _sums(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    given = list(rows)
    return {name: sum(amount(row.get(name)) for row in given) for name in (*RATES, *_COUNTS)}


def _host_cpu(percent: float, process: ProcessFigures | None) -> dict[str, float]:
    if process is None or percent <= 0:
        return dict(UNKNOWN)
    return {"usage": percent * process.processors, "limit": 100.0 * process.processors}


def _mebibytes(figures: Mapping[str, float], usage: str, limit: str) -> dict[str, float]:
    if figures.get(limit, 0.0) <= 0:
        return dict(UNKNOWN)
    return {"usage": figures.get(usage, 0.0) / MIB, "limit": figures[limit] / MIB}
