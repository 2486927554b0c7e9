"""Adapter for the modular manager's splits: BundleSplitterTask, and whether the manager calls it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.conformance.extensible.splits import Namespaces, bundle_stats, namespace_bundles
from benchmarks.conformance.layout import knobs_of, rows_of, stats_of
from benchmarks.conformance.reading import first, pass_over
from benchmarks.conformance.values import Adapters, Case, Either, Row, Sentence, Series
from controller.pulsar.splitting import split_task
from controller.pulsar.system_namespaces import namespace_of_bundle_name

_AT_THE_LIMIT = r"splits \+ current bundle count ==? max(?:imum)? bundles"


def modular_split(case: Case, checks: bool = True) -> Mapping[str, Any]:
    """Run the leader once over all brokers' last statistics and the bundles' long-term averages."""
    knobs = knobs_of(case)
    last = [
        (broker, {bundle: stats_of(one) for bundle, one in bundle_stats(row, case).items()})
        for broker, row in rows_of(case, "brokers").items()
    ]
    reported = {bundle: stats for _, bundles in last for bundle, stats in bundles.items()}
    averages = {bundle: _long_term(row) for bundle, row in rows_of(case, "bundles").items()}
    count = namespace_bundles(case, reported)
    on = knobs.load_balancer_auto_bundle_split_enabled
    found = split_task.find_bundles_to_split(last, averages, knobs, count) if on and checks else {}
    names = list(found)
    by_broker: dict[str, list[str]] = {}
    for bundle, broker in found.items():
        by_broker.setdefault(broker, []).append(bundle)
    splits = Either((names, found, by_broker))
    return {
        **dict.fromkeys(("split_count", "split_total", "count", "total"), len(names)),
        **dict.fromkeys(("splits", "split", "bundles", "bundles_to_split", "bundlesToSplit", "split_bundles"), splits),
        "split_nonempty": bool(names),
        "decisions": [Row(bundle=bundle, broker=broker) for bundle, broker in found.items()],
        "per_cycle": Series((names,)),
        "property": _check_limit(names, count, knobs.load_balancer_namespace_maximum_bundles),
    }


def _check_limit(splits: Sequence[str], count: Namespaces, limit: int) -> Sentence:
    """The property that every namespace with splits has the maximum number of bundles after them."""
    new = Counter(map(namespace_of_bundle_name, splits))
    after = {namespace: count(namespace) + more for namespace, more in new.items()}
    missed = [f"{namespace} would have {bundles} bundles" for namespace, bundles in after.items() if bundles != limit]
    return Sentence(_AT_THE_LIMIT, (bool(after) and not missed) or "; ".join(missed) or "nothing is split", {})


def modular_manager_split(case: Case) -> Mapping[str, Any]:
    """Split as the manager does, which never splits with a single broker."""
    return modular_split(case, split_task.checks_splits(knobs_of(case), len(case["brokers"])))


def _long_term(row: Mapping[str, Any]) -> split_task.LongTerm:
    """The long-term averages, under `longTerm` or `longTermData`, as longTermMsgRateIn, or as msgRateIn."""
    pass_over(row, "topics")  # the broker's report decides
    inner = first(row, "longTerm", "longTermData", default=row)
    rate, throughput = (
        sum(float(first(inner, f"longTermMsg{what}{way}", f"msg{what}{way}", default=0)) for way in ("In", "Out"))
        for what in ("Rate", "Throughput")
    )
    return split_task.LongTerm(rate, throughput)


ADAPTERS: Adapters = {
    ("split", "BundleSplitterTask"): modular_split,
    ("split", "ModularLoadManagerImpl"): modular_manager_split,
}
