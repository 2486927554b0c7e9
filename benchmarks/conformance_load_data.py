"""Adapters for load data and names: formula, format, hash, and the modular manager's scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from benchmarks.conformance_layout import RESOURCES, knobs_of, stats_of
from benchmarks.conformance_values import Adapters, BadCase, Case, Series
from controller.domain.ids import topic_hash
from controller.domain.ring import initial_bundles, locate
from controller.policy.pulsar.load_data import (
    DEFAULT_STATS,
    NUM_LONG_SAMPLES,
    NUM_SHORT_SAMPLES,
    RATE_FIELDS,
    BundleData,
    LocalBrokerData,
    NamespaceBundleStats,
    TimeAverageBrokerData,
    TimeAverageMessageData,
)

_WEIGHTS = tuple(
    f"load_balancer_{name}_resource_weight" for name in ("cpu", "direct_memory", "bandwidth_in", "bandwidth_out")
)
_PULSAR_NAMES = dict(zip(RATE_FIELDS, ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut"), strict=True))


def local_broker_data(case: Case) -> Mapping[str, Any]:
    """Percentages and largest usages of brokers; `brokers` may be one broker's fields themselves."""
    rows = case.get("brokers") or {}
    one = not rows or any(name in RESOURCES for name in rows)
    brokers = {"": rows} if one else rows
    weight = (case.get("config") or {}).get("weight")  # one for all
    knobs = knobs_of(case, ("weight",))
    if weight is not None:
        same: dict[str, Any] = dict.fromkeys(_WEIGHTS, float(weight))
        knobs = replace(knobs, **same)
    data = {broker: LocalBrokerData.from_json(row) for broker, row in brokers.items()}
    found: dict[str, dict[str, Any]] = {
        "percent": {broker: local.percents() for broker, local in data.items()},
        "maxResourceUsage": {broker: local.max_resource_usage() for broker, local in data.items()},
        "maxResourceUsageWithWeight": {
            broker: local.max_resource_usage_with_weight(knobs) for broker, local in data.items()
        },
        "printResourceUsage": {broker: _printed(local) for broker, local in data.items()},
    }
    if len(data) != 1:
        return found
    (only,) = data.values()
    fields = {f"{name}.percentUsage": percent for name, percent in only.percents().items()}
    return {**{name: next(iter(values.values())) for name, values in found.items()}, **fields}


def time_average_broker(case: Case) -> Mapping[str, Any]:
    """Sums over so many bundles, with data or without; the default stats are the given ones."""
    bundles = case["bundles"]
    each = stats_of(next((value for name, value in bundles.items() if name.startswith("each")), {}))
    names = [f"bundle-{at}" for at in range(int(bundles["count"]))]
    seeded = BundleData(
        TimeAverageMessageData.seeded(NUM_SHORT_SAMPLES, each), TimeAverageMessageData.seeded(NUM_LONG_SAMPLES, each)
    )
    data = dict.fromkeys(names, seeded) if bundles.get("data_present", True) else {}
    sums = TimeAverageBrokerData.of(names, data, each)
    return _both(_named(sums.short_term), _named(sums.long_term))


def moving_average(case: Case) -> Mapping[str, Any]:
    """The average after each sample."""
    bundles, config = case["bundles"], case.get("config") or {}
    initial = NamespaceBundleStats(msg_rate_in=float(bundles.get("initial", DEFAULT_STATS.msg_rate_in)))
    average = TimeAverageMessageData.seeded(int(config.get("maxSamples", NUM_SHORT_SAMPLES)), initial)
    after = []
    for sample in bundles["samples"]:
        average = average.updated(NamespaceBundleStats(msg_rate_in=float(sample)))
        after.append(average.msg_rate_in)
    return {
        "average_after_each": after,
        "average": Series(tuple(after)),
        "num_samples": average.num_samples,
        "numSamples": average.num_samples,
    }


def bundle_data(case: Case) -> Mapping[str, Any]:
    """What the manager takes a bundle for that it knows nothing of: its quota, or the default."""
    quota = (case.get("bundles") or {}).get("quota")
    data = BundleData.default()
    if quota is not None:
        rates = (quota.get(name, 0.0) for name in ("msgRateIn", "msgRateOut", "bandwidthIn", "bandwidthOut"))
        data = BundleData.from_quota(*map(float, rates))
    samples = {"shortTermSamples": data.short_term.num_samples, "longTermSamples": data.long_term.num_samples}
    short, long = ({n: getattr(term, n) for n in RATE_FIELDS} for term in (data.short_term, data.long_term))
    return {**_both(_named(short), _named(long)), **samples}


def hashed(case: Case) -> Mapping[str, Any]:
    """A topic's hash and its bundle among those of a new namespace."""
    bundles, config = case["bundles"], case.get("config") or {}
    if "topics" in bundles:
        return {"topics": {topic: _hashed(topic, config) for topic in bundles["topics"]}}
    return _hashed(str(bundles["topic"]), config)


def scheduler(case: Case) -> Mapping[str, Any]:
    """Is the modular manager's shedder asked at all? Where a case is silent this is the leader of two brokers."""
    config = case.get("config") or {}
    knobs = knobs_of(case, ("isLeader", "isChannelOwner"))
    brokers = len(case["available_brokers"]) if "available_brokers" in case else len(case.get("brokers") or ()) or 2
    on = knobs.load_balancer_enabled and knobs.load_balancer_shedding_enabled
    leads = bool(config.get("isLeader", config.get("isChannelOwner", True)))
    return {"strategy_invoked": on and leads and brokers > 1}


def _hashed(topic: str, config: Mapping[str, Any]) -> dict[str, Any]:
    number = topic_hash(topic)
    bundle = str(locate(initial_bundles("t/ns", int(config.get("numBundles", 4))), number)).rpartition("/")[2]
    return {"crc32": number, "hash": number, "hex": f"0x{number:08x}", "bundle": bundle}


def _named(rates: Mapping[str, float]) -> dict[str, float]:
    return {_PULSAR_NAMES[name]: value for name, value in rates.items()}


def _both(short: Mapping[str, float], long: Mapping[str, float]) -> dict[str, Any]:
    same: Any = short if short == long else {"shortTerm": short, "longTerm": long}
    return {"shortTerm": short, "longTerm": long, "shortTerm==longTerm": same}


def _printed(local: LocalBrokerData) -> str:
    """LocalBrokerData.printResourceUsage."""
    return ", ".join(f"{name}: {percent:.2f}%" for name, percent in local.percents().items())


def formula(case: Case) -> Mapping[str, Any]:
    """By the class the case is about."""
    found = _FORMULAS.get(str(case["strategy"]))
    if found is None:
        raise BadCase(f"no formula of the modular manager is kept for {case['strategy']!r}")
    return found(case)


_FORMULAS = {
    "LocalBrokerData": local_broker_data,
    "TimeAverageBrokerData": time_average_broker,
    "TimeAverageMessageData": moving_average,
    "ModularLoadManagerImpl": bundle_data,
    "BundleData": bundle_data,
}
ADAPTERS: Adapters = {
    "formula": formula,
    "format": local_broker_data,
    "hash": hashed,
    ("scheduler", "ModularLoadManagerImpl"): scheduler,
}
