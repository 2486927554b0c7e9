"""A journal written by hand and agents' cores that read it: the stage of the hand-over tests.

`MiniController` follows the ownership table just far enough to play against the cores; it never fences, so that
nothing but the protocol itself keeps two agents from serving one range.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from controller.agent.handover import actions as do
from controller.agent.handover.actions import Answer, Cancel, Outcome, Work
from controller.agent.handover.core import HandoverCore
from controller.agent.session.registration import next_session
from controller.domain.apply import apply_in_place
from controller.domain.entries import Entry, Kind
from controller.domain.ids import RING_END, Bundle, Session
from controller.domain.ownership import Ownership, State
from controller.domain.state import ClusterState

NAMESPACE = "t/n"
WHOLE = Bundle(NAMESPACE, 0, RING_END)


class Journal:
    """Entries and the state after all of them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.state = ClusterState()

    def add(self, kind: Kind, **fields: Any) -> Entry:
        entry = Entry(len(self.entries) + 1, kind, "test", 0, 0, **fields)
        apply_in_place(self.state, entry)
        self.entries.append(entry)
        return entry

    def register(self, session: Session) -> Entry:
        return self.add(Kind.REGISTERED, broker=session.broker, session=str(session))

    def leave(self, session: Session) -> Entry:
        return self.add(Kind.DRAIN, broker=session.broker, session=str(session), data={"leaving": True})

    def namespace(self, *bundles: Bundle) -> Entry:
        names = [str(b) for b in bundles or (WHOLE,)]
        return self.add(Kind.NAMESPACE_CREATED, data={"namespace": NAMESPACE, "bundles": names})

    def own(
        self,
        state: State,
        epoch: int,
        by: Session | None = None,
        to: Session | None = None,
        bundle: Bundle = WHOLE,
        **data: Any,
    ) -> Entry:
        return self.add(
            Kind.OWNERSHIP,
            bundle=str(bundle),
            state=state.value,
            epoch=epoch,
            by=str(by) if by else None,
            to=str(to) if to else None,
            data=data,
        )

    def record(self, bundle: Bundle = WHOLE) -> Ownership:
        return self.state.bundles[str(bundle)]


@dataclass
class ModelAgent:
    """A core with a runtime whose calls end when the test says so."""

    session: Session
    refusals: dict[Bundle, str] = field(default_factory=dict)
    lease: bool = True
    applied: int = 0
    state: ClusterState = field(default_factory=ClusterState)
    served: dict[Bundle, int] = field(default_factory=dict)
    running: dict[Bundle, Work] = field(default_factory=dict)
    cancelled: set[Bundle] = field(default_factory=set)
    said: list[Answer] = field(default_factory=list)
    now_ms: int = 0

    def __post_init__(self) -> None:
        self.core = HandoverCore(self.session, self.refusals.get)

    def read(self, journal: Journal, count: int | None = None) -> list[do.Action]:
        """Apply the next entries as one batch; what the core asked for is begun."""
        end = len(journal.entries) if count is None else min(self.applied + count, len(journal.entries))
        batch = journal.entries[self.applied : end]
        for entry in batch:
            apply_in_place(self.state, entry)
        self.applied = end
        return self.begin(self.core.on_entries(batch, self.state, self.now_ms))

    def hear(self, bundle: Bundle, epoch: int, by: Session) -> list[do.Action]:
        return self.begin(self.core.on_released(bundle, epoch, by, self.now_ms))

    def tick(self, ms: int = 1_000) -> list[do.Action]:
        self.now_ms += ms
        return self.begin(self.core.tick(self.now_ms))

    def begin(self, actions: list[do.Action]) -> list[do.Action]:
        for action in actions:
            if isinstance(action, Answer):
                self.said.append(action)
            elif isinstance(action, Cancel):
                assert action.bundle in self.running, "nothing runs that could be cancelled"
                self.cancelled.add(action.bundle)
            elif not isinstance(action, do.Reopen):
                assert action.bundle not in self.running, "two actions at once on one bundle"
                self.running[action.bundle] = action
        return actions

    def finish(self, bundle: Bundle = WHOLE, outcome: Outcome = Outcome.DONE, effect: bool = True) -> list[do.Action]:
        """The runtime's call on the bundle ends. `effect`: whether a call that failed took effect all the same."""
        work = self.running.pop(bundle)
        self.cancelled.discard(bundle)
        if outcome is Outcome.DONE or (effect and outcome is not Outcome.FENCED):
            self._take_effect(work)
        return self.begin(self.core.on_done(work, outcome, self.now_ms))

    def settle(self) -> None:
        """Finish everything that runs, until nothing does."""
        while self.running:
            self.finish(next(iter(self.running)))

    def expire(self) -> None:
        """The lease expired: drop all, start the next session."""
        dropped = [a.bundle for a in self.core.end() if isinstance(a, do.Drop)]
        assert set(self.served) <= set(dropped), "the core forgot what it served"
        self.served.clear()
        self.running.clear()
        self.cancelled.clear()
        self.session = next_session(self.session)
        self.core = HandoverCore(self.session, self.refusals.get)
        self.begin(self.core.resync(self.state, self.now_ms))

    def _take_effect(self, work: Work) -> None:
        match work:
            case do.Serve(bundle, epoch):
                self.served[bundle] = epoch
            case do.Release(bundle, _) | do.Drop(bundle):
                self.served.pop(bundle, None)
            case do.Split(parent, children):
                assert parent in self.served, "split of a bundle that is not served"
                del self.served[parent]
                self.served.update(children)
            case _:
                pass


class MiniController:
    """The controller's side of the table: answers and session ends in, entries out."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def answered(self, session: Session, said: Answer) -> None:
        record = self.journal.state.bundles.get(str(said.bundle))
        if record is None or not self.journal.state.alive(session) or said.epoch != record.epoch:
            return
        own, state = self.journal.own, record.state
        key = (state, said.kind, "to" if session == record.to else "by" if session == record.by else "")
        match key:
            case (State.ASSIGNING | State.RELEASING, "serving", "to"):
                own(State.OWNED, record.epoch, by=session, bundle=record.bundle)
            case (State.ASSIGNING, "rejected", "to"):
                own(State.FREE, record.epoch, bundle=record.bundle)
            case (State.TRANSFERRING, "accepted", "to"):
                own(State.RELEASING, record.epoch, record.by, session, record.bundle)
            case (State.TRANSFERRING, "rejected", "to"):
                own(State.OWNED, record.epoch + 1, record.by, bundle=record.bundle)
            case (State.RELEASING, "released", "by"):
                if record.to is None:
                    own(State.FREE, record.epoch, bundle=record.bundle)
                else:
                    own(State.RELEASING, record.epoch, record.by, record.to, record.bundle, released=True)
            case (State.SPLITTING, "split_done", "by"):
                self._split(record)
            case (State.SPLITTING, "rejected", "by"):
                own(State.OWNED, record.epoch + 1, record.by, bundle=record.bundle)

    def ended(self, session: Session) -> None:
        """The session's lease ran out: leave every state that names it, then end it."""
        for record in list(self.journal.state.bundles.values()):
            if record.names(session):
                self._ended(record, session)
        self.journal.add(Kind.SESSION_ENDED, broker=session.broker, session=str(session), reason="lease")

    def _ended(self, record: Ownership, session: Session) -> None:
        own, bundle, next_epoch = self.journal.own, record.bundle, record.epoch + 1
        if record.state is State.TRANSFERRING and session == record.to:
            own(State.OWNED, next_epoch, record.by, bundle=bundle)
        elif record.state is State.RELEASING and session == record.to:
            own(State.ASSIGNING, next_epoch, to=record.by, bundle=bundle)
        elif record.state is State.RELEASING and record.to is not None:
            own(State.ASSIGNING, next_epoch, to=record.to, bundle=bundle)
        else:
            own(State.FREE, record.epoch, bundle=bundle)

    def _split(self, record: Ownership) -> None:
        assert record.boundary is not None
        children = {str(b): record.epoch + 1 for b in record.bundle.split_at(record.boundary)}
        self.journal.add(Kind.SPLIT, bundle=str(record.bundle), by=str(record.by), data={"children": children})
