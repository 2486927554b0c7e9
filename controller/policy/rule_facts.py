"""What the rules of placement ask of the journal beside a frame's rows: exact counts, also of what nobody reports yet.

Reckoned only for what is configured, and stored with the frame, so that a replay needs no more. A grant under way
counts for its grantee, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from controller.domain.settings import PolicySettings
from controller.domain.state import ClusterState

if TYPE_CHECKING:
    from controller.policy.frame import Frame


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """[B] each, in the order of the frame's brokers; None: not asked for.

    `held`: bundles. `versions`: as brokers registered them, "" unknown. `spread`: bundles of a namespace.
    """

    held: tuple[int, ...] | None = None
    versions: tuple[str, ...] | None = None
    spread: Mapping[str, tuple[int, ...]] | None = None

    def to_json(self) -> dict[str, Any]:
        """Only what was asked for."""
        told: dict[str, Any] = {}
        if self.held is not None:
            told["held"] = list(self.held)
        if self.versions is not None:
            told["versions"] = list(self.versions)
        if self.spread is not None:
            told["spread"] = {namespace: list(counts) for namespace, counts in sorted(self.spread.items())}
        return told

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RuleFacts:
        """What `to_json` gave."""
        spread = stored.get("spread")
        return cls(
            tuple(stored["held"]) if "held" in stored else None,
            tuple(stored["versions"]) if "versions" in stored else None,
            {namespace: tuple(counts) for namespace, counts in spread.items()} if spread is not None else None,
        )


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
