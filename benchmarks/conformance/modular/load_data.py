"""Adapters for load data and names: formula, format, hash, and the modular manager's scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from benchmarks.conformance.extensible.transfer import brokers_there
from benchmarks.conformance.layout import RESOURCES, knobs_of, local_of, resource_of, rows_of, stats_of
from benchmarks.conformance.reading import first, known, pass_over
from benchmarks.conformance.values import Adapters, BadCase, Case, Either, Row, Series
from controller.domain.ids import Bundle, topic_hash
from controller.domain.ring import initial_bundles, locate
from controller.pulsar.load.load_data import (
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
    """Percentages and largest usages of brokers. `brokers` may contain the fields of a single broker."""
    rows = case.get("brokers") or {}
    one = not rows or any(name in RESOURCES for name in rows)
    brokers = {"": rows} if one else rows_of(case, "brokers")
    weight = (case.get("config") or {}).get("weight")  # for all resources
    knobs = knobs_of(case)
    if weight is not None:
        same: dict[str, Any] = dict.fromkeys(_WEIGHTS, float(weight))
        knobs = replace(knobs, **same)
    data = {broker: local_of(row) for broker, row in brokers.items()}
    found: dict[str, dict[str, Any]] = {
        "percent": {broker: Row(local.percents()) for broker, local in data.items()},
        "maxResourceUsage": {broker: local.max_resource_usage() for broker, local in data.items()},
        "maxResourceUsageWithWeight": {
            broker: local.max_resource_usage_with_weight(knobs) for broker, local in data.items()
        },
        "printResourceUsage": {broker: _print_usage(local) for broker, local in data.items()},
    }
    weighted = found["maxResourceUsageWithWeight"].values()
    mean = sum(weighted) / len(weighted)
    if len(data) != 1:
        return {**found, **dict.fromkeys(("mean", "avg", "average"), mean)}
    ((name, only),) = data.items()
    results = {key: Either((values[name], values)) for key, values in found.items()}
    fields = {f"{key}.percentUsage": percent for key, percent in only.percents().items()}
    said = [key for key in RESOURCES if key in brokers[name]]
    alone = {"percentUsage": only.percents()[said[0]]} if len(said) == 1 else {}
    texts = dict.fromkeys(("text", "printed", "printResourceUsage"), _print_usage(only))
    return {**results, **fields, **alone, **texts}


def resource_usage(case: Case) -> Mapping[str, Any]:
    """ResourceUsage.percentUsage of one resource."""
    rows = case.get("brokers") or {}
    return dict.fromkeys(("percentUsage", "percent"), resource_of(rows).percent())


def time_average_broker(case: Case) -> Mapping[str, Any]:
    """Sums over a number of bundles, with or without data; the given statistics are the default."""
    bundles = case["bundles"]
    each = stats_of(first(bundles, "each(or default)", "each", "default", "stats", "defaultStats", default={}))
    names = [f"bundle-{at}" for at in range(int(bundles["count"]))]
    initial = BundleData(
        TimeAverageMessageData.initial(NUM_SHORT_SAMPLES, each), TimeAverageMessageData.initial(NUM_LONG_SAMPLES, each)
    )
    data = dict.fromkeys(names, initial) if bundles.get("data_present", True) else {}
    sums = TimeAverageBrokerData.of(names, data, each)
    return _both(_rename(sums.short_term), _rename(sums.long_term))


def moving_average(case: Case) -> Mapping[str, Any]:
    """The average after each sample."""
    bundles, config = case["bundles"], case.get("config") or {}
    initial = NamespaceBundleStats(msg_rate_in=float(bundles.get("initial", DEFAULT_STATS.msg_rate_in)))
    average = TimeAverageMessageData.initial(int(config.get("maxSamples", NUM_SHORT_SAMPLES)), initial)
    after = []
    for sample in bundles["samples"]:
        average = average.after(NamespaceBundleStats(msg_rate_in=float(sample)))
        after.append(average.msg_rate_in)
    return {
        "average_after_each": after,
        "average": Series(tuple(after)),
        "num_samples": average.num_samples,
        "numSamples": average.num_samples,
    }


def bundle_data(case: Case) -> Mapping[str, Any]:
    """The data that the manager assumes for an unknown bundle: its quota, or the default."""
    quota = (case.get("bundles") or {}).get("quota")
    data = BundleData.default()
    if quota is not None:
        pass_over(quota, "memory", "dynamic")
        rates = [quota.get(name, 0.0) for name in ("msgRateIn", "msgRateOut", "bandwidthIn", "bandwidthOut")]
        data = BundleData.from_quota(*map(float, rates))
    samples = {"shortTermSamples": data.short_term.num_samples, "longTermSamples": data.long_term.num_samples}
    short, long = ({n: getattr(term, n) for n in RATE_FIELDS} for term in (data.short_term, data.long_term))
    return {**_both(_rename(short), _rename(long)), **samples}


def hash_topics(case: Case) -> Mapping[str, Any]:
    """Topics with their hashes and their bundles in a new namespace."""
    bundles, ring = case["bundles"], _ring(case)
    if "topics" in bundles:
        found = {topic: Row(_hash(topic, ring)) for topic in bundles["topics"]}
        numbers = {topic: row["crc32"] for topic, row in found.items()}
        hashes = Either((numbers, list(numbers.values()), {topic: row["hex"] for topic, row in found.items()}))
        return {
            **{topic: Either((row, row["crc32"], row["hex"])) for topic, row in found.items()},
            "topics": found,
            **dict.fromkeys(("crc32", "hash", "hashes"), hashes),
            "bundle": {topic: row["bundle"] for topic, row in found.items()},
        }
    return _hash(str(bundles["topic"]), ring)


def scheduler(case: Case) -> Mapping[str, Any]:
    """Whether the modular manager calls its shedder. By default this broker is the leader of two brokers."""
    config = case.get("config") or {}
    knobs = knobs_of(case)
    on = knobs.load_balancer_enabled and knobs.load_balancer_shedding_enabled
    leads = bool(first(config, "isLeader", "isChannelOwner", default=True))
    return {"strategy_invoked": on and leads and brokers_there(case) > 1}


def _ring(case: Case) -> list[Bundle]:
    """The bundles between the case's boundaries, or those of a new namespace."""
    said = known(case["bundles"], "boundaries", "numBundles") | known(case.get("config") or {}, "numBundles")
    if "boundaries" not in said:
        return list(initial_bundles("t/ns", int(said.get("numBundles", 4))))
    bounds = [int(str(at), 0) for at in said["boundaries"]]
    if int(said.get("numBundles", len(bounds) - 1)) != len(bounds) - 1:
        raise BadCase(f"{said['numBundles']} bundles do not lie between {len(bounds)} boundaries")
    return [Bundle("t/ns", lower, upper) for lower, upper in pairwise(bounds)]


def _hash(topic: str, ring: Sequence[Bundle]) -> dict[str, Any]:
    number = topic_hash(topic)
    bundle = str(locate(ring, number)).rpartition("/")[2]
    return {"crc32": number, "hash": number, "hex": f"0x{number:08x}", "bundle": bundle}


def _rename(rates: Mapping[str, float]) -> dict[str, float]:
    return {_PULSAR_NAMES[name]: value for name, value in rates.items()}


def _both(short: Mapping[str, float], long: Mapping[str, float]) -> dict[str, Any]:
    same: Any = short if short == long else {"shortTerm": short, "longTerm": long}
    return {"shortTerm": short, "longTerm": long, "shortTerm==longTerm": same}


def _print_usage(local: LocalBrokerData) -> str:
    """LocalBrokerData.printResourceUsage."""
    return ", ".join(f"{name}: {percent:.2f}%" for name, percent in local.percents().items())


def formula(case: Case) -> Mapping[str, Any]:
    """Run the formula of the class that the case names."""
    found = _FORMULAS.get(str(case["strategy"]))
    if found is None:
        raise BadCase(f"no formula of the modular manager is kept for {case['strategy']!r}")
    return found(case)


_FORMULAS = {
    "ResourceUsage": resource_usage,
    "LocalBrokerData": local_broker_data,
    "TimeAverageBrokerData": time_average_broker,
    "TimeAverageMessageData": moving_average,
    "ModularLoadManagerImpl": bundle_data,
    "BundleData": bundle_data,
}
ADAPTERS: Adapters = {
    "formula": formula,
    ("format", "LocalBrokerData"): local_broker_data,
    ("hash", "ConsistentHashingTopicBundleAssigner"): hash_topics,
    ("scheduler", "ModularLoadManagerImpl"): scheduler,
}
