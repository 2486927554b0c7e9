"""The whole cluster: three brokers, the controller, the journal and the store. What may happen next.

The controller handles one event at a time, and each is a commit; a batch of several is one of their sequences. What it
decides may also land after its death, as long as nothing else was committed. Answers may arrive late, often, in any
order, or never; entries are read in their order, late, or skipped with a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from controller.sim.model.agent import AgentRules
from controller.sim.model.configuration import (
    BROKEN_TABLE,
    DEADLINE,
    MOVE,
    RESTART,
    SPLIT,
    UNLOAD,
    Configuration,
)
from controller.sim.model.control import Change, ControlRules, Event, On, Seats
from controller.sim.model.explore import Step
from controller.sim.model.member import (
    IF_FENCED,
    IF_NOBODY_HANGS,
    IF_RELEASED,
    RAISES_FENCE,
    RAISES_FENCES_OF_CHILDREN,
    TOO_FAR_BEHIND,
    MemberRules,
    Move,
)
from controller.sim.model.promises import Sight, find_breach, find_forgotten, is_settled
from controller.sim.model.states import (
    ALIVE,
    ASSIGNING,
    BY,
    FENCER,
    FREE,
    OWNED,
    REJECTED,
    RELEASED,
    RELEASING,
    RETIRED,
    ROLES,
    SPLITTING,
    TO,
    TRANSFERRING,
    UNREGISTERED,
    Answer,
    CodedState,
    Member,
    NormalForm,
    Record,
    Shared,
    Standing,
    View,
    Work,
)
from controller.sim.model.store import StoreRules
from controller.sim.model.wording import tell_change, tell_event

IN_FLIGHT = (ASSIGNING, TRANSFERRING, RELEASING, SPLITTING)
NO_BROKER = -1
Label = tuple[int, str, Event | None]  # the broker that does it or NO_BROKER, what it does, what the controller does
Outcome = tuple[Label, int, Shared, Sequence[int], str]  # label, cost, shared part, members, what it breaks


class OwnershipModel:
    """A configuration, explored with `explore`. `early_ends`: the lease lets the controller end a session whose agent
    counts its lease as valid; `bug`: one that is planted."""

    def __init__(self, configuration: Configuration, bug: str = "", early_ends: bool = False) -> None:
        self.configuration = configuration
        self.control = ControlRules(configuration, bug)
        self.agent = AgentRules(configuration, bug)
        self._form = NormalForm(configuration, keeps_fences=bug == "fence_before_disk")
        self._shared, self._members = self._form.shared, self._form.members
        self._broker = MemberRules(configuration, self._form, self.agent)
        self._store = StoreRules(configuration, bug)
        self._bug = bug
        self._early_ends = early_ends
        self._sights: dict[int, Sight] = {}
        self._of_record: dict[tuple[int, int, int, int, Seats], tuple[tuple[Event, int, Change], ...]] = {}

    # ---------------------------------------------------------------- for `explore`

    def start(self) -> CodedState:
        """Every broker is registered; each bundle is served by its first owner, as everybody knows."""
        owners = self.configuration.owners
        numbers = []
        for broker in range(self.configuration.brokers):
            mine = [owner == broker for owner in owners]
            member = Member(
                asked=0,
                hung=0,
                standing=Standing(ALIVE, 0, 0, tuple(BY if owns else 0 for owns in mine)),
                parked=None,
                views=tuple(View(OWNED, BY, 1) if owns else None for owns in mine),
                works=tuple(Work(serving=1) if owns else None for owns in mine),
                unread=(),
                sent=(),
            )
            numbers.append(self._members.number(member))
        records = tuple(None if owner is None else Record(OWNED, 1) for owner in owners)
        fences = tuple(0 if owner is None else 1 for owner in owners)
        return self._coded(Shared(records, fences, fences, fences, (), self.configuration.disturbances), numbers)

    def code(self, state: CodedState) -> CodedState:
        """The normal form of a state."""
        return self._coded(self._shared.values[state[0]], state[1:])

    def steps(self, state: CodedState, coded: bool = True) -> list[Step]:
        """What may happen next. A deadline is a disturbance while anything else may happen without one."""
        shared, numbers = self._shared.values[state[0]], state[1:]
        found = [self._step(outcome, coded) for outcome in self._outcomes(shared, numbers)]
        here = state if coded else self.code(state)
        found = [step for step in found if step.broken or (step.state if coded else self.code(step.state)) != here]
        cost = 1 if any(step.cost == 0 for step in found) else 0
        if cost <= shared.left and DEADLINE in self.configuration.happens:
            found += [self._step(outcome, coded) for outcome in self._deadlines(shared, numbers, cost)]
        return found

    def breach(self, state: CodedState) -> str:
        """The first promise that the state breaks."""
        return find_breach(self.configuration, self._shared.values[state[0]], self._look_at(state[1:]))

    def is_settled(self, state: CodedState) -> bool:
        """Whether every bundle is served by its owner at its newest epoch, or is owned by an agent that hangs."""
        return is_settled(self._shared.values[state[0]], self._look_at(state[1:]))

    def tell(self, before: CodedState, step: Step) -> str:
        """A step in words: who does what, and what the journal then says."""
        broker, text, event = step.label
        who = f"{'ABC'[broker]} " if broker >= 0 else ""
        what = tell_event(event) if event is not None else ""
        return f"{who}{what}{text}{tell_change(*self._values(before), *self._values(step.state))}"

    # ---------------------------------------------------------------- what may happen

    def _outcomes(self, shared: Shared, numbers: Sequence[int]) -> Iterator[Outcome]:
        """Everything but deadlines, for as many disturbances as are left."""
        for broker, number in enumerate(numbers):
            for move in self._broker.moves(number):
                if move.cost <= shared.left:
                    yield from self._move(shared, numbers, broker, move)
        if shared.left and self._store.may_forget(shared):
            after = self._store.restart(shared)
            yield (NO_BROKER, "the store restarts", None), 1, after, numbers, find_forgotten(after)
        for event, cost, changes in self._events(shared, self._look_at(numbers)):
            if cost <= shared.left:
                yield from self._handle(shared, numbers, event, cost, changes)
        if shared.parked is not None:
            yield from self._land(shared, numbers, shared.parked)

    def _deadlines(self, shared: Shared, numbers: Sequence[int], cost: int) -> Iterator[Outcome]:
        event = Event(On.EXPIRES)
        for bundle, (record, seats) in self._living(shared, self._look_at(numbers)).items():
            if record.state in IN_FLIGHT:
                for change in self.control.changes(bundle, record, seats, event):
                    yield from self._handle(shared, numbers, event, cost, {bundle: change})

    def _move(self, shared: Shared, numbers: Sequence[int], broker: int, move: Move) -> Iterator[Outcome]:
        """A broker's own move, if what it needs is there."""
        after, needs, bundle, epoch = move.after, move.needs, move.bundle, move.epoch
        if needs == IF_RELEASED and not self._was_released(numbers, broker, (bundle, epoch)):
            return
        if needs == IF_FENCED and not self._store.excludes(shared.in_force, bundle, epoch):
            return
        if needs == IF_NOBODY_HANGS and any(sight.member.hung for sight in self._look_at(numbers)):
            return
        if needs == RAISES_FENCE:
            if self._store.excludes(shared.in_force, bundle, epoch):
                after = move.refused
            else:
                shared = self._store.raise_fence(shared, bundle, epoch)
        if needs == RAISES_FENCES_OF_CHILDREN:
            for child in (1, 2):
                if not self._store.excludes(shared.in_force, child, 1):
                    shared = self._store.raise_fence(shared, child, 1)
        members = (*numbers[:broker], after, *numbers[broker + 1 :])
        yield (broker, move.text, None), move.cost, shared, members, find_forgotten(shared)

    def _was_released(self, numbers: Sequence[int], broker: int, place: tuple[int, int]) -> bool:
        return any(place in sight.released for at, sight in enumerate(self._look_at(numbers)) if at != broker)

    def _living(self, shared: Shared, sights: Sequence[Sight]) -> dict[int, tuple[Record, Seats]]:
        """The bundles that may be owned, with their records and the brokers' standings."""
        return {
            bundle: (record, tuple([sight.seats[bundle] for sight in sights]))
            for bundle, record in enumerate(shared.records)
            if record is not None and record.state != RETIRED
        }

    def _events(self, shared: Shared, sights: Sequence[Sight]) -> Iterator[tuple[Event, int, Mapping[int, Change]]]:
        """What the controller may handle, what it costs, and what it writes about each bundle."""
        living = self._living(shared, sights)
        for bundle, (record, seats) in living.items():
            for event, cost, change in self._events_of_record(bundle, record, seats):
                yield event, cost, {bundle: change}
            for event in self._answers(bundle, record, sights):
                for change in self.control.changes(bundle, record, seats, event):
                    yield event, 0, {bundle: change}
        for event, cost in self._events_of_sessions(sights):
            found = {b: self.control.changes(b, record, seats, event) for b, (record, seats) in living.items()}
            if all(found.values()):
                yield event, cost, {bundle: changes[0] for bundle, changes in found.items()}

    def _events_of_record(self, bundle: int, record: Record, seats: Seats) -> tuple[tuple[Event, int, Change], ...]:
        """Placement, evacuation, commands."""
        key = (bundle, record.state, record.released, record.fence, seats)
        found = self._of_record.get(key)
        if found is None:
            happens, brokers = self.configuration.happens, range(self.configuration.brokers)
            events = [(Event(On.PLACES), 0)] if record.state == FREE else []
            if record.state == OWNED:
                events.append((Event(On.EVACUATES), 0))
                events += [(Event(On.MOVES, broker), 1) for broker in brokers if MOVE in happens]
                events += [(Event(On.UNLOADS), 1)] if UNLOAD in happens else []
                events += [(Event(On.SPLITS), 1)] if SPLIT in happens and bundle == 0 else []
            changes = self.control.changes
            found = self._of_record[key] = tuple(
                (event, cost, change) for event, cost in events for change in changes(bundle, record, seats, event)
            )
        return found

    def _answers(self, bundle: int, record: Record, sights: Sequence[Sight]) -> Iterator[Event]:
        """What agents say of the newest record."""
        for broker, sight in enumerate(sights):
            for answer in sight.member.sent:
                newest = answer.bundle == bundle and answer.epoch == record.epoch
                if newest and _is_alive(sight.member.standing, answer):
                    yield Event(On.ANSWER, broker, answer.older, answer.kind)
            if (bundle, record.epoch) in sight.missing:
                yield Event(On.LISTS, broker)

    def _events_of_sessions(self, sights: Sequence[Sight]) -> Iterator[tuple[Event, int]]:
        for broker, sight in enumerate(sights):
            standing, asked = sight.member.standing, sight.member.asked
            if standing.session == UNREGISTERED:
                yield Event(On.REGISTERS, broker), 0
            if standing.older:
                yield Event(On.ENDS, broker, older=1), 0
            if standing.session == ALIVE:
                if asked and not standing.leaving and not sight.member.hung:
                    yield Event(On.LEAVES, broker), 0
                if self._early_ends:
                    yield Event(On.ENDS, broker), 1
                if self._bug == "goodbye_before_drop" and asked:
                    yield Event(On.GOODBYE, broker), 1

    # ---------------------------------------------------------------- what the controller writes

    def _handle(
        self, shared: Shared, numbers: Sequence[int], event: Event, cost: int, changes: Mapping[int, Change]
    ) -> Iterator[Outcome]:
        """The controller handles an event and commits; or it dies in between, and the commit is still under way."""
        label = (NO_BROKER, "", event)
        broken = [f"{BROKEN_TABLE}: bundle {b}: {change.broken}" for b, change in changes.items() if change.broken]
        if broken:
            yield label, cost, shared, numbers, broken[0]
            return
        records, standings = self._write(shared, numbers, changes)
        yield from self._commit(label, cost, shared, numbers, records, standings)
        may_die = RESTART in self.configuration.happens and shared.parked is None and cost < shared.left
        if may_die and event.name not in (On.REGISTERS, On.LEAVES):
            parked = tuple(
                self._members.number(self._members.values[number]._replace(parked=standing))
                for number, standing in zip(numbers, standings, strict=True)
            )
            dies = (NO_BROKER, ", and dies before it commits", event)
            yield dies, cost + 1, shared._replace(parked=records[0]), parked, ""

    def _write(
        self, shared: Shared, numbers: Sequence[int], changes: Mapping[int, Change]
    ) -> tuple[list[Record | None], list[Standing]]:
        """The records and the standings after these changes."""
        records = list(shared.records)
        standings = [self._members.values[number].standing for number in numbers]
        for bundle, change in changes.items():
            old = records[bundle]
            epoch = (old.epoch if old is not None else 0) + change.burnt
            records[bundle] = Record(change.state, epoch, change.released, change.fence)
            for broker, seat in enumerate(change.seats):
                roles = list(standings[broker].roles)
                if change.state == RETIRED:  # the parent's owner, which may be an older session, owns the children
                    roles[1] = roles[2] = roles[bundle]
                roles[bundle] = seat.roles
                standings[broker] = Standing(seat.session, seat.older, seat.leaving, tuple(roles))
            if change.state == RETIRED:
                records[1] = records[2] = Record(OWNED, 1)
        return records, standings

    def _commit(
        self,
        label: Label,
        cost: int,
        shared: Shared,
        numbers: Sequence[int],
        records: Sequence[Record | None],
        standings: Sequence[Standing],
    ) -> Iterator[Outcome]:
        """The commit, unless somebody would have too much to read. Its compare-and-set makes that of a dead controller
        fail, if one is under way."""
        olds = [self._members.values[number] for number in numbers]
        entries: list[tuple[int, Record]] = []
        ordered = list(shared.ordered)
        for bundle, (old, new) in enumerate(zip(shared.records, records, strict=True)):
            if old is None or new is None:  # the entry about the parent tells of the children
                continue
            roles = [standing.roles[bundle] for standing in standings]
            if new != old or roles != [member.standing.roles[bundle] for member in olds]:
                entries.append((bundle, new))
            fences = new.fence or any(FENCER in (role % ROLES, role // ROLES) for role in roles)
            if fences and new.epoch > old.epoch:
                ordered.append((bundle, new.epoch))
        keeps = self._bug == "commit_without_compare"
        members = tuple(
            self._broker.tell(number, standing, old.parked if keeps else None, tuple(entries))
            for number, standing, old in zip(numbers, standings, olds, strict=True)
        )
        if TOO_FAR_BEHIND not in members:
            parked = shared.parked if keeps else None
            after = shared._replace(records=tuple(records), ordered=tuple(ordered), parked=parked)
            yield label, cost, after, members, ""

    def _land(self, shared: Shared, numbers: Sequence[int], record: Record) -> Iterator[Outcome]:
        """The commit of a dead controller is appended after all."""
        label: Label = (NO_BROKER, "the dead controller's commit lands", None)
        old = shared.records[0]
        olds = [self._members.values[number] for number in numbers]
        standings = [member.parked or member.standing for member in olds]
        if self._bug == "commit_without_compare" and old is not None:
            now = tuple(sight.seats[0] for sight in self._look_at(numbers))
            then = tuple(seat._replace(roles=standing.roles[0]) for seat, standing in zip(now, standings, strict=True))
            refusal = self.control.refuses(0, old, now, record, then) if (old, now) != (record, then) else ""
            if refusal:
                yield label, 0, shared, numbers, f"{BROKEN_TABLE}: {refusal}"
                return
        bare = [self._members.number(member._replace(parked=None)) for member in olds]
        yield from self._commit(label, 0, shared._replace(parked=None), bare, [record], standings)

    # ---------------------------------------------------------------- normal form

    def _step(self, outcome: Outcome, coded: bool) -> Step:
        label, cost, shared, members, broken = outcome
        if cost:
            shared = shared._replace(left=shared.left - cost)
        state = self._coded(shared, members) if coded else (self._shared.number(shared), *members)
        return Step(label, cost, state, broken)

    def _coded(self, shared: Shared, numbers: Sequence[int]) -> CodedState:
        sights = self._look_at(numbers)
        if any(sight.member.sent for sight in sights):
            numbers = [self._without_late_answers(shared, sights, *place) for place in enumerate(numbers)]
        return self._form.code(shared, numbers)

    def _without_late_answers(self, shared: Shared, sights: Sequence[Sight], broker: int, number: int) -> int:
        """The member without answers that neither the controller nor a grantee will act upon."""
        member = sights[broker].member
        kept = tuple([answer for answer in member.sent if self._counts(shared, sights, broker, answer)])
        return number if kept == member.sent else self._members.number(member._replace(sent=kept))

    def _counts(self, shared: Shared, sights: Sequence[Sight], broker: int, answer: Answer) -> bool:
        """Whether anybody will act upon the answer, now or once a broker is eligible."""
        if answer.kind == RELEASED:
            place = answer.bundle, answer.epoch
            if any(place in sight.awaits for sight in sights):
                return True
        record, standing = shared.records[answer.bundle], sights[broker].member.standing
        if record is None or answer.epoch != record.epoch or not _is_alive(standing, answer):
            return False
        roles = standing.roles[answer.bundle]
        if answer.kind == REJECTED and (roles // ROLES if answer.older else roles % ROLES) == TO:
            return True
        seats = tuple([sight.seats[answer.bundle] for sight in sights])
        event = Event(On.ANSWER, broker, answer.older, answer.kind)
        return bool(self.control.changes(answer.bundle, record, seats, event))

    def _look_at(self, numbers: Sequence[int]) -> list[Sight]:
        known = self._sights
        return [known[number] if number in known else self._sight(number) for number in numbers]

    def _sight(self, number: int) -> Sight:
        found = self._sights[number] = Sight.of(self._members.values[number])
        return found

    def _values(self, state: CodedState) -> tuple[Shared, list[Member]]:
        return self._shared.values[state[0]], [self._members.values[number] for number in state[1:]]


def _is_alive(standing: Standing, answer: Answer) -> bool:
    """Whether the session that has sent the answer is alive in the journal."""
    return bool(standing.older) if answer.older else standing.session == ALIVE
