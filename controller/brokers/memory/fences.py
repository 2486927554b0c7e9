"""The shared store's fence without a store: which epoch may write to which hash range.

Invariant: as in the segment store, the fence over a range only rises.
"""

from __future__ import annotations

from controller.domain.errors import Fenced
from controller.domain.ids import Bundle


class MemoryFences:
    """The highest epoch acquired, by range. Brokers of one cluster share one."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[Bundle, int]] = {}

    def excludes(self, bundle: Bundle, epoch: int) -> bool:
        """Whether an owner at this epoch can no longer write: a higher fence covers some part of the range."""
        fences = self._by_namespace.get(bundle.namespace, {})
        return any(fence > epoch and other.overlaps(bundle) for other, fence in fences.items())

    def raise_to(self, bundle: Bundle, epoch: int) -> None:
        """Exclude every writer below `epoch`. Raises Fenced when a higher fence covers some part of the range."""
        if self.excludes(bundle, epoch):
            raise Fenced(f"{bundle} has a fence above epoch {epoch}: this owner comes too late")
        self._by_namespace.setdefault(bundle.namespace, {})[bundle] = epoch
