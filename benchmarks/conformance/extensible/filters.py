"""Adapters for the broker filters and for the placement of the extensible manager: filter, place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from benchmarks.conformance.layout import knobs_of, names_of, rows_of, usages_of
from benchmarks.conformance.reading import first, known, pass_over
from benchmarks.conformance.values import Adapters, BadCase, Case, Pick
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.extensible import BrokerLoadData, BrokerSample, next_load
from controller.pulsar.load.load_data import RESOURCE_FIELDS, ResourceUsage
from controller.pulsar.placement import filters
from controller.pulsar.placement.extensible import select

SEED = 7
_RESTARTED = re.compile(
    r"(?:restart(?:ed)?|fresh|new|reset|replaced?)(?:_?(?:load)?_?(?:data|brokers?|average))?", re.IGNORECASE
)
_DOMAIN_FLAGS = ("persistentTopicsEnabled", "nonPersistentTopicsEnabled")
_USAGES = ("usage_percent_all_resources", "usage_percent", "cpu", "update")
_BY_BROKER = ("weightedMaxEMA", "history", "load", "loads", "brokers", *_USAGES)
_POLICY = ("primary", "secondary", "shared", "min_limit", "minLimit", "usage_threshold")
_HAS_POLICY = ("policy", "has_policy", "hasPolicy", "namespace_has_policy", "isolated")
_LOAD_DATA = (  # what a broker reports besides its load
    *("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut", "msgThroughputEMA"),
    *("bundleCount", "topics", "maxResourceUsage", "updatedAt", "reportedAt"),
)
Step = Mapping[str, Any]
OneFilter = Callable[[Step, Case], Any]


def per_step(one: OneFilter) -> Callable[[Case], Mapping[str, Any]]:
    """Make an adapter that runs a filter on each step of a case, or once on a case without steps."""

    def adapter(case: Case) -> Mapping[str, Any]:
        steps = case.get("steps") or [{}]
        found = [one(step, case) for step in steps]
        return {"per_step": found, "steps": [{"expect": kept} for kept in found], **_last(found)}

    return adapter


def _last(found: Sequence[Any]) -> dict[str, Any]:
    """The names that a case without steps may use for its result."""
    names = ("result", "kept", "remaining", "candidates", "brokers", "filtered", "eligible", "allowed", "selected")
    return dict.fromkeys((*names, "left", "available", "unload", "should_unload"), found[-1])


def load_manager_class(step: Step, case: Case) -> list[str]:
    """Brokers are given as name -> class, or name -> {loadManagerClassName: class}."""
    rows = _brokers(step, case)
    classes = {broker: _field(row, ("loadManagerClassName", "class")) for broker, row in rows.items()}
    return filters.by_load_manager_class(classes, str(_find(step, case, "class", "loadManagerClassName")))


def max_topics(step: Step, case: Case) -> list[str]:
    """Topics by broker; null or a missing entry means no load data."""
    limit = int(first(step, "maxTopics", default=_knobs(step, case).load_balancer_broker_max_topics))
    rows = step["topics"] if "topics" in step else _brokers(step, case)
    topics = {broker: _field(row, ("topics",)) for broker, row in rows.items()}
    with_data = {broker: int(count) for broker, count in topics.items() if count is not None}
    return filters.by_max_topics(_candidates(step, case, list(rows)), with_data, limit)


def version(step: Step, case: Case) -> list[str] | str:
    """The brokers that are kept, or the name of Pulsar's exception."""
    prefer = _knobs(step, case).prefer_later_versions
    rows = step["versions"] if "versions" in step else _brokers(step, case)
    versions = {
        broker: _field(row, ("brokerVersion", "brokerVersionString", "version")) for broker, row in rows.items()
    }
    try:
        return filters.by_version(versions, prefer)
    except filters.BadBrokerVersion:
        return "BrokerFilterBadVersionException"


def isolation(step: Step, case: Case) -> list[str]:
    """The config has one policy. `"policy": false` in a step, or none of its fields: a namespace without a policy.

    Pulsar ignores the policy's usage_threshold. Brokers that are no primaries of it are shared.
    """
    said = known(case.get("config") or {}, *_POLICY, *_HAS_POLICY) | known(step, *_POLICY, *_HAS_POLICY)
    policy = filters.IsolationPolicy(
        tuple(said.get("primary") or ()),
        tuple(said.get("secondary") or ()),
        int(first(said, "min_limit", "minLimit", default=1)),
    )
    shared = names_of(said.get("shared") or ())
    if shared != filters.by_isolation(shared, None, [policy]):
        raise BadCase(f"shared {shared!r}: a primary broker of the policy is not shared")
    available = _candidates(step, case, list(case.get("brokers") or ()))
    unnamed = any(said.get(name) is False for name in _HAS_POLICY)
    if unnamed or not (policy.primary or policy.secondary):
        return filters.by_isolation(available, None, [policy], _takes(step, case))
    return filters.by_isolation(available, policy)


def _takes(step: Step, case: Case) -> Callable[[str], bool]:
    """Whether a broker takes topics of the step's domain. Without flags it takes all."""
    domain = str(first(step, "domain", "topicDomain", "topic", default="persistent"))
    flag = "nonPersistentTopicsEnabled" if domain.startswith("non-persistent") else "persistentTopicsEnabled"
    rows = {broker: row for broker, row in _brokers(step, case).items() if isinstance(row, Mapping)}
    flags = {
        broker: known(row, "persistentTopicsEnabled", "nonPersistentTopicsEnabled") for broker, row in rows.items()
    }
    return lambda broker: bool(flags.get(broker, {}).get(flag, True))


def distribute_evenly(step: Step, case: Case) -> list[str]:
    """The brokers with the fewest bundles, or all candidates if the knob is off."""
    rows = _brokers(step, case)
    counts = {broker: _field(row, ("bundles", "count")) or 0 for broker, row in rows.items()}
    counts |= step.get("counts") or {}
    candidates = _candidates(step, case, list(counts))
    if not _knobs(step, case).load_balancer_distribute_bundles_evenly_enabled:
        return candidates
    return filters.by_least_bundles(candidates, counts)


def anti_affinity(step: Step, case: Case) -> list[str]:
    """Candidates come from the step, the case, the domains, or all steps together."""
    domains = (case.get("config") or {}).get("domains")
    everyone = [broker for brokers in (domains or {}).values() for broker in brokers]
    everyone = everyone or [broker for one in case.get("steps") or () for broker in one.get("owned") or ()]
    candidates = _candidates(step, case, list(case.get("brokers") or ()) or everyone)
    counts = dict(first(step, "owned", "counts", default={}))
    return filters.by_anti_affinity(
        dict.fromkeys(candidates), counts, domains if _knobs(step, case).failure_domains_enabled else None
    )


def anti_affinity_unload(step: Step, case: Case) -> bool:
    """Whether it helps to move a bundle of the group off its broker."""
    counts = dict(first(step, "owned", "counts", default={}))
    current = _find(step, case, "current", "broker", "currentBroker")
    everyone = step["brokers"] if "brokers" in step else list(case.get("brokers") or counts)
    candidates = _candidates(step, case, names_of(everyone))
    return filters.anti_affinity_allows_unload(str(current), candidates, counts)


def place(case: Case) -> Mapping[str, Any]:
    """LeastResourceUsageWithWeight(extensions), step by step. Brokers keep their averages between steps."""
    rows = rows_of(case, "brokers")
    loads = {broker: _load_of(row) for broker, row in rows.items() if row}  # an empty row means no load data
    of_case = first(case, "candidates", "available_brokers")
    picks: list[Any] = []
    for step in case.get("steps") or [{}]:
        knobs = _knobs(step, case)
        loads = _apply(loads, step, knobs)
        everyone = list(dict.fromkeys([*rows, *loads]))
        candidates = first(step, "candidates", "available_brokers", default=everyone if of_case is None else of_case)
        averages = {broker: data.weighted_max_ema for broker, data in loads.items()}
        choice = select(names_of(candidates), averages, knobs, Random(SEED).randrange)
        picks.append(Pick(choice.broker, choice.among))
    return {
        "per_step": picks,
        "steps": [{"expect": pick} for pick in picks],
        **dict.fromkeys(("selected", "broker", "one_of", "any_of"), picks[-1]),
    }


def _knobs(step: Step, case: Case) -> PulsarKnobs:
    """The case's knobs, overridden by those of the step, in its own `config` or directly."""
    return knobs_of(case, step.get("config") or {}, step)


def _apply(loads: Mapping[str, BrokerLoadData], step: Step, knobs: PulsarKnobs) -> dict[str, BrokerLoadData]:
    """Apply a step to the brokers' loads: it gives a reported average, or usages for one update."""
    restarted = _restarted_brokers(step)
    found = {broker: data for broker, data in loads.items() if broker not in restarted}
    for name in ("weightedMaxEMA", "history", "load", "loads"):
        for broker, average in (step.get(name) or {}).items():
            if average is None:
                found.pop(broker, None)
            else:
                found[broker] = BrokerLoadData(weighted_max_ema=float(average), updated_at_ms=1)
    for broker, row in rows_of(step, "brokers").items():
        if row:
            found[broker] = _load_of(row, found.get(broker), knobs)
        else:
            found.pop(broker, None)
    again = [name for name in step if _RESTARTED.fullmatch(name) and isinstance(step[name], Mapping)]
    for name in (*_USAGES, *again):
        for broker, percent in (step.get(name) or {}).items():
            usages = dict.fromkeys(RESOURCE_FIELDS, ResourceUsage(float(percent), 100.0))
            found[broker] = next_load(found.get(broker, BrokerLoadData()), BrokerSample(usages), knobs, 1)
    for broker in first(step, "no_load_data", "noLoadData", default=()):
        found.pop(broker, None)
    return found


def _restarted_brokers(step: Step) -> set[str]:
    """Brokers whose average starts with this step: those that it names, or all brokers of the step if it says true."""
    found: set[str] = set()
    for name in step:
        if _RESTARTED.fullmatch(name):
            value = step[name]
            named = (broker for one in _BY_BROKER for broker in step.get(one) or {})
            found |= set(named if value is True else names_of(value) if value else ())
    return found


def _load_of(
    row: Mapping[str, Any] | None, before: BrokerLoadData | None = None, knobs: PulsarKnobs | None = None
) -> BrokerLoadData:
    """One broker's load from its average, or from usages by one update. The rest of a report has no effect."""
    usages = usages_of(row or {})
    pass_over(row or {}, *_LOAD_DATA)
    if row and "weightedMaxEMA" in row:
        return BrokerLoadData(weighted_max_ema=float(row["weightedMaxEMA"]), updated_at_ms=1)
    before = before or BrokerLoadData()
    return next_load(before, BrokerSample(usages), knobs or PulsarKnobs(), 1) if usages else before


def _field(row: Any, names: Sequence[str]) -> Any:
    """A broker's value, given directly or as a field of its object."""
    if not isinstance(row, Mapping):
        return row
    return first(row, *names)


def _brokers(step: Step, case: Case) -> Mapping[str, Any]:
    """The brokers of the step, else of the case."""
    found: Mapping[str, Any] = step["brokers"] if "brokers" in step else case.get("brokers") or {}
    return found


def _candidates(step: Step, case: Case, everyone: Sequence[str]) -> list[str]:
    """The candidates of the step, else of the case, else everyone."""
    of_case = case.get("available_brokers")
    return names_of(first(step, "candidates", "available", default=everyone if of_case is None else of_case))


def _find(step: Step, case: Case, *names: str) -> Any:
    for row in (step, case.get("config") or {}, case):
        for name in names:
            if name in row:
                return row[name]
    raise BadCase(f"none of {', '.join(names)} is said")


_BY_STRATEGY: Mapping[str, OneFilter] = {
    "BrokerLoadManagerClassFilter": load_manager_class,
    "BrokerMaxTopicCountFilter": max_topics,
    "BrokerVersionFilter": version,
    "BrokerIsolationPoliciesFilter": isolation,
    "isolation": isolation,
    "distribute-bundles-evenly": distribute_evenly,
    "AntiAffinityGroupPolicyFilter": anti_affinity,
    "anti-affinity": anti_affinity,
    "anti-affinity+domains": anti_affinity,
    "anti-affinity-unload": anti_affinity_unload,
}
_BY_WORDS: Mapping[str, OneFilter] = {  # the first one whose words appear in the strategy's name
    r"affinity.*unload|unload.*affinity": anti_affinity_unload,
    r"affinity|domain": anti_affinity,
    r"isolation|polic": isolation,
    r"evenly|most.?servicing|least.?bundles": distribute_evenly,
    r"topic": max_topics,
    r"version": version,
    r"class|load.?manager": load_manager_class,
}


def by_words(case: Case) -> Mapping[str, Any]:
    """A filter under a name other than that of its class or of the published cases."""
    name = str(case["strategy"])
    found = next((one for words, one in _BY_WORDS.items() if re.search(words, name, re.IGNORECASE)), None)
    if found is None:
        raise BadCase(f"no filter of Pulsar is called {name!r}")
    return per_step(found)(case)


ADAPTERS: Adapters = {
    "filter": by_words,
    **{("filter", strategy): per_step(one) for strategy, one in _BY_STRATEGY.items()},
    ("place", "LeastResourceUsageWithWeight(extensions)"): place,
}
