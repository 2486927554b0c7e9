"""Hard filters: who may not give or take, which bundles may not move, each with the reason it lost by.

Judged before any preference, so that no score can outweigh them. The first rule that forbids names the reason.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Reason
from controller.domain.load import BUNDLE_FIELDS
from controller.domain.settings.policy import BrokerCaps, PolicySettings
from controller.policy.placement.isolation import of_newest_version
from controller.policy.placement.tables import bundles_held, in_service, rules_of
from controller.policy.view.costs import Floats
from controller.policy.view.frame import NOBODY, Ints, namespaces_of
from controller.policy.view.reason_codes import ALLOWED, CODES
from controller.policy.view.snapshot import Snapshot

# Pulsar's own: heartbeats (pulsar/host:port, pulsar/cluster/host:port), SLA monitors, the system namespace
_SYSTEM = re.compile(r"pulsar/system|pulsar/([^/]+/)?[^/:]+:\d+|sla-monitor/.+")
_F = {name: i for i, name in enumerate(BUNDLE_FIELDS)}


def constrain(snapshot: Snapshot, settings: PolicySettings) -> Snapshot:
    """Fill in what the journal and the configuration forbid, for sources, targets and bundles."""
    gone = np.where(snapshot.known & snapshot.alive, ALLOWED, CODES[Reason.BROKER_GONE])
    lagging = snapshot.frame.broker_facts[:, 5] == 1
    drained = (snapshot.frame.broker_facts[:, 3] == 1) | (snapshot.frame.broker_facts[:, 4] == 1)
    source = _first(gone, np.where(drained, CODES[Reason.BROKER_DRAINED], ALLOWED), snapshot.source_block)
    at_cap = over_caps(snapshot.totals, settings.caps, reached=True)
    if settings.caps.max_bundles is not None:
        at_cap |= bundles_held(snapshot) >= settings.caps.max_bundles
    target = _first(
        source,
        np.where(lagging, CODES[Reason.LAGGING], ALLOWED),
        np.where(_outdated(snapshot, settings), CODES[Reason.BROKER_VERSION], ALLOWED),
        np.where(at_cap, CODES[Reason.BROKER_CAP], ALLOWED),
        snapshot.target_block,
    )
    blocks = _bundle_block(snapshot, settings)
    snapshot = replace(snapshot, source_block=source, target_block=target, bundle_block=blocks)
    rules = rules_of(snapshot, settings)
    return snapshot if rules is None else replace(snapshot, rules=rules)


def over_caps(totals: Floats, caps: BrokerCaps, reached: bool = False) -> NDArray[np.bool_]:
    """[...] whether totals [... x F] are above a cap; with `reached` also when exactly at one."""
    result = np.zeros(totals.shape[:-1], bool)
    for value, cap in capped(totals, caps):
        result |= (value >= cap) if reached else (value > cap)
    return result


def capped(totals: Floats, caps: BrokerCaps) -> list[tuple[Floats, int]]:
    """What has a cap, of totals [... x F], and the cap."""
    measured = (
        (totals[..., _F["topics"]], caps.max_topics),
        (totals[..., _F["storage_bytes"]] + totals[..., _F["cache_bytes"]], caps.max_bundle_memory_bytes),
        (totals[..., _F["throughput_in"]] + totals[..., _F["throughput_out"]], caps.max_throughput_bytes_per_s),
    )
    return [(value, cap) for value, cap in measured if cap is not None]


def is_system_namespace(namespace: str) -> bool:
    """Whether the brokers need it where it is: heartbeats, SLA monitors, system topics."""
    return _SYSTEM.fullmatch(namespace) is not None


def _outdated(snapshot: Snapshot, settings: PolicySettings) -> NDArray[np.bool_]:
    """[B] whose version is not the newest of those in service, where only the newest is to be used."""
    facts = snapshot.frame.rule_facts
    versions = facts.versions if facts is not None else None
    if not settings.placement.prefer_later_versions or versions is None:
        return np.zeros(len(snapshot.brokers), bool)
    there = np.flatnonzero(in_service(snapshot)).tolist()
    newest = of_newest_version({snapshot.brokers[at]: versions[at] for at in there})
    return np.array([broker not in newest for broker in snapshot.brokers], bool)


def _bundle_block(snapshot: Snapshot, settings: PolicySettings) -> Ints:
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
    return _first(*(np.where(hit, CODES[reason], ALLOWED) for hit, reason in rules), snapshot.bundle_block)


def _first(*blocks: Ints) -> Ints:
    """Element by element the first code that is not ALLOWED."""
    result = blocks[0]
    for block in blocks[1:]:
        result = np.where(result == ALLOWED, block, result)
    return result
