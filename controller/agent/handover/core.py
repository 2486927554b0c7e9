"""The hand-over state machine of one session: journal entries and `released` events in, actions out. Pure.

Level-triggered: each bundle is driven, one action at a time, towards what its newest journal record demands.
Invariants: only bundles that their newest record grants to this very session are served; `released` counts only for
that record's epoch and `by`; an offer is `rejected` only while no part of the range is or may be served; an ended
session emits nothing but drops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from controller.agent.handover import actions as do
from controller.agent.handover.actions import Action, Answer, Cancel, Drop, Outcome, Split, Work
from controller.agent.handover.rules import Slot, answer, goal, in_the_way, next_work, settle
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State
from controller.domain.state import ClusterState

REPEAT_MS = 1_000
HEARD_KEPT = 10_000  # bundles with a `released` ahead of the journal; reached by a hostile sender only


class HandoverCore:
    """All bundles of one session. Call `end` before a new session makes its own core."""

    def __init__(
        self,
        session: Session,
        refuses: Callable[[Bundle], str | None],
        halves: Callable[[Bundle, int], Mapping[str, Any]] = lambda bundle, boundary: {},
    ) -> None:
        """`refuses`: a reason code when this broker cannot take the bundle. `halves`: the load below and above a split
        boundary, for `split_done`."""
        self.session = session
        self.ended = False
        self._refuses = refuses
        self._halves = halves
        self._slots: dict[Bundle, Slot] = {}
        self._records: Mapping[str, Ownership] = {}
        self._heard: dict[Bundle, set[tuple[int, Session]]] = {}
        self._retired: set[Bundle] = set()  # slots of split bundles: only these can overlap another slot

    # ---------------------------------------------------------------- inputs

    def on_entries(self, entries: Sequence[Entry], state: ClusterState, now_ms: int) -> list[Action]:
        """Process entries that have just been applied; `state` is the state after them."""
        if self.ended:
            return []
        self._records = state.bundles
        actions: list[Action] = []
        touched: dict[Bundle, None] = {}
        for entry in entries:
            if entry.bundle is None:
                continue
            bundle = Bundle.parse(entry.bundle)
            if entry.kind is Kind.SPLIT:
                touched.update(dict.fromkeys(self._note_split(entry, bundle)))
            elif entry.kind is Kind.OWNERSHIP:
                touched[bundle] = None
            elif entry.kind is Kind.TOPIC_UNLOAD and self._serves(bundle):
                actions.append(do.Reopen(bundle, str(entry.data["topic"])))
        for bundle in touched:
            self._forget_heard(bundle)
            self._on_change(bundle, now_ms, actions)
        return actions

    def resync(self, state: ClusterState, now_ms: int) -> list[Action]:
        """Process a state that was replaced as a whole, as after a bootstrap or when expired entries were skipped."""
        if self.ended:
            return []
        self._records = state.bundles
        actions: list[Action] = []
        mine = [r.bundle for r in state.bundles.values() if r.names(self.session)]
        for bundle in dict.fromkeys([*self._slots, *mine]):
            self._forget_heard(bundle)
            self._on_change(bundle, now_ms, actions)
        return actions

    def on_released(self, bundle: Bundle, epoch: int, by: Session, now_ms: int) -> list[Action]:
        """Process a `released` event; it may be ahead of the journal as this agent knows it."""
        record = self._records.get(str(bundle))
        if self.ended or by == self.session:
            return []
        if record is not None and (epoch < record.epoch or (epoch == record.epoch and record.to != self.session)):
            return []
        if bundle not in self._heard and len(self._heard) >= HEARD_KEPT:
            del self._heard[next(iter(self._heard))]
        self._heard.setdefault(bundle, set()).add((epoch, by))
        actions: list[Action] = []
        if bundle in self._slots:
            self._drive(self._slots[bundle], now_ms, actions)
        return actions

    def on_done(self, work: Work, outcome: Outcome, now_ms: int) -> list[Action]:
        """Process the outcome of an action on the runtime."""
        slot = self._slots.get(work.bundle)
        if self.ended or slot is None or slot.doing is not work:
            return []
        slot.doing, slot.cancelling = None, False
        actions: list[Action] = []
        if outcome in (Outcome.FAILED, Outcome.CANCELLED):
            self._on_failed(slot, work, outcome, now_ms)
        elif isinstance(work, Split):
            self._on_split_done(slot, work, now_ms, actions)
        else:
            settle(slot, work, outcome)
        self._drive(slot, now_ms, actions)
        return actions

    def on_lost(self, bundles: Iterable[Bundle], now_ms: int) -> list[Action]:
        """The runtime has stopped serving these on its own, fenced at a write; the next inventory reports it."""
        actions: list[Action] = []
        for bundle in bundles:
            slot = self._slots.get(bundle)
            if slot is not None and slot.doing is None and slot.serving is not None and not self.ended:
                slot.serving, slot.answer = None, None
                self._drive(slot, now_ms, actions)
        return actions

    def tick(self, now_ms: int) -> list[Action]:
        """Repeat unanswered answers and failed work. Call this a few times a second."""
        actions: list[Action] = []
        for slot in [] if self.ended else list(self._slots.values()):
            if slot.doing is None and slot.parent is None:
                self._drive(slot, now_ms, actions)
            if slot.answer is not None and now_ms - slot.answered_at_ms >= REPEAT_MS:
                slot.answered_at_ms = now_ms
                actions.append(slot.answer)
        return actions

    def end(self) -> list[Action]:
        """End the session: cancel everything and drop all bundles that are or may be served or held."""
        self.ended = True
        slots = list(self._slots.values())
        self._slots, self._heard = {}, {}
        cancels: list[Action] = [Cancel(s.bundle) for s in slots if s.doing is not None]
        return cancels + [Drop(b) for s in slots if not s.quiet for b in (s.bundle, *s.children)]

    # ---------------------------------------------------------------- questions

    def serving(self) -> dict[Bundle, int]:
        """The bundles that the runtime confirmed as served, with their epochs."""
        return {s.bundle: s.serving for s in self._slots.values() if s.serving is not None}

    def inventory(self) -> dict[Bundle, int]:
        """The bundles that the controller may count as served, given the applied seq: epochs and children as the
        journal has them, even while the runtime is still carrying them out."""
        result: dict[Bundle, int] = {}
        for slot in self._slots.values():
            record = self._records.get(str(slot.bundle))
            if slot.children or record is None or (slot.serving is None and slot.parent is None):
                continue
            owned = record.state is State.OWNED and record.by == self.session
            result[slot.bundle] = record.epoch if owned or slot.serving is None else slot.serving
        return result

    def waiting(self) -> list[Answer]:
        """The answers that the journal has not reacted to yet."""
        return [s.answer for s in self._slots.values() if s.answer is not None]

    def idle(self) -> bool:
        """Whether nothing is served, held or in progress."""
        return all(slot.quiet for slot in self._slots.values())

    # ---------------------------------------------------------------- inside

    def _serves(self, bundle: Bundle) -> bool:
        slot = self._slots.get(bundle)
        return slot is not None and slot.serving is not None

    def _on_change(self, bundle: Bundle, now_ms: int, actions: list[Action]) -> None:
        """The bundle has a new record, which voids the answer to the older one."""
        record = self._records.get(str(bundle))
        slot = self._slots.get(bundle)
        if slot is None:
            if record is None or not record.names(self.session):
                return
            slot = self._slots[bundle] = Slot(bundle)
        if record is not None and record.state is State.RETIRED:
            self._retired.add(bundle)
        slot.answer, slot.retry_at_ms, slot.release_failed = None, 0, False
        self._drive(slot, now_ms, actions)

    def _drive(self, slot: Slot, now_ms: int, actions: list[Action]) -> None:
        """Take the next step of one bundle towards what the journal demands."""
        record = self._records.get(str(slot.bundle))
        if slot.parent is not None:
            return
        self._accept_or_refuse(slot, record)
        wanted = goal(slot, record, self.session, self._has_heard(record))
        if slot.doing is not None:
            if in_the_way(slot.doing, wanted, record) and not slot.cancelling:
                slot.cancelling = True
                actions.append(Cancel(slot.bundle))
            return
        work = next_work(slot, wanted, record)
        if work is not None:
            blocked = isinstance(work, do.Serve | do.Hold) and self._has_unstopped_overlap(slot.bundle)
            if now_ms >= slot.retry_at_ms and not blocked:
                slot.doing, slot.answer = work, None
                actions.append(work)
            return
        self._answer(slot, record, now_ms, actions)
        if slot.quiet and slot.answer is None and (record is None or not record.names(self.session)):
            self._slots.pop(slot.bundle, None)
            self._retired.discard(slot.bundle)

    def _accept_or_refuse(self, slot: Slot, record: Ownership | None) -> None:
        """Decide once per epoch whether this broker takes a bundle that is offered to it."""
        if record is None or record.to != self.session or record.state is State.RELEASING:
            return
        if (
            slot.doing is not None
            or slot.serving is not None
            or record.epoch in (slot.agreed_epoch, slot.refused_epoch)
        ):
            return
        reason = self._refuses(slot.bundle)
        if reason is None:
            slot.agreed_epoch = record.epoch
        else:
            slot.refused_epoch, slot.refusal = record.epoch, reason

    def _answer(self, slot: Slot, record: Ownership | None, now_ms: int, actions: list[Action]) -> None:
        serves = not slot.quiet or self._has_unstopped_overlap(slot.bundle)
        said = answer(slot, record, self.session, serves)
        if said is not None and slot.answer is not None and slot.answer.kind == said.kind:
            return
        if said is None:
            slot.answer = None
            return
        if said.kind == "split_done" and record is not None and record.boundary is not None:
            said = replace(said, data=self._halves(slot.bundle, record.boundary))
        slot.answer, slot.answered_at_ms = said, now_ms
        actions.append(said)

    def _has_unstopped_overlap(self, bundle: Bundle) -> bool:
        """Whether a retired bundle that overlaps this one has not been stopped yet."""
        return any(b != bundle and b.overlaps(bundle) and not self._slots[b].quiet for b in self._retired)

    def _note_split(self, entry: Entry, parent: Bundle) -> list[Bundle]:
        """The bundles that a split entry affects; the children of a served parent wait for the runtime's split."""
        children = {Bundle.parse(name): int(epoch) for name, epoch in entry.data["children"].items()}
        slot = self._slots.get(parent)
        mine = entry.by == str(self.session)
        if slot is not None and mine and (slot.serving is not None or slot.parent is not None):
            slot.children = children
            for child in children:
                self._slots[child] = Slot(child, parent=parent)
        return [parent, *children]

    def _on_split_done(self, slot: Slot, work: Split, now_ms: int, actions: list[Action]) -> None:
        slot.serving, slot.held, slot.uncertain, slot.children = None, False, False, {}
        for child, epoch in work.children.items():
            part = self._slots[child]
            part.parent, part.serving = None, epoch
            self._drive(part, now_ms, actions)

    def _on_failed(self, slot: Slot, work: Work, outcome: Outcome, now_ms: int) -> None:
        """Schedule a retry. Unless the work only adopted an epoch (both epochs are this session's), what is served is
        uncertain now, and the slot must be stopped or served before anything else."""
        slot.uncertain = slot.uncertain or not isinstance(work, do.Serve) or slot.serving is None
        slot.release_failed = slot.release_failed or isinstance(work, do.Release)
        at_once = outcome is Outcome.CANCELLED or isinstance(work, do.Release | Split)
        slot.retry_at_ms = 0 if at_once else now_ms + REPEAT_MS
        if isinstance(work, Split):
            self._on_split_failed(slot)

    def _on_split_failed(self, slot: Slot) -> None:
        children, slot.children = slot.children, {}
        for child in children:
            part = self._slots[child]
            part.parent, part.uncertain = None, True
            self._on_split_failed(part)

    def _has_heard(self, record: Ownership | None) -> bool:
        if record is None or record.by is None:
            return False
        return (record.epoch, record.by) in self._heard.get(record.bundle, ())

    def _forget_heard(self, bundle: Bundle) -> None:
        heard, record = self._heard.get(bundle), self._records.get(str(bundle))
        if heard and record is not None:
            kept = {(e, by) for e, by in heard if e > record.epoch or (e == record.epoch and record.to == self.session)}
            if kept:
                self._heard[bundle] = kept
            else:
                del self._heard[bundle]
