"""The journal says only what the parties have said.

A bundle is owned once its grantee has said `serving` at that epoch, released once its owner has said so, and split once
its owner has. Whoever leaves has said so and lives. While an owner has neither released nor ended, the next grant
orders a fence. What is missing from an inventory is not served, unless a split failed: then its agent does not know.
Told of what agents send, and of every commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.sim.ownership.invariants import list_ordered_fences

_KINDS = frozenset({"accepted", "serving", "released", "fenced", "split_done", "goodbye", "leaving"})
Serving = Mapping[Session, Mapping[Bundle, int]]


class Answers:
    """Of one run. `breach` is told of an entry that nobody's answer led to; `serving`: what each session knows that it
    serves now."""

    def __init__(self, breach: Callable[[str], None], serving: Callable[[], Serving]) -> None:
        self._breach, self._serving = breach, serving
        self._said: dict[str, set[tuple[str, str, int]]] = defaultdict(set)  # kind -> session, bundle, epoch

    def say(self, session: Session, record: Mapping[str, Any]) -> None:
        """An agent sends a broker event."""
        kind = record.get("kind")
        if kind in _KINDS:
            self._said[kind].add((str(session), str(record.get("bundle", "")), int(record.get("epoch", 0))))

    def commits(self, entries: Sequence[Entry], before: ClusterState) -> None:
        """A controller has committed these entries."""
        newest: dict[str, _Known] = {}  # by bundle, within the batch
        living = {str(session) for session in before.sessions}
        for entry in entries:
            if entry.kind is Kind.REGISTERED:
                living.add(str(entry.session))
            elif entry.kind is Kind.SESSION_ENDED:
                living.discard(str(entry.session))
                if entry.reason == "goodbye":
                    self._check("goodbye", entry.session, "", 0)
            elif entry.kind is Kind.DRAIN and entry.session:
                self._check("leaving", entry.session, "", 0)
                if entry.session not in living:
                    self._breach(f"{entry.session} counts as leaving, and has ended")
            elif entry.kind is Kind.SPLIT:
                epoch = min(int(child) for child in entry.data["children"].values()) - 1
                self._check("split_done", entry.by, entry.bundle, epoch)
                newest |= dict.fromkeys(entry.data["children"], _Known(State.OWNED.value, entry.by, epoch + 1))
            elif entry.kind is Kind.OWNERSHIP and entry.bundle:
                known = newest.get(entry.bundle) or _known(before, entry.bundle)
                self._judge(entry, known.state, known.by)
                self._judge_fence(entry, known, living)
                newest[entry.bundle] = _Known(str(entry.state), entry.by, entry.epoch or 0)

    def _judge_fence(self, entry: Entry, known: _Known, living: Collection[str]) -> None:
        """A bundle on its way is granted anew."""
        if known.state != State.RELEASING or entry.state != State.RELEASING or (entry.epoch or 0) <= known.epoch:
            return
        over = known.by is None or known.by not in living or list_ordered_fences([entry])
        if not over and not self._has_said("released", known.by, entry, known.epoch):
            self._breach(
                f"{entry.bundle} is granted at epoch {entry.epoch} without a fence, and {known.by} never released"
            )

    def _judge(self, entry: Entry, before: str, owner: str | None) -> None:
        if entry.reason == "missing_from_inventory":
            bundle = Bundle.parse(str(entry.bundle))
            served = {str(session): bundles for session, bundles in self._serving().items()}.get(str(owner), {})
            if bundle in served:
                self._breach(f"{bundle} counts as missing from an inventory, and {owner} serves it at {served[bundle]}")
        if before in (State.ASSIGNING, State.RELEASING) and entry.state == State.OWNED:
            self._check("serving", entry.by, entry.bundle, entry.epoch)
        elif entry.state == State.RELEASING and entry.data.get("released"):
            self._check("released", entry.by, entry.bundle, entry.epoch)
        elif before == State.TRANSFERRING and entry.state == State.RELEASING and not entry.reason:
            self._check("accepted", entry.to, entry.bundle, entry.epoch)
        elif before == State.RELEASING and entry.state == State.FREE and entry.reason == "released":
            self._check("released", owner, entry.bundle, entry.epoch)

    def _has_said(self, kind: str, session: str | None, entry: Entry, epoch: int) -> bool:
        return (str(session), str(entry.bundle), epoch) in self._said[kind]

    def _check(self, kind: str, session: str | None, bundle: str | None, epoch: int | None) -> None:
        if (str(session), str(bundle), epoch or 0) not in self._said[kind]:
            self._breach(f"the journal takes {kind!r} of {bundle} at epoch {epoch} for said: {session} never said it")


class _Known(NamedTuple):
    """A bundle's newest record."""

    state: str
    by: str | None
    epoch: int


def _known(state: ClusterState, name: str) -> _Known:
    record = state.bundles.get(str(Bundle.parse(name)))
    if record is None:
        return _Known("", None, 0)
    return _Known(record.state.value, str(record.by) if record.by else None, record.epoch)
