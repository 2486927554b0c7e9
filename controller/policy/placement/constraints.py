"""Hard filters: brokers that must not give or take, bundles that must not move, moves that break a rule of placement.

`assess` and `constrain` come before a strategy, so that no score can outweigh them; the first rule that forbids names
the reason. A broker without enough reports is left out alone, and the round goes on for the rest (Pulsar's
TransferShedder skips the whole cluster when one broker has no load data).

`enforce_rules` comes after a strategy: those that know the rules choose within them; a move of another (one of
Pulsar's, or a new one) that breaks a rule becomes a skip with the rule as its reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from types import EllipsisType

import numpy as np

from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.load import BUNDLE_FIELDS
from controller.domain.settings.policy import BrokerCaps, PolicySettings
from controller.policy.decisions import make_skip
from controller.policy.placement.isolation import of_newest_version
from controller.policy.placement.rules import build_rules, count_bundles, track_placement
from controller.policy.view.costs import Floats
from controller.policy.view.frame import NOBODY, Ints, namespaces_of, place_of
from controller.policy.view.reason_codes import ALLOWED, CODES, REASONS
from controller.policy.view.snapshot import NO_SCORE, Bools, Snapshot

# Pulsar's own: heartbeats (pulsar/host:port, pulsar/cluster/host:port), SLA monitors, the system namespace
_SYSTEM = re.compile(r"pulsar/system|pulsar/([^/]+/)?[^/:]+:\d+|sla-monitor/.+")
MIN_REPORTS = 2  # a single report may be a start-up peak
_F = {name: i for i, name in enumerate(BUNDLE_FIELDS)}


def assess(snapshot: Snapshot, settings: PolicySettings) -> Snapshot:
    """Block brokers without fresh load data, as sources and as targets.

    NO_LOAD_DATA: fewer than MIN_REPORTS in the window, or no weighted resource with a known usage and limit.
    OUTDATED_LOAD_DATA: the newest report is older than `max_report_age_ms` at the time of the round.
    """
    sparse = (snapshot.reports < MIN_REPORTS) | (snapshot.score == NO_SCORE)
    old = snapshot.at_ms - snapshot.last_event_ms > settings.max_report_age_ms
    verdict = np.select(
        [snapshot.reports == 0, old, sparse],
        [CODES[Reason.NO_LOAD_DATA], CODES[Reason.OUTDATED_LOAD_DATA], CODES[Reason.NO_LOAD_DATA]],
        ALLOWED,
    )
    return replace(
        snapshot,
        source_block=np.where(snapshot.source_block == ALLOWED, verdict, snapshot.source_block),
        target_block=np.where(snapshot.target_block == ALLOWED, verdict, snapshot.target_block),
    )


def constrain(snapshot: Snapshot, settings: PolicySettings) -> Snapshot:
    """Fill in what the journal and the configuration forbid, for sources, targets and bundles."""
    frame = snapshot.frame
    gone = np.where(snapshot.known & snapshot.alive, ALLOWED, CODES[Reason.BROKER_GONE])
    lagging = frame.broker("lagging") == 1
    drained = (frame.broker("drained") == 1) | (frame.broker("leaving") == 1)
    observed = _find_forbidden(frame.forbidden, snapshot.brokers)
    source = _first(gone, observed, np.where(drained, CODES[Reason.BROKER_DRAINED], ALLOWED), snapshot.source_block)
    at_cap = exceeds_caps(snapshot.totals, settings.caps, reached=True)
    if settings.caps.max_bundles is not None:
        at_cap |= count_bundles(snapshot) >= settings.caps.max_bundles
    target = _first(
        source,
        np.where(lagging, CODES[Reason.LAGGING], ALLOWED),
        np.where(_find_outdated(snapshot, settings), CODES[Reason.BROKER_VERSION], ALLOWED),
        np.where(at_cap, CODES[Reason.BROKER_CAP], ALLOWED),
        snapshot.target_block,
    )
    blocks = _block_bundles(snapshot, settings)
    snapshot = replace(snapshot, source_block=source, target_block=target, bundle_block=blocks)
    rules = build_rules(snapshot, settings)
    return snapshot if rules is None else replace(snapshot, rules=rules)


def enforce_rules(snapshot: Snapshot, caps: BrokerCaps, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """The decisions in order; a move that breaks isolation, anti-affinity or a cap after the moves before is a skip."""
    decisions = tuple(decisions)
    taken = Counter(d.target for d in decisions if d.kind is DecisionKind.TRANSFER)
    if not taken:
        return decisions
    held = _Held(snapshot, caps if can_reach_caps(snapshot, caps, max(taken.values())) else None)
    result = []
    for decision in decisions:
        reason = held.judge(decision)
        result.append(decision if reason is None else make_skip(decision, reason))
    return tuple(result)


def exceeds_caps(totals: Floats, caps: BrokerCaps, reached: bool = False) -> Bools:
    """[...] whether totals [... x F] exceed a cap; with `reached` also those exactly at one."""
    result = np.zeros(totals.shape[:-1], bool)
    for value, cap in list_capped(totals, caps):
        result |= (value >= cap) if reached else (value > cap)
    return result


def list_capped(totals: Floats, caps: BrokerCaps, rows: Ints | EllipsisType = ...) -> list[tuple[Floats, int]]:
    """[...] each quantity of totals [... x F] that has a cap, with the cap. `rows`: of these alone."""
    measured = (
        (("topics",), caps.max_topics),
        (("storage_bytes", "cache_bytes"), caps.max_bundle_memory_bytes),
        (("throughput_in", "throughput_out"), caps.max_throughput_bytes_per_s),
    )
    return [
        (np.asarray(reduce(np.add, (totals[rows, _F[name]] for name in names))), cap)
        for names, cap in measured
        if cap is not None
    ]


def can_reach_caps(snapshot: Snapshot, caps: BrokerCaps, moves: int) -> bool:
    """Whether a broker that takes so many bundles could exceed a cap."""
    of_bundles = list_capped(snapshot.fields, caps)
    return any(
        held.max(initial=0.0) + moves * value.max(initial=0.0) > cap
        for (held, cap), (value, _) in zip(list_capped(snapshot.totals, caps), of_bundles, strict=True)
    )


def pairs_exceed_caps(totals: Floats, targets: Ints, fields: Floats, bundles: Ints, caps: BrokerCaps) -> Bools:
    """[n x t] whether one of the targets, of totals [B x F], is above a cap with one of the bundles, of fields [N x F].

    [1 x 1] where nothing has a cap.
    """
    result = np.zeros((1, 1), bool)
    of_bundles = list_capped(fields, caps, bundles)
    for (held, cap), (value, _) in zip(list_capped(totals, caps, targets), of_bundles, strict=True):
        if held.max(initial=0.0) + value.max(initial=0.0) > cap:  # hardly ever, and all pairs are many
            result = result | (held + value[:, None] > cap)
    return result


def is_system_namespace(namespace: str) -> bool:
    """Whether brokers use the namespace for themselves: heartbeats, SLA monitors, system topics."""
    return _SYSTEM.fullmatch(namespace) is not None


class _Held:
    """What brokers hold after the moves so far."""

    def __init__(self, snapshot: Snapshot, caps: BrokerCaps | None) -> None:
        """`caps`: None if no broker can reach one by these moves."""
        self._snapshot, self._caps = snapshot, caps
        self._index = {broker: at for at, broker in enumerate(snapshot.brokers)}
        self._placement_state = track_placement(snapshot)
        self._totals = snapshot.totals.copy()
        self._moved: set[int] = set()

    def judge(self, decision: Decision) -> Reason | None:
        """The rule that a move breaks; None: it breaks none and is counted."""
        if decision.kind is not DecisionKind.TRANSFER or decision.bundle is None or decision.target is None:
            return None
        at, target = self._snapshot.place_of(decision.bundle), self._index.get(decision.target)
        if at is None or target is None:
            return None
        other = self._snapshot.place_of(decision.swapped_with or "")
        if self._placement_state is not None:
            code = self._placement_state.code(at, target, swap=other is not None)
            if code != ALLOWED:
                return REASONS[code]
        if self._caps is not None and self._exceeds(self._caps, at, target, other):
            return Reason.BROKER_CAP
        self._count(at, target)
        return None

    def _exceeds(self, caps: BrokerCaps, at: int, target: int, other: int | None) -> bool:
        """Whether a cap of the target forbids the move. `other`: the bundle that leaves the target in return."""
        after = self._totals[target] + self._snapshot.fields[at]
        if other is not None and other not in self._moved:
            after = after - self._snapshot.fields[other]
        return bool(exceeds_caps(after, caps)) and bool((after > self._snapshot.totals[target]).any())

    def _count(self, at: int, target: int) -> None:
        if self._placement_state is not None:
            self._placement_state.move(at, target)
        self._totals[target] += self._snapshot.fields[at]
        owner = int(self._snapshot.owner[at])
        if owner >= 0:
            self._totals[owner] -= self._snapshot.fields[at]
        self._moved.add(at)


def _find_outdated(snapshot: Snapshot, settings: PolicySettings) -> Bools:
    """[B] brokers of an older version than the newest in service, where only the newest is to be used."""
    facts = snapshot.frame.rule_facts
    versions = facts.versions if facts is not None else None
    if not settings.placement.prefer_later_versions or versions is None:
        return np.zeros(len(snapshot.brokers), bool)
    there = np.flatnonzero(snapshot.frame.in_service).tolist()
    newest = of_newest_version({snapshot.brokers[at]: versions[at] for at in there})
    return np.array([broker not in newest for broker in snapshot.brokers], bool)


def _block_bundles(snapshot: Snapshot, settings: PolicySettings) -> Ints:
    spaces, of_space = namespaces_of(snapshot.bundles)
    system = np.array([is_system_namespace(ns) for ns in spaces], bool)[of_space]
    moved = snapshot.moved_at_ms
    in_grace = (moved > 0) & (snapshot.at_ms - moved < settings.shed.grace_period_ms)
    rules = (
        (system, Reason.EXCLUDED),
        (snapshot.in_flight, Reason.IN_FLIGHT),
        (snapshot.unowned | (snapshot.owner == NOBODY), Reason.STALE_DECISION),
        (in_grace, Reason.GRACE_PERIOD),
    )
    codes = (np.where(hit, CODES[reason], ALLOWED) for hit, reason in rules)
    return _first(*codes, _find_forbidden(snapshot.frame.forbidden, snapshot.bundles), snapshot.bundle_block)


def _find_forbidden(forbidden: Mapping[str, str], names: Sequence[str]) -> Ints:
    """[names] the reasons of those, brokers or bundles, that are among the sorted names."""
    result = np.full(len(names), ALLOWED, np.int64)
    for name, reason in forbidden.items():
        at = place_of(names, name)
        if at is not None:
            result[at] = CODES[Reason(reason)]
    return result


def _first(*blocks: Ints) -> Ints:
    """The first code of each element that is not ALLOWED."""
    result = blocks[0]
    for block in blocks[1:]:
        result = np.where(result == ALLOWED, block, result)
    return result
