"""Adapters for the broker filters and for the placement of the extensible manager: filter, place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.conformance_layout import knobs_of, usages_of
from benchmarks.conformance_values import Adapters, BadCase, Case, Pick
from controller.domain.pulsar_knobs import PulsarKnobs, from_pulsar
from controller.policy.pulsar import filters
from controller.policy.pulsar.extensible_load import BrokerLoadData, BrokerSample, updated
from controller.policy.pulsar.extensible_placement import select
from controller.policy.pulsar.load_data import RESOURCE_FIELDS, ResourceUsage

SEED = 7
_ANEW = re.compile(r"restart|fresh|\bnew|reset|replace", re.IGNORECASE)
_HAS_POLICY = ("policy", "has_policy", "hasPolicy", "namespace_has_policy", "isolated")
_POLICY_NAMES = ("primary", "secondary", "shared", "min_limit", "minLimit", "domains", "class", "usage_threshold")
Step = Mapping[str, Any]
OneFilter = Callable[[Step, Case], Any]


def filtered(one: OneFilter) -> Callable[[Case], Mapping[str, Any]]:
    """An adapter that runs a filter on each step of a case, or once on a case without steps."""

    def adapter(case: Case) -> Mapping[str, Any]:
        steps = case.get("steps") or [{}]
        found = [one(step, case) for step in steps]
        return {"per_step": found, "steps": [{"expect": kept} for kept in found], **_last(found)}

    return adapter


def _last(found: Sequence[Any]) -> dict[str, Any]:
    """The names under which a case without steps may state its result."""
    names = ("result", "kept", "remaining", "candidates", "brokers", "filtered", "eligible", "allowed", "selected")
    return dict.fromkeys((*names, "left", "available", "unload", "should_unload"), found[-1])


def load_manager_class(step: Step, case: Case) -> list[str]:
    """Brokers are written as name -> class, or name -> {loadManagerClassName: class}."""
    rows = step.get("brokers", case.get("brokers") or {})
    classes = {broker: _field(row, ("loadManagerClassName", "class")) for broker, row in rows.items()}
    return filters.by_load_manager_class(classes, str(_said(step, case, "class", "loadManagerClassName")))


def max_topics(step: Step, case: Case) -> list[str]:
    """Topics by broker; None or no entry: no load data."""
    knobs = knobs_of(case, _POLICY_NAMES)
    limit = int(step.get("maxTopics", step.get("loadBalancerBrokerMaxTopics", knobs.load_balancer_broker_max_topics)))
    rows = step.get("topics", step.get("brokers", case.get("brokers") or {}))
    topics = {broker: _field(row, ("topics",)) for broker, row in rows.items()}
    known = {broker: int(count) for broker, count in topics.items() if count is not None}
    candidates = step.get("candidates", step.get("available", case.get("available_brokers", list(rows))))
    return filters.by_max_topics(candidates, known, limit)


def version(step: Step, case: Case) -> list[str] | str:
    """What is kept, or the name of Pulsar's exception."""
    prefer = step.get("preferLaterVersions", knobs_of(case, _POLICY_NAMES).prefer_later_versions)
    rows = step.get("versions", case.get("brokers") or {})
    versions = {
        broker: _field(row, ("brokerVersion", "brokerVersionString", "version")) for broker, row in rows.items()
    }
    try:
        return filters.by_version(versions, bool(prefer))
    except filters.BadBrokerVersion:
        return "BrokerFilterBadVersionException"


def isolation(step: Step, case: Case) -> list[str]:
    """One policy in the config; `"policy": false` in a step, or none of its fields: a namespace without a policy."""
    config = {**case.get("config", {}), **step}
    policy = filters.IsolationPolicy(
        tuple(config.get("primary") or ()),
        tuple(config.get("secondary") or ()),
        int(config.get("min_limit", config.get("minLimit", 1))),
    )
    available = step.get("available", case.get("available_brokers", list(case.get("brokers") or ())))
    unnamed = any(config.get(name) is False for name in _HAS_POLICY)
    if unnamed or not (policy.primary or policy.secondary):
        return filters.by_isolation(available, None, [policy], _takes(step, case))
    return filters.by_isolation(available, policy)


def _takes(step: Step, case: Case) -> Callable[[str], bool]:
    """Whether a broker takes topics of the step's domain; without flags it takes all."""
    domain = str(step.get("domain", step.get("topicDomain", step.get("topic", "persistent"))))
    flag = "nonPersistentTopicsEnabled" if domain.startswith("non-persistent") else "persistentTopicsEnabled"
    rows = step.get("brokers", case.get("brokers") or {})
    return lambda broker: not isinstance(rows.get(broker), Mapping) or bool(rows[broker].get(flag, True))


def distribute_evenly(step: Step, case: Case) -> list[str]:
    """Off: everybody stays."""
    rows = case.get("brokers") or {}
    counts = step.get("counts") or {broker: _field(row, ("bundles", "count")) or 0 for broker, row in rows.items()}
    candidates = list(step.get("candidates", case.get("available_brokers", list(counts))))
    if not knobs_of(case).load_balancer_distribute_bundles_evenly_enabled:
        return candidates
    return filters.by_least_bundles(candidates, counts)


def anti_affinity(step: Step, case: Case) -> list[str]:
    """Candidates are the step's, the case's, the domains' brokers, or all that any step names."""
    knobs = knobs_of(case, _POLICY_NAMES)
    domains = case.get("config", {}).get("domains")
    everyone = [broker for brokers in (domains or {}).values() for broker in brokers]
    everyone = everyone or [broker for one in case.get("steps") or () for broker in one.get("owned") or ()]
    candidates = step.get("candidates", case.get("available_brokers", list(case.get("brokers") or ()) or everyone))
    counts = step.get("owned", step.get("counts")) or {}
    return filters.by_anti_affinity(
        dict.fromkeys(candidates), counts, domains if knobs.failure_domains_enabled else None
    )


def anti_affinity_unload(step: Step, case: Case) -> bool:
    """Whether moving a bundle of the group off its broker helps."""
    counts = step.get("owned", step.get("counts")) or {}
    current = _said(step, case, "current", "broker", "currentBroker")
    everyone = step.get("brokers", case.get("available_brokers", list(case.get("brokers") or counts)))
    candidates = list(step.get("candidates", everyone))
    return filters.anti_affinity_allows_unload(str(current), candidates, counts)


def place(case: Case) -> Mapping[str, Any]:
    """LeastResourceUsageWithWeight(extensions), step by step; brokers' averages go on from step to step."""
    rows = case.get("brokers") or {}
    loads = {broker: _reported(row) for broker, row in rows.items() if row}  # nothing said: no load data
    picks: list[Any] = []
    for step in case.get("steps") or [{}]:
        knobs = _step_knobs(step, case)
        loads = _stepped(loads, step, knobs)
        everyone = list(dict.fromkeys([*rows, *loads]))
        candidates = step.get("candidates", case.get("candidates", case.get("available_brokers", everyone)))
        known = {broker: data.weighted_max_ema for broker, data in loads.items()}
        choice = select(candidates, known, knobs, SEED)
        picks.append(Pick(choice.broker, choice.among))
    return {
        "per_step": picks,
        "steps": [{"expect": pick} for pick in picks],
        **dict.fromkeys(("selected", "broker", "one_of", "any_of"), picks[-1]),
    }


def _step_knobs(step: Step, case: Case) -> PulsarKnobs:
    return from_pulsar({**case.get("config", {}), **step.get("config", {})})


def _stepped(loads: Mapping[str, BrokerLoadData], step: Step, knobs: PulsarKnobs) -> dict[str, BrokerLoadData]:
    """What a step says of the brokers' load: an average as it is reported, or usages that one update brings in."""
    found = {broker: data for broker, data in loads.items() if broker not in _begun_anew(step)}
    for name in ("weightedMaxEMA", "history", "load", "loads"):
        for broker, average in (step.get(name) or {}).items():
            if average is None:
                found.pop(broker, None)
            else:
                found[broker] = BrokerLoadData(weighted_max_ema=float(average), updated_at_ms=1)
    for broker, row in (step.get("brokers") or {}).items():
        if row:
            found[broker] = _reported(row, found.get(broker), knobs)
        else:
            found.pop(broker, None)
    again = [name for name, value in step.items() if _ANEW.search(name) and isinstance(value, Mapping)]
    for name in ("usage_percent_all_resources", "usage_percent", "cpu", "update", *again):
        for broker, percent in (step.get(name) or {}).items():
            usages = dict.fromkeys(RESOURCE_FIELDS, ResourceUsage(float(percent), 100.0))
            found[broker] = updated(found.get(broker, BrokerLoadData()), BrokerSample(usages), knobs, 1)
    for broker in step.get("no_load_data") or step.get("noLoadData") or ():
        found.pop(broker, None)
    return found


def _begun_anew(step: Step) -> set[str]:
    """Brokers whose average begins with this step: those a step names so, or all of it where it says just that."""
    found: set[str] = set()
    for name, value in step.items():
        if _ANEW.search(name):
            named = (broker for one in step.values() if isinstance(one, Mapping) for broker in one)
            found |= set(named if value is True else value if isinstance(value, list | Mapping) else ())
    return found


def _reported(
    row: Mapping[str, Any] | None, before: BrokerLoadData | None = None, knobs: PulsarKnobs | None = None
) -> BrokerLoadData:
    """One broker's load: its average, or usages that one update brings in."""
    if row and "weightedMaxEMA" in row:
        return BrokerLoadData(weighted_max_ema=float(row["weightedMaxEMA"]), updated_at_ms=1)
    usages = usages_of(row or {})
    before = before or BrokerLoadData()
    return updated(before, BrokerSample(usages), knobs or PulsarKnobs(), 1) if usages else before


def _field(row: Any, names: Sequence[str]) -> Any:
    """A broker's value: written plainly, or as a field of its object."""
    if not isinstance(row, Mapping):
        return row
    return next((row[name] for name in names if name in row), None)


def _said(step: Step, case: Case, *names: str) -> Any:
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
_BY_WORDS: Mapping[str, OneFilter] = {  # the first whose words a strategy's name has
    r"affinity.*unload|unload.*affinity": anti_affinity_unload,
    r"affinity|domain": anti_affinity,
    r"isolation|polic": isolation,
    r"evenly|most.?servicing|least.?bundles": distribute_evenly,
    r"topic": max_topics,
    r"version": version,
    r"class|load.?manager": load_manager_class,
}


def by_words(case: Case) -> Mapping[str, Any]:
    """A filter that has another name than its class or the published cases give it."""
    name = str(case["strategy"])
    found = next((one for words, one in _BY_WORDS.items() if re.search(words, name, re.IGNORECASE)), None)
    if found is None:
        raise BadCase(f"no filter of Pulsar is called {name!r}")
    return filtered(found)(case)


ADAPTERS: Adapters = {
    "filter": by_words,
    **{("filter", strategy): filtered(one) for strategy, one in _BY_STRATEGY.items()},
    ("place", "LeastResourceUsageWithWeight(extensions)"): place,
}
