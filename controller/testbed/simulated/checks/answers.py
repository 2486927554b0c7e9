"""The journal says only what the parties have said.

A bundle is owned once its grantee has said `serving` at that epoch, released once its owner has said so, and split once
its owner has. Told of what agents send, and of every commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.domain.state import ClusterState

_KINDS = frozenset({"accepted", "serving", "released", "fenced", "split_done", "goodbye"})


class Answers:
    """Of one run. `breach` is told of an entry that nobody's answer led to."""

    def __init__(self, breach: Callable[[str], None]) -> None:
        self._breach = breach
        self._said: dict[str, set[tuple[str, str, int]]] = defaultdict(set)  # kind -> session, bundle, epoch

    def say(self, session: Session, record: Mapping[str, Any]) -> None:
        """An agent sends a broker event."""
        kind = record.get("kind")
        if kind in _KINDS:
            self._said[kind].add((str(session), str(record.get("bundle", "")), int(record.get("epoch", 0))))

    def commits(self, entries: Sequence[Entry], before: ClusterState) -> None:
        """A controller has committed these entries."""
        newest: dict[str, tuple[str, str | None]] = {}  # bundle -> state and owner, within the batch
        for entry in entries:
            if entry.kind is Kind.SESSION_ENDED and entry.reason == "goodbye":
                self._check("goodbye", entry.session, "", 0)
            elif entry.kind is Kind.SPLIT:
                epoch = min(int(child) for child in entry.data["children"].values()) - 1
                self._check("split_done", entry.by, entry.bundle, epoch)
                newest |= dict.fromkeys(entry.data["children"], (State.OWNED.value, entry.by))
            elif entry.kind is Kind.OWNERSHIP and entry.bundle:
                state, by = newest.get(entry.bundle) or _known(before, entry.bundle)
                self._judge(entry, state, by)
                newest[entry.bundle] = (str(entry.state), entry.by)

    def _judge(self, entry: Entry, before: str, owner: str | None) -> None:
        if before in (State.ASSIGNING, State.RELEASING) and entry.state == State.OWNED:
            self._check("serving", entry.by, entry.bundle, entry.epoch)
        elif entry.state == State.RELEASING and entry.data.get("released"):
            self._check("released", entry.by, entry.bundle, entry.epoch)
        elif before == State.TRANSFERRING and entry.state == State.RELEASING and not entry.reason:
            self._check("accepted", entry.to, entry.bundle, entry.epoch)
        elif before == State.RELEASING and entry.state == State.FREE and entry.reason == "released":
            self._check("released", owner, entry.bundle, entry.epoch)

    def _check(self, kind: str, session: str | None, bundle: str | None, epoch: int | None) -> None:
        if (str(session), str(bundle), epoch or 0) not in self._said[kind]:
            self._breach(f"the journal takes {kind!r} of {bundle} at epoch {epoch} for said: {session} never said it")


def _known(state: ClusterState, name: str) -> tuple[str, str | None]:
    record = state.bundles.get(str(Bundle.parse(name)))
    return ("", None) if record is None else (record.state.value, str(record.by) if record.by else None)
