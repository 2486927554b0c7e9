"""What the rules of placement ask of the journal, counted; only for what is configured."""

from __future__ import annotations

from typing import Any

import numpy as np

from controller.domain.settings.policy import PolicySettings
from controller.domain.state import ClusterState
from controller.policy.view.frame import Frame
from controller.policy.view.rule_facts import RuleFacts


def rule_facts(state: ClusterState, frame: Frame, settings: PolicySettings) -> RuleFacts | None:
    """What these settings ask for, of the brokers of the frame; None where no rule asks for anything."""
    rules = settings.placement
    grouped = [namespace for group in rules.anti_affinity for namespace in group.namespaces]
    if settings.caps.max_bundles is None and not grouped and not rules.prefer_later_versions:
        return None
    unknown = _unknown_to_the_journal(state, frame)
    held = versions = spread = None
    if settings.caps.max_bundles is not None:
        held = _added([state.holdings.total(broker) for broker in frame.brokers], unknown.values())
    if grouped:
        spread = {}
        for namespace in grouped:
            journaled = state.holdings.spread(namespace)
            counts = [journaled.get(broker, 0) for broker in frame.brokers]
            spread[namespace] = _added(counts, [unknown[namespace]] if namespace in unknown else [])
    if rules.prefer_later_versions:
        infos = (state.brokers[name].info if name in state.brokers else {} for name in frame.brokers)
        versions = tuple(str(info.get("version") or "") for info in infos)
    return RuleFacts(held, versions, spread)


def _unknown_to_the_journal(state: ClusterState, frame: Frame) -> dict[str, list[int]]:
    """Namespace -> [B] bundles that are reported (of brokers that are observed), where the journal knows none of it."""
    found: dict[str, list[int]] = {}
    owner, epoch = frame.bundle_facts[:, 0], frame.bundle_facts[:, 2]
    for at in np.flatnonzero((epoch == 0) & (owner >= 0)).tolist():
        name = frame.bundles[at]
        if name not in state.bundles:
            found.setdefault(name.rpartition("/")[0], [0] * len(frame.brokers))[int(owner[at])] += 1
    return found


def _added(counts: list[int], more: Any) -> tuple[int, ...]:
    for row in more:
        counts = [one + other for one, other in zip(counts, row, strict=True)]
    return tuple(counts)
