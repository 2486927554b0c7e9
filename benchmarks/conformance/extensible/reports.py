"""Adapters for what brokers report and when: report-*, topk, and BrokerLoadData."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from benchmarks.conformance.layout import (
    NOW_MS,
    RESOURCES,
    elapsed_ms,
    knobs_of,
    local_of,
    rows_of,
    stats_of,
    usages_of,
)
from benchmarks.conformance.reading import first, known
from benchmarks.conformance.values import Adapters, BadCase, Case, Either, Row, Series
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.channel.states import ServiceUnitState
from controller.pulsar.load.bundle_stats import compare_stats
from controller.pulsar.load.extensible import BrokerLoadData, BrokerSample, clear, next_load
from controller.pulsar.load.load_data import NamespaceBundleStats
from controller.pulsar.load.report_trigger import (
    TOMBSTONE_DELAY_MS,
    Reported,
    clears_load,
    may_tombstone,
    needs_report,
    of_load,
)
from controller.pulsar.load.topk import bundles_to_write, names, top_bundles

BROKER = "self"
_POLICIES = (
    *("isolation", "isolationPolicy", "hasIsolationPolicy"),
    *("antiAffinity", "antiAffinityGroup", "hasAntiAffinityGroup"),
)
_SAMPLE = ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut", "bundleCount", "topics")
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def report_trigger(case: Case) -> Mapping[str, Any]:
    """Whether the modular manager reports, given its last report and its current load."""
    knobs = knobs_of(case)
    rows = case["brokers"]
    last, current = (_local(rows.get(name) or {}, knobs) for name in ("last", "current"))
    written_ms, _ = ((rows.get(name) or {}).get("lastUpdate") for name in ("last", "current"))
    now_ms, since_ms = case.get("now", NOW_MS), elapsed_ms(rows, case)
    if since_ms is None:
        since_ms = 0 if written_ms is None else max(0, now_ms - written_ms)
    force = bool(rows.get("force", case.get("force", False)))
    return dict.fromkeys(("report", "update", "needed"), needs_report(last, current, int(since_ms), knobs, force))


def extensible_trigger(case: Case) -> Mapping[str, Any]:
    """Whether the extensible manager reports. It compares the largest usage without weights."""
    knobs, rows = knobs_of(case), case["brokers"]
    last, current = (_load_of(rows.get(name) or {}) for name in ("last", "current"))
    since_ms = elapsed_ms(rows, case) or 0
    force = bool(rows.get("force", case.get("force", False)))
    answer = needs_report(of_load(last), of_load(current), int(since_ms), knobs, force)
    return dict.fromkeys(("report", "push", "update"), answer)


def _load_of(row: Mapping[str, Any]) -> BrokerLoadData:
    sample = _sample(row)
    data = next_load(BrokerLoadData(), sample, PulsarKnobs(), 1)
    return replace(data, max_resource_usage=row.get("maxResourceUsage", data.max_resource_usage))


def _local(row: Mapping[str, Any], knobs: PulsarKnobs) -> Reported:
    data = local_of(row)
    usage = data.max_resource_usage_with_weight(knobs)
    rate = data.msg_rate_in + data.msg_rate_out
    return Reported(usage, rate, data.msg_throughput_in + data.msg_throughput_out, data.num_bundles)


def report_sequence(case: Case) -> Mapping[str, Any]:
    """The reporter of the extensible manager. A pushed report becomes the last one immediately."""
    knobs = knobs_of(case)
    data = BrokerLoadData(reported_at_ms=NOW_MS)
    last = data
    pushed: list[bool] = []
    for step in case["steps"]:
        data, last = _apply(data, last, step)
        force = bool(step.get("force", False))
        push = needs_report(of_load(last), of_load(data), NOW_MS - data.reported_at_ms, knobs, force)
        pushed.append(push)
        if push:
            data = replace(data, reported_at_ms=NOW_MS)
            last = data
    return {"pushes": sum(pushed), "steps": [{"expect_push": push} for push in pushed]}


def _apply(
    data: BrokerLoadData, last: BrokerLoadData, step: Mapping[str, Any]
) -> tuple[BrokerLoadData, BrokerLoadData]:
    """Apply a step to the current data and the last report.

    A step may set `reportedAt`, `last_X` of the last report, and `current` or X itself of the current data.
    """
    words = [word.strip() for word in str(step.get("state", "")).split(",") if word.strip()]
    wrong = [word for word in words if word not in ("reportedAt=now", "unchanged")]
    if wrong or step.get("unchanged") not in (None, True):
        raise BadCase(
            f"state {wrong!r}, unchanged {step.get('unchanged')!r}: write 'reportedAt=now', 'unchanged', true"
        )
    if "reportedAt=now" in words or "reportedAt" in step:
        data = replace(data, reported_at_ms=int(step.get("reportedAt", NOW_MS)))
    before = data, last
    fields = {
        "msgThroughputIn": "msg_throughput_in",
        "msgThroughputOut": "msg_throughput_out",
        "msgRateIn": "msg_rate_in",
        "msgRateOut": "msg_rate_out",
        "bundleCount": "bundle_count",
        "maxResourceUsage": "max_resource_usage",
    }
    for name, ours in fields.items():
        if f"last_{name}" in step:
            last = replace(last, **{ours: step[f"last_{name}"]})
            data = replace(data, **{ours: step.get("current", getattr(data, ours))})
        if name in step:
            data = replace(data, **{ours: step[name]})
    if (data, last) != before and (step.get("unchanged") or "unchanged" in words):
        raise BadCase("a step that is unchanged gives a figure")
    return data, last


def report_tombstone(case: Case) -> Mapping[str, Any]:
    """Events of the channel as this broker sees them. Time passes only in steps that say so."""
    delay_ms = int((case.get("config") or {}).get("tombstoneDelayMs", TOMBSTONE_DELAY_MS))
    data = BrokerLoadData(weighted_max_ema=0.5, updated_at_ms=NOW_MS)
    now_ms, last_ms, reset = NOW_MS, 0, False
    tombstones: list[bool] = []
    for step in case["steps"]:
        if bool(step.get("delay_elapsed")) and bool(step.get("within_10s")):
            raise BadCase("a step within 10 s of the one before, and the delay has elapsed")
        now_ms += delay_ms if step.get("delay_elapsed") or step.get("within_10s") is False else 0
        state = ServiceUnitState(step["event"])
        clears = clears_load(state, step.get("src"), step.get("dst"), BROKER, bool(step.get("error", False)))
        if clears:
            data = clear(data)
            reset = reset or data == BrokerLoadData()
        tombstones.append(clears and may_tombstone(last_ms, now_ms, delay_ms))
        last_ms = now_ms if tombstones[-1] else last_ms
    return {"local_data_reset": reset, "steps": [{"tombstone": one} for one in tombstones]}


def top_k(case: Case) -> Mapping[str, Any]:
    """The top bundles of one broker in the extensible manager."""
    knobs = knobs_of(case)
    rows = rows_of(case, "bundles")
    k = int((case.get("config") or {}).get("topk", knobs.load_balancer_max_number_of_bundles_in_bundle_load_report))
    found = top_bundles(
        {bundle: stats_of(row) for bundle, row in rows.items()},
        k,
        [bundle for bundle, row in rows.items() if any(known(row, *_POLICIES).values())],
        knobs.load_balancer_shedding_bundles_with_policies_enabled,
        knobs.load_balancer_shedding_excluded_namespaces,
    )
    return {"ordered": names(found), "count": len(found)}


def bundles_written(case: Case) -> Mapping[str, Any]:
    """The bundles whose data the modular manager's leader writes. Each has one number for all its rates."""
    knobs = knobs_of(case)
    rates = case["bundles"]["throughput_in_out_and_rate"]
    data = {str(at): NamespaceBundleStats(rate, rate, rate, rate) for at, rate in enumerate(rates)}
    brokers = int((case.get("brokers") or {}).get("count", 1))
    k = knobs.load_balancer_max_number_of_bundles_in_bundle_load_report
    chosen = sorted(int(name) for name in bundles_to_write(data, k, brokers, compare_stats))
    return {"written_count": len(chosen), "written": _in_words(chosen, rates)}


def _in_words(chosen: list[int], rates: list[float]) -> str:
    """The result in the words of the case file, as far as they are true."""
    others = [rate for at, rate in enumerate(rates) if at not in chosen]
    largest = all(rates[at] >= max(others, default=0) for at in chosen)
    count = _NUMBERS[len(chosen)] if len(chosen) < len(_NUMBERS) else str(len(chosen))
    which = " and ".join(map(str, chosen)) if len(chosen) <= 2 else ", ".join(map(str, chosen))
    return f"the {count} {'largest' if largest else 'chosen'} (indexes {which})"


def broker_load_data(case: Case) -> Mapping[str, Any]:
    """Successive updates of one broker's own data. The brokers of a case are its samples."""
    knobs = knobs_of(case)
    given = case.get("brokers") or {}
    alone = any(name in (*RESOURCES, *_SAMPLE) for name in given)  # `brokers` is itself a sample
    samples = case.get("steps") or ([given] if alone else list(given.values()))
    data = BrokerLoadData()
    if not samples:
        return _figures(data)
    rows: list[Row] = []
    for at, sample in enumerate(samples):
        data = next_load(data, _sample(sample), knobs, at + 1)
        rows.append(_figures(data))
    series = {name: Series(tuple(row[name] for row in rows)) for name in rows[0]}
    return {
        **({} if case.get("steps") or alone else dict(zip(given, rows, strict=True))),
        **{f"{name}_after_each": values for name, values in series.items()},
        **series,
        "per_step": Either((Series(tuple(rows)), series["weightedMaxEMA"])),
        "steps": [{"expect": row} | {f"expect_{name}": value for name, value in row.items()} for row in rows],
    }


def _figures(data: BrokerLoadData) -> Row:
    return Row(
        weightedMaxEMA=data.weighted_max_ema,
        maxResourceUsage=data.max_resource_usage,
        msgThroughputEMA=data.msg_throughput_ema,
        msgThroughputIn=data.msg_throughput_in,
        msgThroughputOut=data.msg_throughput_out,
        msgRateIn=data.msg_rate_in,
        msgRateOut=data.msg_rate_out,
        bundleCount=data.bundle_count,
        topics=data.topics,
    )


def _sample(row: Mapping[str, Any]) -> BrokerSample:
    nested = first(row, "usage", "usages", "resources", default={})
    said = known(nested, *_SAMPLE) | known(row, *_SAMPLE)
    return BrokerSample(usages_of(nested) | usages_of(row), *(said.get(name, 0) for name in _SAMPLE))


ADAPTERS: Adapters = {
    ("report-trigger", "ModularLoadManagerImpl"): report_trigger,
    ("report-trigger", "BrokerLoadDataReporter"): extensible_trigger,
    ("report-sequence", "BrokerLoadDataReporter"): report_sequence,
    ("report-tombstone", "BrokerLoadDataReporter"): report_tombstone,
    ("topk", "TopKBundles"): top_k,
    ("topk", "ModularLoadManagerImpl"): bundles_written,
    **{(kind, "BrokerLoadData"): broker_load_data for kind in ("formula", "format", "property")},
}
