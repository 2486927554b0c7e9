"""Adapters for splits of both managers and for the boundary algorithms: split, split-boundary."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from benchmarks.conformance.layout import knobs_of, only_row, rows_of, stats_of
from benchmarks.conformance.reading import first
from benchmarks.conformance.values import Adapters, BadCase, Case, Either, Sentence, Series
from controller.domain.errors import BadRecord, BallastError, ConfigError
from controller.domain.ids import RING_END, Bundle, topic_hash
from controller.domain.ring import initial_bundles
from controller.pulsar.load.load_data import MIB, NamespaceBundleStats
from controller.pulsar.reasons import SplitLabel, SplitReason
from controller.pulsar.splitting import split_strategy
from controller.pulsar.splitting.boundaries import (
    ALGORITHMS,
    SplitRequest,
    TopicLoad,
    children_at,
    equal_parts,
    flow_or_qps_equally_divide,
    specified_positions_divide,
)
from controller.pulsar.splitting.split_strategy import Surroundings
from controller.pulsar.system_namespaces import namespace_of_bundle_name

PREFIX = "persistent://test-tenant1/test-namespace1/"  # of generated topics, as in Pulsar's own tests
MIN_CYCLES = 12  # more than any case states
_RANGE = re.compile(r"^0x([0-9a-fA-F]{1,8})_0x([0-9a-fA-F]{1,8})$")
_GENERATOR = re.compile(
    r"(?P<stem>[a-z]+)(?P<first>\d+)\.\.(?P=stem)(?P<last>\d+), partitions (?P<p0>\d+)\.\.(?P<p1>\d+): "
    r"rate (?P<low>[\d.]+) \((?P=stem)(?P<l0>\d+)-(?P<l1>\d+)\) or "
    r"(?P<high>[\d.]+) \((?P=stem)(?P<h0>\d+)-(?P<h1>\d+)\), "
    r"throughput (?P<bytes>[\d.]+) each"
)
_EXTRA = re.compile(r"plus (?P<topic>\S+) rate (?P<rate>[\d.]+)")
_BELOW_LIMITS = (
    r"every (?:segment|part)(?: between boundaries)? has (?:total )?msgrate < (?P<rate>[\d.]+)"
    r"(?: and throughput < (?P<mib>[\d.]+) mib)?"
)
Namespaces = Callable[[str], int]


def extensible_split(case: Case) -> Mapping[str, Any]:
    """Successive cycles of one broker. Counts are those of the first cycle that may split."""
    knobs = knobs_of(case)
    cycles = max(MIN_CYCLES, int(case.get("cycles", 0)))
    ((broker, row),) = only_row(rows_of(case, "brokers") or {"broker": {"bundleStats": {}}}, "brokers")
    stats = {bundle: stats_of(one) for bundle, one in bundle_stats(row, case).items()}
    around = _surroundings(case, broker, stats)
    acting = knobs.load_balancer_namespace_bundle_split_condition_hit_count_threshold
    hits: Mapping[str, int] = {}
    plans: list[list[dict[str, Any]]] = []
    failures: list[int] = []
    for _ in range(max(cycles, acting + 1)):
        outcome = split_strategy.find_bundles_to_split(stats, hits, knobs, around)
        hits = outcome.hits
        plans.append([_split(decision) for decision in outcome.decisions])
        failures.append(outcome.failures)
    first = plans[acting]
    return {
        "per_cycle": Series(tuple(plans)),
        "split_count": len(first),
        "decisions": first,
        "bundles": [one["bundle"] for one in first],
        "counter": _counter(sum(failures[: acting + 1])),
    }


def _counter(failures: int) -> dict[str, dict[str, int]]:
    """The counters after the strategy ran: it counts failures only; splits are counted when they are carried out."""
    counted = {label.value: {reason.value: 0 for reason in SplitReason} for label in SplitLabel}
    counted[SplitLabel.FAILURE.value][SplitReason.UNKNOWN.value] = failures
    return counted


def boundary(name: str, case: Case) -> Mapping[str, Any]:
    """Run one of the four algorithms."""
    rows = case["bundles"]
    request = _request(rows, knobs_of(case))
    try:
        forced = name == specified_positions_divide.__name__ and bool(rows.get("force", False))
        found = specified_positions_divide(request, force=True) if forced else ALGORITHMS[name](request)
    except BadRecord:
        refusal = "IllegalArgumentException"  # what Pulsar throws
        return {"boundaries": Either((None, refusal)), **dict.fromkeys(("error", "exception", "throws"), refusal)}
    answer: dict[str, Any] = {"boundaries": found, "boundary_count": len(found or ())}
    if found is None or len(found) == 1:
        answer["boundary"] = found[0] if found else None
    if name == flow_or_qps_equally_divide.__name__:
        answer["property"] = _parts_within_limits(request, found or [])
    return answer


def split_ranges(case: Case) -> Mapping[str, Any]:
    """Halve a chain of bundles repeatedly, or split one bundle into parts."""
    rows = case["bundles"]
    if "chain" in rows:
        return _halve(rows["chain"])
    lower, upper = _range(rows["bundle"])
    given = _boundaries_of(rows)
    parts = equal_parts(lower, upper, int(rows["parts"])) if given is None else children_at(lower, upper, given)
    children = [_text(*part) for part in parts]
    # the namespace had only this bundle, unless the case says how many there were
    before = int(first(rows, "total_bundles", "numBundles", default=1))
    return {"children": children, "total_bundles_after": before - 1 + len(children)}


def _boundaries_of(rows: Mapping[str, Any]) -> Sequence[int] | None:
    """The split boundaries of a case: one or more, as numbers or hexadecimal strings."""
    names = ("positions", "boundaries", "boundary", "splitBoundary", "splitBoundaries", "fixBoundary")
    found = first(rows, *names)
    if found is None:
        return None
    return [_position(at) for at in (found if isinstance(found, list) else [found])]


def bundle_ranges(case: Case) -> Mapping[str, Any]:
    """The bundles between given boundaries, or the boundaries of a new namespace."""
    rows = case["bundles"]
    if "numBundles" in rows:
        bundles = initial_bundles("t/ns", int(rows["numBundles"]))
        return {"boundaries": [f"0x{at:08x}" for at in (*(b.lower for b in bundles), bundles[-1].upper)]}
    bounds = [int(str(text), 16) for text in rows["partitions"]]
    found = [Bundle("t/ns", a, b) for a, b in pairwise(bounds)]
    ends = ["closed-closed" if bundle.contains(bundle.upper) else "closed-open" for bundle in found]
    return {"bundles": [[f"0x{b.lower:08x}", f"0x{b.upper:08x}", end] for b, end in zip(found, ends, strict=True)]}


def bundle_stats(row: Mapping[str, Any], case: Case) -> Mapping[str, Any]:
    """A broker's bundles with their statistics; if it only names them, the case has the statistics."""
    found = first(row, "bundleStats", "lastStats", "bundles")
    if isinstance(found, Mapping):
        return found
    if isinstance(found, list):
        return {bundle: rows_of(case, "bundles").get(bundle, {}) for bundle in found}
    raise BadCase(f"no bundleStats in {row!r}")


def _split(decision: split_strategy.SplitDecision) -> dict[str, Any]:
    return {"bundle": decision.bundle, "children": list(decision.children), "reason": decision.reason.value}


def _surroundings(case: Case, broker: str, stats: Mapping[str, NamespaceBundleStats]) -> Surroundings:
    given = dict(case.get("split_boundaries") or {})
    knobs = knobs_of(case)
    owner = case.get("owner", broker)
    owners = dict(owner) if isinstance(owner, Mapping) else {}

    def is_owner(bundle: str) -> bool:
        if isinstance(owner, Mapping):
            return bool(owners.get(bundle, broker) == broker)
        return not (owner is None or re.match(r"(none|nobody|no owner)\b", str(owner)))

    def boundaries(bundle: str) -> Sequence[int] | None:
        if bundle in given:
            found: Sequence[int] | None = given[bundle]
            return found
        parsed = Bundle.parse(bundle)
        algorithm = ALGORITHMS.get(knobs.default_namespace_bundle_split_algorithm, ALGORITHMS["range_equally_divide"])
        return algorithm(SplitRequest(parsed.lower, parsed.upper))

    states = first(case, "states", "channel", default={})
    named = {bundle: one.get("state") if isinstance(one, Mapping) else one for bundle, one in states.items()}
    splitting = [bundle for bundle, state in named.items() if state == "Splitting"]
    splitting += case.get("splitting") or []
    return Surroundings(broker, is_owner, namespace_bundles(case, stats), boundaries, splitting)


def namespace_bundles(case: Case, known: Mapping[str, object]) -> Namespaces:
    """The number of bundles in a namespace: as the case says, else the number of known ones."""
    said = case.get("namespace_bundle_count")
    fails = re.search(r"count lookup (throws|fails)", str(case.get("notes", ""))) or said == "error"

    def count(namespace: str) -> int:
        if fails:
            raise BallastError(f"the bundle count of {namespace} cannot be looked up")
        if isinstance(said, Mapping):
            return int(said.get(namespace, 0))
        return sum(namespace_of_bundle_name(bundle) == namespace for bundle in known) if said is None else int(said)

    return count


def _request(rows: Mapping[str, Any], knobs: Any) -> SplitRequest:
    loads = _parse_topics(str(rows["generator"])) if "generator" in rows else _topic_loads(rows.get("topics") or ())
    topics = list(loads) or rows.get("topics") or ()
    hashes = sorted(map(_position, first(rows, "hashes", "sorted_hashes", default=())))
    if topics and hashes and hashes != sorted(map(topic_hash, topics)):
        raise BadCase(f"hashes {hashes} are not those of the topics {list(topics)}")
    lower, upper = _range(rows["bundle"].rpartition("/")[2]) if "bundle" in rows else (0, RING_END)
    return SplitRequest(
        _position(rows.get("lower", lower)),
        _position(rows.get("upper", upper)),
        topics,
        () if topics else hashes,
        rows.get("positions") or (),
        loads,
        rows.get("maxMsgRate", knobs.load_balancer_namespace_bundle_max_msg_rate),
        rows.get("maxBandwidthMbytes", knobs.load_balancer_namespace_bundle_max_bandwidth_mbytes),
        rows.get("diffThresholdPercentage", knobs.flow_or_qps_difference_threshold_percentage),
    )


def _topic_loads(topics: Any) -> dict[str, TopicLoad]:
    if not isinstance(topics, Mapping):
        return {}
    stats = {topic: stats_of(row) for topic, row in topics.items()}
    return {
        topic: TopicLoad(one.msg_rate_in + one.msg_rate_out, one.msg_throughput_in + one.msg_throughput_out)
        for topic, one in stats.items()
    }


def _parse_topics(text: str) -> dict[str, TopicLoad]:
    """Parse topics with partitions: two groups, each with a rate, and possibly one more topic."""
    found = _GENERATOR.search(text)
    if found is None:
        raise BadCase(f"no topics found in {text!r}")
    loads: dict[str, TopicLoad] = {}
    for begin, end, rate in ((found["l0"], found["l1"], found["low"]), (found["h0"], found["h1"], found["high"])):
        for topic in range(int(begin), int(end) + 1):
            for partition in range(int(found["p0"]), int(found["p1"]) + 1):
                name = f"{PREFIX}{found['stem']}{topic}-partition-{partition}"
                loads[name] = TopicLoad(float(rate), float(found["bytes"]))
    extra = _EXTRA.search(text)
    if extra is not None:
        loads[f"{PREFIX}{extra['topic']}"] = TopicLoad(float(extra["rate"]), float(found["bytes"]))
    return loads


def _parts_within_limits(request: SplitRequest, boundaries: Sequence[int]) -> Sentence:
    """The property that no part exceeds the limits, with the load of the heaviest part."""
    bounds = [request.lower, *boundaries, request.upper + 1]
    rates, throughputs = [0.0], [0.0]
    for lower, upper in pairwise(bounds):
        inside = [load for topic, load in request.loads.items() if lower <= topic_hash(topic) < upper]
        rates.append(float(sum(one.msg_rate for one in inside)))
        throughputs.append(float(sum(one.throughput for one in inside)) / MIB)
    return Sentence(_BELOW_LIMITS, True, {"rate": max(rates), "mib": max(throughputs)})


def _halve(chain: Sequence[str]) -> dict[str, list[str]]:
    """Halve each range of the chain, and its halves, for four generations."""
    found: dict[str, list[str]] = {}
    generation = [_range(text) for text in chain]
    for _ in range(4):
        for lower, upper in generation:
            found[_text(lower, upper)] = [_text(*part) for part in equal_parts(lower, upper, 2)]
        generation = [_range(text) for one in generation for text in found[_text(*one)]]
    return found


def _position(value: Any) -> int:
    """Parse a position on the ring: a number, or a hexadecimal string."""
    return int(value, 0) if isinstance(value, str) else int(value)


def _range(text: str) -> tuple[int, int]:
    match = _RANGE.match(text)
    if match is None:
        raise ConfigError(f"{text!r} is no range 0xLLLLLLLL_0xUUUUUUUU")
    return int(match[1], 16), int(match[2], 16)


def _text(lower: int, upper: int) -> str:
    return f"0x{lower:08x}_0x{upper:08x}"


ADAPTERS: Adapters = {
    ("split", "DefaultNamespaceBundleSplitStrategyImpl"): extensible_split,
    **{("split-boundary", name): partial(boundary, name) for name in ALGORITHMS},
    ("split-boundary", "split-ranges"): split_ranges,
    ("split-boundary", "bundle-ranges"): bundle_ranges,
}
