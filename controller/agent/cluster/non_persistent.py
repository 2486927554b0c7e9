"""Which bundles hold non-persistent topics: a move loses the messages of such topics that are under way.

No load report of the modular manager tells it, so a bundle's owner is asked just before a round's order would move the
bundle, and the answer is kept. Where statistics of topics are read (extensible manager), they tell it beforehand.
Bundles that are known to hold some are asked again now and then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any

from controller.domain.facts import NON_PERSISTENT, Facts, lossy_bundles
from controller.domain.ids import Bundle
from controller.domain.observed import Order

ASK_AGAIN_S = 300.0
MOST_ASKED = 10  # bundles at a time
MOST_TOLD = 2_000  # ranges of a namespace: a fact has to fit into a record
Count = Callable[[Bundle], Awaitable[int | None]]  # of a bundle's non-persistent topics; None: not known


class NonPersistentTopics:
    """What is known of the cluster's bundles. `enabled`: off, nothing is asked and no bundle is spared."""

    def __init__(self, enabled: bool, now_s: Callable[[], float]) -> None:
        self.enabled, self._now_s = enabled, now_s
        self._asked_s: dict[str, float] = {}  # bundle that holds some -> when that was found

    def spares(self, order: Order) -> bool:
        """Whether the order is not to be sent if the bundle holds some: a round wants it, and no operator."""
        return self.enabled and order.by_round

    def restore(self, facts: Facts) -> None:
        """Begin with what the journal knows; all of it is asked again soon."""
        for name in lossy_bundles(facts) if self.enabled else ():
            self._asked_s.setdefault(name, 0.0)

    def note(self, name: str, count: int | None) -> None:
        """The bundle holds so many; None: that is not known."""
        if count:
            self._asked_s[name] = self._now_s()
        elif count == 0:
            self._asked_s.pop(name, None)

    def note_stats(self, stats: Mapping[str, Mapping[str, Any]]) -> None:
        """What the statistics of a broker's bundles tell, where they do."""
        if self.enabled:
            for name, row in stats.items():
                self.note(name, row.get("nonPersistentTopics"))

    async def ask_again(self, count: Count, known: Container[str]) -> None:
        """Ask the owners of a few bundles again; forget those that are not among the `known` ones any more."""
        for name in [name for name in self._asked_s if name not in known]:
            del self._asked_s[name]
        late_s = self._now_s() - ASK_AGAIN_S
        for name in sorted(name for name, at_s in self._asked_s.items() if at_s <= late_s)[:MOST_ASKED]:
            self._asked_s[name] = self._now_s()
            self.note(name, await count(Bundle.parse(name)))

    def to_facts(self) -> dict[str, Mapping[str, Any]]:
        """One fact for each namespace with such bundles."""
        ranges: dict[str, list[str]] = {}
        for name in sorted(self._asked_s):
            namespace, _, range_ = name.rpartition("/")
            ranges.setdefault(namespace, []).append(range_)
        return {f"{NON_PERSISTENT}{namespace}": {"ranges": found[:MOST_TOLD]} for namespace, found in ranges.items()}
