"""ModularLoadManagerImpl.selectBroker: filters, placement strategy, second chance, preallocation.

Isolation policies decide which brokers are eligible. The caller passes that mask, and the filters (`filters.py`) for
anti-affinity, manager class and version. A placed bundle counts as its broker's (preallocated) for every later
selection, as it does in Pulsar until the broker reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import BallastError
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.arrays import Ints
from controller.pulsar.load.load_data import Floats
from controller.pulsar.placement.filters import Filter
from controller.pulsar.placement.strategies import NO_CHOICE, BrokerLoads, BundleToPlace, Choice, PlacementStrategy

SYSTEM_NAMESPACE = "pulsar/system"


class BrokerSelection:
    """Chooses brokers for bundles, one after the other. Each choice passed to `note_placement` counts for the next."""

    def __init__(
        self,
        loads: BrokerLoads,
        highest_usage: Floats,
        topics: Ints,
        bundles_of_namespace: Callable[[str], Ints],
        placement: PlacementStrategy,
        knobs: PulsarKnobs,
        anti_affinity: Filter | None = None,
        filters: Sequence[Filter] = (),
    ) -> None:
        """Arrays are [B]: unweighted usage (`max_usage`), topics, and the bundles of a namespace (requested once).

        `anti_affinity` applies before the even distribution, the other filters after it.
        """
        self._loads = loads
        self._overloaded = highest_usage > knobs.load_balancer_broker_overloaded_threshold_percentage / 100.0
        self._topics = topics.copy()
        self._ask = bundles_of_namespace
        self._spread: dict[str, Ints] = {}
        self._placement = placement
        self._knobs = knobs
        self._anti_affinity = anti_affinity
        self._filters = filters

    def select(self, bundle: BundleToPlace, namespace: str, eligible: NDArray[np.bool_]) -> Choice:
        """Choose a broker among the policy-eligible ones ([B] mask). An empty namespace is not distributed evenly.

        Surprise: if the chosen broker turns out to be overloaded, all policy-eligible brokers get a second chance,
        regardless of topic limit and even distribution.
        """
        everybody = np.flatnonzero(eligible)
        if not len(everybody):
            return NO_CHOICE
        few_topics = everybody[self._topics[everybody] <= self._knobs.load_balancer_broker_max_topics]
        candidates = few_topics if len(few_topics) else everybody
        candidates = self._filter(candidates, everybody, namespace)
        choice = self._placement.select(candidates, bundle, self._loads)
        if choice.broker is not None and self._overloaded[choice.broker]:
            again = self._placement.select(everybody, bundle, self._loads)
            choice = again if again.broker is not None else choice
        return choice

    def note_placement(self, bundle: BundleToPlace, namespace: str, broker: int, topics: int = 0) -> None:
        """Count the bundle as the broker's from now on (as one of its preallocated bundles)."""
        self._loads.long_msg_rate[broker] += bundle.long_msg_rate
        self._topics[broker] += topics
        if namespace:
            self._counts(namespace)[broker] += 1

    def _filter(self, candidates: Ints, everybody: Ints, namespace: str) -> Ints:
        """Apply the filters. Surprise: if one fails or none is left, everybody is back, even above the topic limit."""
        if self._anti_affinity is not None:
            with suppress(BallastError):  # if the group is unknown, nothing is filtered
                candidates = self._apply(self._anti_affinity, candidates)
        candidates = self._least_serving(candidates, namespace)
        try:
            for one in self._filters:
                candidates = self._apply(one, candidates)
        except BallastError:
            return everybody
        return candidates if len(candidates) else everybody

    def _apply(self, one: Filter, candidates: Ints) -> Ints:
        """The candidates that pass a filter on names, in the same order."""
        names = [self._loads.brokers[at] for at in candidates.tolist()]
        left = set(one(names))
        return candidates[[name in left for name in names]]

    def _least_serving(self, candidates: Ints, namespace: str) -> Ints:
        """The candidates with the fewest bundles of the namespace (removeMostServicingBrokersForNamespace)."""
        evenly = self._knobs.load_balancer_distribute_bundles_evenly_enabled or namespace == SYSTEM_NAMESPACE
        if not evenly or not namespace or not len(candidates):
            return candidates
        held = self._counts(namespace)[candidates]
        least: Ints = candidates[held == held.min()]
        return least

    def _counts(self, namespace: str) -> Ints:
        if namespace not in self._spread:
            self._spread[namespace] = self._ask(namespace).copy()
        return self._spread[namespace]
