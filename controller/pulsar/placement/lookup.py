"""How the modular leader answers a lookup: by affinity, then by an earlier assignment, then by a new selection.

Sources: ModularLoadManagerWrapper.getLeastLoaded, ModularLoadManagerImpl.selectBrokerForAssignment. An unload with a
destination is emulated: the leader notes the destination and unloads, and the next lookup is supposed to find it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.pulsar.placement.broker_selection import BrokerSelection
from controller.pulsar.placement.strategies import BundleToPlace, Choice
from controller.pulsar.system_namespaces import namespace_of_bundle_name, range_of_bundle_name


class LookupPlacement:
    """Answers lookups one after the other. Brokers are indices as in the selection."""

    def __init__(self, selection: BrokerSelection) -> None:
        self._selection = selection
        self._affinity: dict[str, int] = {}  # by range
        self._preallocated: dict[str, int] = {}  # by bundle name

    def unload_to(self, bundle_name: str, broker: int) -> None:
        """Note the bundle's destination and forget its earlier assignment, since it is unloaded.

        Surprise: the key of the note is only the bundle's range. If another namespace's bundle with the same range is
        looked up first, it takes the destination, and the intended bundle is placed like any other.
        """
        self._affinity[range_of_bundle_name(bundle_name)] = broker
        self._preallocated.pop(bundle_name, None)

    def assign(self, bundle_name: str, bundle: BundleToPlace, eligible: NDArray[np.bool_], topics: int = 0) -> Choice:
        """The broker that a lookup of an unowned bundle returns. The lookup uses up an affinity."""
        wanted = self._affinity.pop(range_of_bundle_name(bundle_name), None)
        if wanted is not None:
            return Choice(wanted, (wanted,))
        before = self._preallocated.get(bundle_name)
        if before is not None:
            return Choice(before, (before,))
        namespace = namespace_of_bundle_name(bundle_name)
        choice = self._selection.select(bundle, namespace, eligible)
        if choice.broker is not None:
            self._selection.note_placement(bundle, namespace, choice.broker, topics)
            self._preallocated[bundle_name] = choice.broker
        return choice

    def forget(self, bundle_name: str) -> None:
        """Drop the preallocation: a broker's report contains the bundle, or nobody owns it."""
        self._preallocated.pop(bundle_name, None)
