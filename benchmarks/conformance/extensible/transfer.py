"""Adapters for TransferShedder: shed-transfer, policy-gate, scheduler and property."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.conformance.extensible.transfer_loads import Tops, loads_of
from benchmarks.conformance.layout import (
    NOW_MS,
    knobs_of,
    moment_ms,
    moments_ms,
    names_of,
    only_row,
    rows_of,
)
from benchmarks.conformance.reading import first, known
from benchmarks.conformance.values import Adapters, BadCase, Case, Pick, Sentence
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.reasons import UnloadLabel, UnloadReason
from controller.pulsar.shedding.transfer import (
    BrokerLoad,
    Cluster,
    Outcome,
    find_bundles_for_unloading,
    is_transferable,
    may_shed,
    scheduler_runs,
)
from controller.pulsar.shedding.transfer_pair import TopBundle
from controller.pulsar.system_namespaces import namespace_of_bundle_name

SEED = 20240815
TRIALS = 200
_TARGET_MET = (
    r"after a cycle either (?:the )?projected std <= targetstd or there is no transferable (?:broker )?pair left"
)
_ALLOWED = ("allowed", "candidates", "brokers", "eligible")
_RULES = ("isolation", "antiAffinity", "antiAffinityGroup", "filter", "filters")
_THROWS = re.compile(r"throws?\b|fails?\b|exception|\berror", re.IGNORECASE)
_LEAVES_NONE = re.compile(r"no candidates?\b|(?:removes|clears) all\b|leaves none\b")
_UNDERSTOOD = re.compile(rf"{_THROWS.pattern}|{_LEAVES_NONE.pattern}|\b(?:all|every|only|except|but)\b", re.IGNORECASE)


def shed_transfer(case: Case) -> Mapping[str, Any]:
    """Run as many cycles as the hit count needs; the last one may shed."""
    knobs = knobs_of(case)
    cluster = _cluster(case, knobs)
    counter: Counter[tuple[str, str]] = Counter()
    hits = skipped_first = 0
    outcome = Outcome((), None, 0)
    cycles: list[list[dict[str, Any]]] = []
    for _ in range(knobs.load_balancer_shedding_condition_hit_count_threshold + 1):
        outcome = find_bundles_for_unloading(cluster, hits, knobs)
        hits = outcome.hits
        cycles.append([_decision(move) for move in outcome.decisions])
        if outcome.verdict is not None:
            counter[outcome.verdict[0].value, outcome.verdict[1].value] += 1
            skipped_first += outcome.verdict == (UnloadLabel.SKIP, UnloadReason.HIT_COUNT)
    return {
        "decisions": [_decision(move) for move in outcome.decisions],
        **dict.fromkeys(("decisions_count", "unload_count"), len(outcome.decisions)),
        "cycle": next((at for at, found in enumerate(cycles, start=1) if found), None),
        "per_cycle": cycles,
        "counter": _breakdown(counter),
        "loadAvg": outcome.average,
        "loadStd": outcome.std,
        "avg": outcome.average,
        "std": outcome.std,
        "stdAfterPlan": outcome.std_after,
        "cycles_with_HitCount_skip_first": skipped_first,
        **_sole(outcome, cluster.loads),
    }


def policy_gate(case: Case) -> Mapping[str, Any]:
    """Whether a bundle with these policies may be shed."""
    ((_, bundle),) = only_row(rows_of(case, "bundles"), "bundles")
    policies = bool(bundle.get("hasIsolationPolicy")), bool(bundle.get("hasAntiAffinityGroup"))
    return {"eligible": may_shed(*policies, knobs_of(case))}


def scheduler(case: Case) -> Mapping[str, Any]:
    """Whether the strategy is called. By default this broker is the leader of two brokers."""
    knobs = knobs_of(case)
    leads = bool(first(case.get("config") or {}, "isChannelOwner", "isLeader", default=True))
    return {"strategy_invoked": scheduler_runs(knobs, leads, brokers_there(case))}


def brokers_there(case: Case) -> int:
    """The number of brokers in the case; two if it names none."""
    if case.get("available_brokers") is not None:
        return len(names_of(case["available_brokers"]))
    brokers = case.get("brokers") or {}
    return int(brokers["count"]) if "count" in brokers else len(rows_of(case, "brokers")) or 2


def random_load_property(case: Case) -> Mapping[str, Any]:
    """Whether, after a cycle, the expected spread meets the target or no pair of brokers is left."""
    knobs = knobs_of(case)
    rng = random.Random(SEED)
    for _ in range(TRIALS):
        tops = {f"broker{at}:8080": _random_bundles(at, rng) for at in range(rng.randint(2, 30))}
        traffic = {name: sum(one.throughput for one in bundles) for name, bundles in tops.items()}
        loads = [BrokerLoad(name, rng.random(), traffic[name], traffic[name], NOW_MS) for name in tops]
        cluster = Cluster(loads, list(tops), NOW_MS, {}, {}, tops.__getitem__)
        outcome = find_bundles_for_unloading(cluster, 0, knobs)
        if outcome.std_after > knobs.load_balancer_broker_load_target_std and not outcome.exhausted:
            broken = f"std {outcome.std_after} is expected, and pairs are left, for {loads!r}"
            return {"property": Sentence(_TARGET_MET, broken, {})}
    return {"property": Sentence(_TARGET_MET, True, {})}


def _random_bundles(broker: int, rng: random.Random) -> list[TopBundle]:
    sizes = sorted(rng.uniform(0, 1e7) for _ in range(rng.randint(2, 10)))
    return [TopBundle(f"t/{broker}/0x{at:08x}_0x{at + 1:08x}", size) for at, size in enumerate(sizes)]


def _cluster(case: Case, knobs: PulsarKnobs) -> Cluster:
    notes = str(case.get("notes", ""))
    loads, tops = loads_of(case.get("brokers") or {}, knobs=knobs)
    names = [load.broker for load in loads]
    said = re.search(r"updatedAt\s*=\s*(\w+)(?: for ([^.;]*))?", notes)
    if said is not None:  # for the brokers named after it, else for all
        named = [name for name in names if re.search(rf"\b{re.escape(name.split(':')[0])}\b", said[2] or "")] or names
        moment = moment_ms(said[1])
        loads = [replace(load, updated_at_ms=moment) if load.broker in named else load for load in loads]
    # only the notes can say that the registry does not answer
    failed = re.search(r"registry\b.*\bfails?\b", notes) is not None
    available = names_of(case.get("available_brokers", names))
    owners = dict(case.get("owners") or {})
    failing = re.search(r"\bfilters?\b.*(throws?\b|fails?\b|exception)", notes, re.IGNORECASE)
    rules = known(case.get("policies") or {}, *_RULES) | ({"filter": notes} if failing else {})
    policies = _Policies(rules, [] if failed else available, knobs, tops)
    return Cluster(
        loads,
        None if failed else available,
        moment_ms(case.get("now", NOW_MS)),
        moments_ms(case.get("recently_unloaded")),
        moments_ms(case.get("recently_unloaded_brokers")),
        tops.__getitem__,
        is_owner=lambda bundle, broker: owners.get(bundle, broker) == broker,
        transferable=policies.transferable,
    )


class _Policies:
    """The policies of a case: which namespaces have one, and which brokers pass the filters."""

    def __init__(self, policies: Mapping[str, Any], available: Collection[str], knobs: PulsarKnobs, tops: Tops) -> None:
        self.isolation = _by_namespace(policies.get("isolation"))
        self.group = _by_namespace(first(policies, "antiAffinity", "antiAffinityGroup"))
        said = (one if isinstance(one, list) else [one] for one in policies.values())
        self.texts = [text for one in said for text in one if isinstance(text, str)]
        unclear = [text for text in self.texts if not _UNDERSTOOD.search(text)]
        if unclear:
            raise BadCase(f"policy {unclear[0]!r} is not understood")
        self.available, self.knobs = available, knobs
        self.short = {f"{name[-1]}{at + 1}": one for name, at, one in _number_bundles(tops)}

    def transferable(self, bundle: str, source: str, target: str) -> bool:
        """Pulsar's isTransferable for the brokers that pass the filters."""
        namespace = namespace_of_bundle_name(bundle)
        allowed = may_shed(_names(self.isolation, namespace), _names(self.group, namespace), self.knobs)
        return is_transferable(source, target, self._eligible(bundle, namespace), self.knobs, allowed)

    def _eligible(self, bundle: str, namespace: str) -> list[str] | None:
        left = list(self.available)
        for policy in (self.isolation, self.group):
            permitted = policy.get(namespace) if isinstance(policy, Mapping) else None
            if isinstance(permitted, list):
                left = [broker for broker in left if broker in permitted]
        for text in self.texts:
            if _THROWS.search(text):
                return None
            spared = self._bundles_in(text)
            if bundle in spared:
                continue
            if _LEAVES_NONE.search(text) or (spared and re.search(r"\bonly\b|\bexcept\b|\bbut\b", text)):
                return []
        return left

    def _bundles_in(self, text: str) -> set[str]:
        """The bundles named in a text, in full or as E1: the first bundle of namespace E."""
        found = set(re.findall(r"[\w-]+/[\w-]+/0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8}", text))
        short = (f"{letter}{at}" for letter, at in re.findall(r"(?<![A-Za-z/])(?:bundle ?)?([A-Z])-?(\d)\b", text))
        return found | {self.short[name] for name in short if name in self.short}


def _number_bundles(tops: Tops) -> Iterator[tuple[str, int, str]]:
    """Namespace, number within it, and name of every top bundle."""
    seen: Counter[str] = Counter()
    for bundles in tops.values():
        for one in bundles:
            namespace = namespace_of_bundle_name(one.name)
            yield namespace, seen[namespace], one.name
            seen[namespace] += 1


def _by_namespace(policy: Any) -> Any:
    """Namespace -> the brokers that its policy allows, if the policy is given by namespace."""
    if not isinstance(policy, Mapping):
        return policy
    return {
        namespace: first(allowed, *_ALLOWED) if isinstance(allowed, Mapping) else allowed
        for namespace, allowed in policy.items()
    }


def _names(policy: Any, namespace: str) -> bool:
    """Whether the namespace has this policy, given by namespace or in words for all."""
    return namespace in policy if isinstance(policy, Mapping | list) else bool(policy)


def _decision(move: Any) -> dict[str, Any]:
    return {
        "sourceBroker": move.source,
        "bundle": move.bundle,
        "destBroker": move.target,
        "label": UnloadLabel.SUCCESS.value,
        "reason": move.reason.value,
    }


def _breakdown(counter: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    return {
        label.value: {reason.value: counter.get((label.value, reason.value), 0) for reason in UnloadReason}
        for label in UnloadLabel
    }


def _sole(outcome: Outcome, loads: Sequence[BrokerLoad]) -> dict[str, Any]:
    """The fields of the only decision; its destination may be one of several equally loaded brokers."""
    if len(outcome.decisions) != 1:
        return {}
    (move,) = outcome.decisions
    load = {one.broker: one.weighted_max_ema for one in loads}
    alike = tuple(b for b in load if move.target is not None and b != move.source and load[b] == load[move.target])
    return {**_decision(move), "destBroker": Pick(move.target, alike, drawn=False)}


ADAPTERS: Adapters = {
    ("shed-transfer", "TransferShedder"): shed_transfer,
    ("policy-gate", "TransferShedder"): policy_gate,
    ("scheduler", "UnloadScheduler"): scheduler,
    ("property", "TransferShedder"): random_load_property,
}
