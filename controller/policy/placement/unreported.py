"""Bundles that nobody reports, yet that the journal has where isolation forbids them: rounds must see them, too.

A report names a broker's largest bundles and adds up the rest, so an idle bundle in the wrong place might never be
named. Such ones join the frame without rows: they cost nothing, as far as anybody knows.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import numpy as np

from controller.domain.settings.policy import PolicySettings
from controller.domain.state import ClusterState
from controller.policy.placement.isolation import isolation_of
from controller.policy.view.frame import BUNDLE_FACTS, Frame, ownership_facts

MOST_ADDED = 1_000  # by name; a round brings home far fewer


def with_misplaced(state: ClusterState, frame: Frame, settings: PolicySettings) -> Frame:
    """The frame with the misplaced bundles that it lacks; the same frame where no isolation is configured."""
    if not settings.placement.isolation:
        return frame
    reported = set(frame.bundles)
    added = [name for name in _misplaced(state, frame, settings) if name not in reported]
    return _joined(state, frame, sorted(added)[:MOST_ADDED]) if added else frame


def _misplaced(state: ClusterState, frame: Frame, settings: PolicySettings) -> list[str]:
    isolation = isolation_of(settings.placement.isolation)
    out_of_service = frame.broker_facts[:, 3:6].any(axis=1)
    there = (frame.broker_facts[:, 1:3] == 1).all(axis=1) & ~out_of_service
    available = [broker for broker, is_there in zip(frame.brokers, there.tolist(), strict=True) if is_there]
    homes: dict[int, set[str]] = {}
    found = []
    for namespace, bundles in state.namespaces.items():
        kind = isolation.kind_of(namespace)
        if kind not in homes:
            homes[kind] = {*isolation.allowed(kind, available), *isolation.at_home(kind, frame.brokers)}
        wrong = state.holdings.spread(namespace).keys() - homes[kind]
        if wrong:
            records = ((str(bundle), state.bundles[str(bundle)]) for bundle in bundles)
            found += [name for name, record in records if record.by is not None and record.by.broker in wrong]
    return found


def _joined(state: ClusterState, frame: Frame, added: list[str]) -> Frame:
    index = {broker: at for at, broker in enumerate(frame.brokers)}
    facts = np.array([ownership_facts(state.bundles[name], index) for name in added], np.int64)
    places = np.array([bisect_left(frame.bundles, name) for name in added], np.int64)
    shift = np.searchsorted(places, np.arange(len(frame.bundles)), side="right")
    rows = frame.row_facts.copy()
    rows[:, 0] += shift[rows[:, 0]]
    return replace(
        frame,
        bundles=tuple(sorted((*frame.bundles, *added))),
        bundle_facts=np.insert(frame.bundle_facts, places, facts.reshape(len(added), len(BUNDLE_FACTS)), axis=0),
        row_facts=rows,
    )
