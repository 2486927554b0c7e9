"""How many bundles each broker holds, grants in flight counted as done. Kept current by `replace`, not recounted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from controller.domain.ownership import Ownership


class Held:
    """Counts by broker and by (broker, namespace)."""

    def __init__(self, records: Iterable[Ownership]) -> None:
        self._total: Counter[str] = Counter()
        self._by_namespace: Counter[tuple[str, str]] = Counter()
        for record in records:
            self._add(record, 1)

    def total(self, broker: str) -> int:
        """Bundles the broker owns or is about to own."""
        return self._total[broker]

    def of_namespace(self, broker: str, namespace: str) -> int:
        """The same within one namespace."""
        return self._by_namespace[broker, namespace]

    def replace(self, old: Ownership, new: Ownership) -> None:
        """A bundle's record changed."""
        self._add(old, -1)
        self._add(new, 1)

    def _add(self, record: Ownership, sign: int) -> None:
        holder = record.to or record.by
        if holder is not None:
            self._total[holder.broker] += sign
            self._by_namespace[holder.broker, record.bundle.namespace] += sign
