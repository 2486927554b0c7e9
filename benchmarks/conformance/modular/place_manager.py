"""Adapter for the whole placement of the modular manager: filters, even distribution, strategy, preallocation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.conformance.layout import knobs_of, rows_of
from benchmarks.conformance.modular.place import SEED
from benchmarks.conformance.modular.place_brokers import Brokers, both_rates
from benchmarks.conformance.values import Adapters, Case, Sentence
from controller.pulsar.placement.broker_selection import BrokerSelection
from controller.pulsar.placement.strategies import BundleToPlace, Draw, LeastLongTermMessageRate

NAMESPACE = "t/ns"
FURTHER_BUNDLES = 49  # placed after those of the case, to see where they go

_ELSEWHERE = (
    r"(?:(?:all|the) )?(?:(?P<further>\d+) )?further bundles (?:never go|do not go|go never) to the broker that got the"
    r" first bundle"
)


def place_by_manager(case: Case) -> Mapping[str, Any]:
    """Run the whole pipeline: place the case's bundles, then more of the same namespace.

    A bundle must not go to a broker above the topic limit while there are others, and must go to one of those with the
    fewest bundles of the namespace.
    """
    knobs = knobs_of(case)
    brokers = Brokers(case)
    loads = brokers.loads(knobs)
    topics = np.array([int(row.get("numTopics", row.get("topics", 0))) for row in brokers.fields.values()], np.int64)
    spread = np.zeros(len(topics), np.int64)
    lowest = LeastLongTermMessageRate(knobs, Draw(SEED))
    pipeline = BrokerSelection(
        loads, brokers.highest_usage(), topics, lambda namespace: np.zeros_like(spread), lowest, knobs
    )
    where: dict[str, str | None] = {}
    broken = []
    for name, row in [*rows_of(case, "bundles").items(), *((f"further-{at}", {}) for at in range(FURTHER_BUNDLES))]:
        open_ = topics <= knobs.load_balancer_broker_max_topics
        allowed = open_ if open_.any() else np.ones_like(open_)
        if knobs.load_balancer_distribute_bundles_evenly_enabled:
            allowed = allowed & (spread == spread[allowed].min())
        bundle = BundleToPlace(both_rates(row), name)
        at = pipeline.select(bundle, NAMESPACE, np.ones(len(topics), bool)).broker
        where[name] = None if at is None else loads.brokers[at]
        if at is None or not allowed[at]:
            broken.append(name)
        if at is not None:
            pipeline.note_placement(bundle, NAMESPACE, at, int(row.get("topics", 0)))
            topics[at] += int(row.get("topics", 0))
            spread[at] += 1
    held: bool | str = not broken or f"{broken} were placed against the filters"
    of_case = {where[name] for name in rows_of(case, "bundles")}
    if held is True and of_case & {where[name] for name in where if name.startswith("further-")}:
        held = "further bundles were placed with those of the case"
    return {"property": Sentence(_ELSEWHERE, held, {"further": FURTHER_BUNDLES}), "placed": where, **where}


ADAPTERS: Adapters = {("place", "ModularLoadManagerImpl"): place_by_manager}
