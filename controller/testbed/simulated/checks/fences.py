"""What the store takes was written under the fence in force: judged by the fences that it has confirmed, to anybody.

A process that recovers the files must know every one of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.engine import StoreEngine
from controller.brokers.reference.store.fences import exclusive_end
from controller.brokers.reference.store.messages import Message
from controller.brokers.reference.store.topic import Stored
from controller.domain.errors import Fenced, StoreError
from controller.domain.ids import RING_END, Bundle, namespace_of, topic_hash

STRANGER = "stranger"


class ConfirmedFences:
    """The fences that were confirmed in a run, by any process of the store."""

    def __init__(self, breach: Callable[[str], None]) -> None:
        self._breach = breach
        self._confirmed: dict[tuple[str, int, int], tuple[int, str]] = {}  # range -> newest epoch and owner

    def confirm(self, bundle: Bundle, epoch: int, owner: str) -> None:
        """A fence was raised."""
        place = bundle.namespace, bundle.lower, exclusive_end(bundle.upper)
        self._confirmed[place] = max(self._confirmed.get(place, (-1, "")), (epoch, owner))

    def check_cover(self, engine: StoreEngine) -> None:
        """The engine knows the newest fence at both ends of every range that was ever fenced."""
        in_force = engine.fences()
        for namespace, lower, upper in self._confirmed:
            for at in (lower, upper - 1):
                found = [(f.epoch, f.owner) for f in in_force if f.namespace == namespace and f.lower <= at < f.upper]
                wanted = self._over(namespace, at)
                if found != [wanted]:
                    self._breach(f"the store has the fences {found} over 0x{at:08x}, and has confirmed {wanted}")

    def check_in_force(self, engine: StoreEngine) -> None:
        """The engine knows the fences that were confirmed, and takes nothing that they exclude."""
        self.check_cover(engine)
        for namespace, lower, upper in list(self._confirmed):
            bundle = Bundle(namespace, lower, min(upper, RING_END))
            self._check_refusals(engine, bundle, *self._over(namespace, lower))

    def _check_refusals(self, engine: StoreEngine, bundle: Bundle, epoch: int, owner: str) -> None:
        """Nobody else may have the epoch in force, and the epochs before it are over."""
        attempts: list[tuple[str, Callable[[], object]]] = [
            ("acquires the epoch in force", lambda: engine.acquire(bundle, epoch, STRANGER)),
        ]
        under_it = [t for t in engine.topics(bundle) if self._over(bundle.namespace, topic_hash(t)) == (epoch, owner)]
        for topic in under_it:
            attempts += [
                ("appends", partial(engine.append, topic, epoch, STRANGER, [])),
                ("acknowledges", partial(engine.acknowledge, topic, STRANGER, epoch - 1, owner, [], 0)),
            ]
        for what, attempt in attempts:
            try:
                attempt()
            except Fenced:
                continue
            except StoreError:  # but not because of the fence
                pass
            self._breach(f"somebody else {what} in {bundle} at epoch {epoch}")

    def judge(self, what: str, topic: str, epoch: int, owner: str) -> None:
        """The store has taken this for a topic."""
        namespace, hash_ = namespace_of(topic), topic_hash(topic)
        in_force = self._over(namespace, hash_)
        if in_force != (epoch, owner):
            self._breach(f"the store takes {what} of {topic} by {owner} at epoch {epoch}, under {in_force}")

    def _over(self, namespace: str, hash_: int) -> tuple[int, str]:
        """Epoch and owner of the newest fence over a hash."""
        over = (
            fence
            for (its, lower, upper), fence in self._confirmed.items()
            if its == namespace and lower <= hash_ < upper
        )
        return max(over, default=(-1, ""))


def open_engine(
    folder: Path, clock_ms: Callable[[], int], flush: Callable[[int], None], fences: ConfirmedFences
) -> JudgedEngine:
    """Recover what is stored in the folder. Raises StoreError; the process that could not has ended then."""
    engine = JudgedEngine.__new__(JudgedEngine)
    engine.fences_confirmed = fences
    try:
        engine.__init__(folder, fsync=True, clock_ms=clock_ms, sync=flush)  # type: ignore[misc]
    except BaseException:
        if hasattr(engine, "_lock"):
            os.close(engine._lock)
        raise
    return engine


class JudgedEngine(StoreEngine):
    """The store's engine, whose answers are judged."""

    fences_confirmed: ConfirmedFences

    def acquire(self, bundle: Bundle, epoch: int, owner: str, *, tails: bool = True) -> dict[str, dict[str, object]]:
        """See `StoreEngine`."""
        found = super().acquire(bundle, epoch, owner, tails=tails)
        self.fences_confirmed.confirm(bundle, epoch, owner)
        self.fences_confirmed.check_cover(self)
        return found

    def append(self, topic: str, epoch: int, owner: str, messages: list[Message]) -> list[Stored]:
        """See `StoreEngine`."""
        stored = super().append(topic, epoch, owner, messages)
        self.fences_confirmed.judge("messages", topic, epoch, owner)
        return stored

    def acknowledge(
        self, topic: str, subscription: str, epoch: int, owner: str, ranges: list[tuple[int, int]],
        below: int | None = None,
    ) -> Cursor:  # fmt: skip
        """See `StoreEngine`."""
        cursor = super().acknowledge(topic, subscription, epoch, owner, ranges, below)
        self.fences_confirmed.judge("an acknowledgement", topic, epoch, owner)
        return cursor
