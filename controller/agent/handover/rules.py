"""The agent's side of the ownership table (docs/agent.md, "How an agent reads the journal"). Pure functions.

`goal` derives what a bundle's newest record demands of this session, `next_work` the next step towards it, and `answer`
the event to send once the goal is reached. A `Slot` is everything the session knows about one bundle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from controller.agent.handover.actions import Answer, Drop, Fence, Hold, Outcome, Release, Serve, Split, Work
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State


class Goal(str, Enum):
    """What is demanded of this session for one bundle."""

    SERVE = "serve"  # at exactly the record's epoch
    KEEP = "keep"  # go on serving at the old epoch
    HOLD = "hold"
    RELEASE = "release"
    FENCE = "fence"
    NONE = "none"  # neither served nor held
    SPLIT = "split"


@dataclass(slots=True)
class Slot:
    """What this session does with one bundle. `serving` (an epoch) and `held` are what the runtime confirmed."""

    bundle: Bundle
    serving: int | None = None
    held: bool = False
    uncertain: bool = False  # an action failed or was cancelled: the bundle counts as served until it is stopped
    release_failed: bool = False  # a clean release failed once: drop instead
    doing: Work | None = None
    cancelling: bool = False
    agreed_epoch: int = -1  # accepted, or started to serve, at this epoch
    refused_epoch: int = -1  # never served at this epoch
    refusal: str = ""
    fenced_epoch: int = -1
    retry_at_ms: int = 0
    children: Mapping[Bundle, int] = field(default_factory=dict)  # the journal has split this bundle
    parent: Bundle | None = None  # waits for the split of this bundle
    answer: Answer | None = None
    answered_at_ms: int = 0

    @property
    def quiet(self) -> bool:
        """Whether no part of it is or may be served or held."""
        return self.serving is None and not (self.held or self.uncertain or self.doing or self.children or self.parent)


def goal(slot: Slot, record: Ownership | None, me: Session, released: bool) -> Goal:
    """What the record demands of session `me`. `released`: the record's `by` released exactly this epoch."""
    if slot.children:
        return Goal.SPLIT
    if record is None or not record.names(me):
        return Goal.NONE
    if record.epoch == slot.refused_epoch and record.to == me:
        return Goal.NONE
    state = record.state
    if state is State.ASSIGNING:
        return Goal.SERVE
    if state is State.OWNED:
        return Goal.SERVE if slot.serving is not None else Goal.KEEP
    if state is State.TRANSFERRING:
        return Goal.KEEP if record.by == me else Goal.HOLD
    if state is State.SPLITTING:
        return Goal.KEEP
    if record.by == me:
        return Goal.RELEASE
    if record.to == me:
        return Goal.SERVE if record.fence or record.released or released else Goal.HOLD
    return Goal.FENCE


def next_work(slot: Slot, wanted: Goal, record: Ownership | None) -> Work | None:
    """The next step towards the goal; None when it is reached."""
    bundle = slot.bundle
    something = slot.serving is not None or slot.held or slot.uncertain
    if wanted is Goal.SPLIT:
        return Split(bundle, slot.children)
    if wanted is Goal.NONE or record is None:
        return Drop(bundle) if something else None
    if wanted is Goal.SERVE:
        return Serve(bundle, record.epoch) if slot.serving != record.epoch or slot.uncertain else None
    if wanted is Goal.KEEP:
        return Drop(bundle) if slot.uncertain or (slot.held and slot.serving is None) else None
    if wanted is Goal.RELEASE:
        if not something:
            return None
        return Drop(bundle) if slot.release_failed else Release(bundle, record.to)
    if slot.serving is not None or slot.uncertain:
        return Drop(bundle)
    if wanted is Goal.HOLD:
        return None if slot.held else Hold(bundle)
    return None if slot.fenced_epoch == record.epoch else Fence(bundle, record.epoch)


def answer(slot: Slot, record: Ownership | None, me: Session, serves_of_range: bool) -> Answer | None:
    """The event that the journal waits for, given that no work is left for the slot.

    `serves_of_range`: this session serves, or may serve, some of the range, also as a parent whose split failed; then
    it answers neither `rejected` nor `released`.
    """
    if record is None or slot.children or slot.parent:
        return None
    bundle, epoch = slot.bundle, record.epoch
    if record.to == me:
        if slot.refused_epoch == epoch:
            return None if serves_of_range else Answer("rejected", bundle, epoch, slot.refusal)
        if record.state is State.TRANSFERRING:
            return Answer("accepted", bundle, epoch) if slot.held else None
        return Answer("serving", bundle, epoch) if slot.serving == epoch else None
    if record.state is State.SPLITTING and record.by == me:
        return _split_answer(slot, record)
    if record.state is not State.RELEASING:
        return None
    if record.by == me:
        return Answer("released", bundle, epoch) if not serves_of_range and not record.released else None
    if record.fencer == me and slot.fenced_epoch == epoch:
        return Answer("fenced", bundle, epoch)
    return None


def _split_answer(slot: Slot, record: Ownership) -> Answer:
    bundle, at = slot.bundle, record.boundary
    if slot.serving is None:
        return Answer("rejected", bundle, record.epoch, "not_serving")
    if at is None or not bundle.lower < at < bundle.upper:
        return Answer("rejected", bundle, record.epoch, "boundary_not_inside")
    return Answer("split_done", bundle, record.epoch)


def settle(slot: Slot, work: Work, outcome: Outcome) -> None:
    """Record in the slot what the runtime confirmed."""
    if isinstance(work, Serve):
        if outcome is Outcome.FENCED:
            slot.serving, slot.uncertain = None, True
            slot.refused_epoch, slot.refusal = work.epoch, "fenced"
        else:
            slot.serving, slot.held, slot.uncertain = work.epoch, False, False
            slot.agreed_epoch = work.epoch
    elif isinstance(work, Hold):
        slot.held = True
    elif isinstance(work, Fence):
        slot.fenced_epoch = work.epoch  # a higher fence excludes the same writers
    else:
        slot.serving, slot.held, slot.uncertain = None, False, False


def in_the_way(doing: Work, wanted: Goal, record: Ownership | None) -> bool:
    """Whether running work must be cancelled because it would serve what the journal has taken back."""
    if isinstance(doing, Serve):
        stale = record is not None and doing.epoch < record.epoch
        return wanted is not Goal.KEEP and (wanted is not Goal.SERVE or stale)
    return isinstance(doing, Hold) and wanted not in (Goal.HOLD, Goal.SERVE)
