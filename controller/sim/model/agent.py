"""The agent's side: the real hand-over core on small integers, one input at a time.

A core is set up from what one agent has read and does, gets the input, and is read out again; results are cached.
Calls of the runtime that the configuration calls slow stay under way, the others are done at once. The model keeps a
note that the core does not need: whether a failed split may serve a bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from controller.agent.handover import actions as do
from controller.agent.handover.actions import Action, Cancel, Outcome
from controller.agent.handover.core import REPEAT_MS, HandoverCore
from controller.agent.handover.rules import Slot
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State
from controller.domain.state import ClusterState
from controller.sim.model.configuration import (
    DROP,
    FENCE,
    HOLD,
    NO_WORK,
    RELEASE,
    SERVE,
    SPLIT_UP,
    Configuration,
)
from controller.sim.model.states import (
    ANSWERS,
    ASSIGNING,
    BY,
    FENCER,
    FREE,
    NOBODY,
    OWNED,
    RELEASED,
    RELEASING,
    RETIRED,
    SPLITTING,
    STATES,
    TO,
    TRANSFERRING,
    Answer,
    View,
    Work,
)

ME, OTHER = Session("me:1", 1, "n", 1), Session("other:1", 1, "n", 1)
BEGUN_MS = 1_000_000
WORKS: dict[type[do.Work], int] = {
    do.Serve: SERVE,
    do.Hold: HOLD,
    do.Release: RELEASE,
    do.Drop: DROP,
    do.Fence: FENCE,
    do.Split: SPLIT_UP,
}
NAMES_NOBODY = View(FREE, NOBODY, 0)


class Knows(NamedTuple):
    """What one agent has read of each bundle, and does about it."""

    views: tuple[View | None, ...]
    works: tuple[Work | None, ...]


class Reaction(NamedTuple):
    """An agent after an input, and what it has answered."""

    knows: Knows
    said: tuple[Answer, ...]


class Input(NamedTuple):
    """An input of the core: `reads` an entry (`view`), `skips` to the newest records (`views`), `hears` that a bundle
    was released, `ends` a call of the runtime with an outcome, `loses` a bundle at a write, `repeats` its answers."""

    name: str
    bundle: int = 0
    view: View = NAMES_NOBODY
    refuses: bool = False
    outcome: Outcome = Outcome.DONE
    views: tuple[View, ...] = ()


class OpenCore(HandoverCore):
    """A hand-over core that can be set to a state and read out. `refusing`: it takes no bundle now."""

    def __init__(self, bug: str = "") -> None:
        super().__init__(ME, lambda bundle: "refused" if self.refusing else None)
        self.refusing = False
        self._bug = bug

    def set_to(
        self, slots: dict[Bundle, Slot], records: dict[str, Ownership], heard: dict[Bundle, set[tuple[int, Session]]]
    ) -> None:
        """Go on from here."""
        self._slots, self._records, self._heard = slots, records, heard
        self._retired = {b for b in slots if str(b) in records and records[str(b)].state is State.RETIRED}

    def slot(self, bundle: Bundle) -> Slot | None:
        """What it does with the bundle."""
        return self._slots.get(bundle)

    def record(self, bundle: Bundle) -> Ownership | None:
        """The newest record that it knows."""
        return self._records.get(str(bundle))

    def has_heard(self, bundle: Bundle) -> bool:
        """Whether it has heard that the owner released the bundle, at the epoch of the newest record."""
        return self._has_heard(self.record(bundle))

    def _has_unstopped_overlap(self, bundle: Bundle) -> bool:
        return self._bug != "child_released_beside_parent" and super()._has_unstopped_overlap(bundle)


class AgentRules:
    """What an agent does about an input."""

    def __init__(self, configuration: Configuration, bug: str = "") -> None:
        self.calls = 0  # of the hand-over core
        self._configuration = configuration
        self._bundles = configuration.bundles
        self._slow = configuration.slow | ({RELEASE} if bug == "released_before_stopped" else set())
        self._bug = bug
        self._known: dict[tuple[Knows, Input], Reaction] = {}

    @property
    def inputs(self) -> frozenset[str]:
        """The names of the inputs so far, calls of the runtime with their outcomes."""
        return frozenset(f"{i.name} {i.outcome.value}" if i.name == "ends" else i.name for _, i in self._known)

    def react(self, knows: Knows, given: Input) -> Reaction:
        """The agent after the input."""
        found = self._known.get((knows, given))
        if found is None:
            self.calls += 1
            found = self._known[knows, given] = self.pass_on(self.set_up(knows), knows, given)
        return found

    def set_up(self, knows: Knows) -> OpenCore:
        """A core in this state."""
        core, bundles = OpenCore(self._bug), self._bundles
        records = self._records(knows.views)
        works = {b: work for b, work in enumerate(knows.works) if work is not None}
        core.set_to(
            {bundles[b]: self._slot(b, work) for b, work in works.items()},
            records,
            {bundles[b]: {(records[str(bundles[b])].epoch, OTHER)} for b, work in works.items() if work.heard},
        )
        return core

    def pass_on(self, core: OpenCore, knows: Knows, given: Input) -> Reaction:
        """Give the core the input, carry out what it asks for, and read it out. `knows`: its state before."""
        core.refusing = given.refuses
        views, said = list(knows.views), list[Answer]()
        self._follow(core, self._give(core, given, views), said)
        works = [self._work(core, b, view, knows, given) for b, view in enumerate(views)]
        views = [view if works[b] is not None else None for b, view in enumerate(views)]
        return Reaction(Knows(tuple(views), tuple(works)), tuple(sorted(set(said))))

    # ---------------------------------------------------------------- one call of the core

    def _give(self, core: OpenCore, given: Input, views: list[View | None]) -> Sequence[Action]:
        """Give the core its input. `views` is updated to what it then has read."""
        bundle = self._bundles[given.bundle]
        slot, record = core.slot(bundle), core.record(bundle)
        match given.name:
            case "reads":
                entry = self._read(given, views)
                return core.on_entries([entry], ClusterState(bundles=self._records(views)), BEGUN_MS)
            case "skips":
                views[:] = given.views
                return core.resync(ClusterState(bundles=self._records(views)), BEGUN_MS)
            case "hears" if record is not None:
                return core.on_released(bundle, record.epoch, OTHER, BEGUN_MS)
            case "ends" if slot is not None and slot.doing is not None:
                return core.on_done(slot.doing, given.outcome, BEGUN_MS)
            case "loses":
                return core.on_lost([bundle], BEGUN_MS)
            case _:
                return core.tick(BEGUN_MS + 2 * REPEAT_MS)

    def _read(self, given: Input, views: list[View | None]) -> Entry:
        """The entry, once `views` has it."""
        view, name = given.view, str(self._bundles[given.bundle])
        views[given.bundle] = NAMES_NOBODY if view.role == NOBODY else view
        if view.state != RETIRED:
            return Entry(1, Kind.OWNERSHIP, "model", 0, 0, bundle=name)
        views[given.bundle] = View(RETIRED, NOBODY, 0)
        for child in (1, 2):
            views[child] = View(OWNED, BY, 1) if view.role == BY else NAMES_NOBODY
        by = ME if view.role == BY else OTHER
        children = {str(self._bundles[c]): self._configuration.real_epoch(c, 1) for c in (1, 2)}
        return Entry(1, Kind.SPLIT, "model", 0, 0, bundle=name, by=str(by), data={"children": children})

    def _follow(self, core: OpenCore, actions: Sequence[Action], said: list[Answer]) -> None:
        """Carry out what the core asks for, and what it then asks for."""
        for action in actions:
            if isinstance(action, do.Answer):
                bundle = self._bundles.index(action.bundle)
                said.append(Answer(ANSWERS.index(action.kind), bundle, self._small_epoch(bundle, action.epoch)))
            elif isinstance(action, Cancel):
                slot = core.slot(action.bundle)
                if slot is not None and slot.doing is not None:
                    self._follow(core, core.on_done(slot.doing, Outcome.CANCELLED, BEGUN_MS), said)
            elif not isinstance(action, do.Reopen):
                if self._bug == "released_before_stopped" and isinstance(action, do.Release):
                    self._answer_early(core, action.bundle, said)
                if WORKS[type(action)] not in self._slow:
                    self._follow(core, core.on_done(action, Outcome.DONE, BEGUN_MS), said)

    def _answer_early(self, core: OpenCore, where: Bundle, said: list[Answer]) -> None:
        bundle, record = self._bundles.index(where), core.record(where)
        if record is not None:
            said.append(Answer(RELEASED, bundle, self._small_epoch(bundle, record.epoch)))

    # ---------------------------------------------------------------- between small integers and the core's values

    def _records(self, views: Sequence[View | None]) -> dict[str, Ownership]:
        """What this agent has read, as journal records by bundle."""
        return {str(self._bundles[b]): self._record(b, view) for b, view in enumerate(views) if view is not None}

    def _record(self, bundle: int, view: View) -> Ownership:
        """The record that this agent has read. Whoever else is a party is OTHER."""
        state, role = view.state, view.role
        by: Session | None = None
        to: Session | None = None
        if state in (OWNED, TRANSFERRING, RELEASING, SPLITTING):
            by = ME if role == BY else OTHER
        if state in (ASSIGNING, TRANSFERRING) or (state == RELEASING and role != FENCER):
            to = ME if role == TO else OTHER
        where = self._bundles[bundle]
        heedless = self._bug == "serve_before_released" and state == RELEASING and role == TO
        return Ownership(
            where,
            STATES[state],
            self._configuration.real_epoch(bundle, view.epoch),
            by=by,
            to=to,
            released=bool(view.released) or heedless,
            fence=bool(view.fence),
            fencer=ME if role == FENCER else None,
            boundary=where.middle() if state == SPLITTING else None,
        )

    def _slot(self, bundle: int, work: Work) -> Slot:
        real, where = self._configuration.real_epoch, self._bundles[bundle]
        children = {self._bundles[child]: real(child, 1) for child in (1, 2)} if work.splits else {}
        doing: dict[int, do.Work] = {
            SERVE: do.Serve(where, real(bundle, work.doing_epoch)),
            HOLD: do.Hold(where),
            RELEASE: do.Release(where, None),
            DROP: do.Drop(where),
            FENCE: do.Fence(where, real(bundle, work.doing_epoch)),
            SPLIT_UP: do.Split(where, children),
        }
        return Slot(
            where,
            serving=real(bundle, work.serving) if work.serving else None,
            held=bool(work.held),
            uncertain=bool(work.uncertain),
            doing=doing.get(work.doing),
            agreed_epoch=real(bundle, work.agreed) if work.agreed else -1,
            refused_epoch=real(bundle, work.refused) if work.refused else -1,
            refusal="refused",
            fenced_epoch=real(bundle, work.fenced) if work.fenced else -1,
            children=children,
            parent=self._bundles[0] if work.waits else None,
        )

    def _work(self, core: OpenCore, bundle: int, view: View | None, knew: Knows, given: Input) -> Work | None:
        """The slot as small integers, without what can no longer matter; None if the core has none."""
        slot = core.slot(self._bundles[bundle])
        if slot is None or view is None:
            return None
        offered = view.role == TO and view.state in (ASSIGNING, TRANSFERRING)
        doing = slot.doing
        work = Work(
            self._small_epoch(bundle, slot.serving),
            int(slot.held),
            int(slot.uncertain),
            WORKS[type(doing)] if doing is not None else NO_WORK,
            self._small_epoch(bundle, doing.epoch if isinstance(doing, do.Serve | do.Fence) else None),
            agreed=self._if_of(view, bundle, slot.agreed_epoch) if offered else 0,
            refused=self._if_of(view, bundle, slot.refused_epoch) if view.role == TO else 0,
            fenced=self._if_of(view, bundle, slot.fenced_epoch) if view.role == FENCER else 0,
            waits=int(slot.parent is not None),
            splits=int(bool(slot.children)),
        )
        before = knew.works[bundle]
        if work.uncertain and not work.serving and before is not None:  # a failed split may serve a child
            failed = before.waits and given.outcome is Outcome.FAILED
            work = work._replace(maybe=1 if failed else before.maybe)
        return work._replace(heard=int(core.has_heard(self._bundles[bundle]))) if must_wait(view) else work

    def _if_of(self, view: View, bundle: int, epoch: int) -> int:
        """The view's epoch if it is this one, which the core then still compares with; else 0."""
        return view.epoch if epoch == self._configuration.real_epoch(bundle, view.epoch) else 0

    def _small_epoch(self, bundle: int, epoch: int | None) -> int:
        return 0 if epoch is None else epoch - self._configuration.real_epoch(bundle, 0)


def must_wait(view: View) -> bool:
    """Whether the grantee has to hear `released` before it serves."""
    return view.state == RELEASING and view.role == TO and not view.released and not view.fence
