"""What the modular leader answers a lookup: affinity first, then what it has assigned before, then a new selection.

Sources: ModularLoadManagerWrapper.getLeastLoaded, ModularLoadManagerImpl.selectBrokerForAssignment. An unload with a
destination is emulated: the leader notes the destination and unloads; the next lookup is meant to find it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.pulsar.placement.broker_selection import BrokerSelection
from controller.pulsar.placement.strategies import Bundle, Choice
from controller.pulsar.system_namespaces import namespace_of_bundle_name, range_of_bundle_name


class LookupPlacement:
    """Answers lookups one after the other. Brokers are indices as in the selection."""

    def __init__(self, selection: BrokerSelection) -> None:
        self._selection = selection
        self._affinity: dict[str, int] = {}  # by range
        self._preallocated: dict[str, int] = {}  # by bundle name

    def unload_to(self, bundle_name: str, broker: int) -> None:
        """Note where the bundle is to go. What was assigned to it before no longer counts: it is unloaded.

        Surprise: the note is kept under the bundle's range alone. Another namespace's bundle with the same range that
        is looked up first takes the destination, and the one it was meant for is placed like any other.
        """
        self._affinity[range_of_bundle_name(bundle_name)] = broker
        self._preallocated.pop(bundle_name, None)

    def assign(self, bundle_name: str, bundle: Bundle, eligible: NDArray[np.bool_], topics: int = 0) -> Choice:
        """The broker that a lookup of an unowned bundle is told. An affinity is used up by it."""
        wanted = self._affinity.pop(range_of_bundle_name(bundle_name), None)
        if wanted is not None:
            return Choice(wanted, (wanted,))
        before = self._preallocated.get(bundle_name)
        if before is not None:
            return Choice(before, (before,))
        namespace = namespace_of_bundle_name(bundle_name)
        choice = self._selection.select(bundle, namespace, eligible)
        if choice.broker is not None:
            self._selection.placed(bundle, namespace, choice.broker, topics)
            self._preallocated[bundle_name] = choice.broker
        return choice

    def reported(self, bundle_name: str) -> None:
        """A broker's report shows the bundle, or nobody owns it: it is no longer preallocated."""
        self._preallocated.pop(bundle_name, None)
