"""The states of the model: tuples of small integers, and the normal form that makes equal what no rule tells apart.

A state is what the brokers share (`Shared`) and a `Member` for each of them. A member names no other broker, only its
own roles in the newest records; so exchanging brokers is exchanging members, and sorting them is the normal form. The
epochs of a bundle count by their order: they are renamed 1, 2, 3, … . Older sessions that the journal has ended are
forgotten. Parts of a state are interned: an explored state is a tuple of their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from controller.domain.ownership import State
from controller.sim.model.configuration import Configuration

# A record's state, in the order of the enumeration
FREE, ASSIGNING, OWNED, TRANSFERRING, RELEASING, SPLITTING, RETIRED = range(7)
STATES = tuple(State)
# A session's role in a record; an older session's is kept as ROLES times it
NOBODY, BY, TO, FENCER = range(4)
ROLES = 4
# What the journal says of the current session of a broker's process, and whose older session is still alive
UNREGISTERED, ALIVE, ENDED = range(3)
NO_OLDER, OF_SAME_PROCESS, OF_EARLIER_PROCESS = range(3)
# Answers
ACCEPTED, REJECTED, SERVING, RELEASED, FENCED, SPLIT_DONE = range(6)
ANSWERS = ("accepted", "rejected", "serving", "released", "fenced", "split_done")

Epochs = tuple[int, ...]  # of each bundle, a set of epochs as bits
Stored = tuple[int, ...]  # of each bundle, the store's fence; 0: none
CodedState = tuple[int, ...]  # the number of the shared part, then those of the members


class Record(NamedTuple):
    """The newest record of a bundle, without its parties."""

    state: int
    epoch: int
    released: int = 0
    fence: int = 0


class View(NamedTuple):
    """A record as one session reads it. RETIRED: the entry `split`, with role BY for the owner of the children."""

    state: int
    role: int
    epoch: int
    released: int = 0
    fence: int = 0


class Work(NamedTuple):
    """One bundle at one agent: a slot of its hand-over core, what it has heard, and a note of the model."""

    serving: int = 0
    held: int = 0
    uncertain: int = 0
    doing: int = 0
    doing_epoch: int = 0
    agreed: int = 0
    refused: int = 0
    fenced: int = 0
    waits: int = 0  # for the split of its parent
    splits: int = 0  # the journal has split it
    maybe: int = 0  # note: the epoch at which a failed split may serve it
    heard: int = 0  # that the owner has released it


class Standing(NamedTuple):
    """What the journal says of a broker. `roles`: for each bundle its role, that of its older session times ROLES."""

    session: int
    older: int
    leaving: int
    roles: tuple[int, ...]


class Answer(NamedTuple):
    """An answer in Kafka."""

    kind: int
    bundle: int
    epoch: int
    older: int = 0  # of the older session


class Member(NamedTuple):
    """A broker: its standing in the journal, what its agent has read and does, what it has sent. A process that died is
    one that has yet to register.

    `parked`: its standing by a commit of a dead controller that is still under way.
    """

    asked: int  # to leave
    hung: int  # its lease lives, and its agent does nothing any more
    standing: Standing
    parked: Standing | None
    views: tuple[View | None, ...]
    works: tuple[Work | None, ...]
    unread: tuple[tuple[int, View], ...]
    sent: tuple[Answer, ...]


class Shared(NamedTuple):
    """What belongs to no broker. Fences: those in force, those on disk, those that were confirmed to somebody."""

    records: tuple[Record | None, ...]
    in_force: Stored
    on_disk: Stored
    confirmed: Stored
    ordered: tuple[tuple[int, int], ...]  # (bundle, epoch) of the fences that the journal has ordered
    left: int  # disturbances
    parked: Record | None = None


T = TypeVar("T")


class Interned(Generic[T]):
    """Numbers for values, from 0 on."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def number(self, value: T) -> int:
        """The value's number."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found


class NormalForm:
    """Renames epochs, forgets what can no longer matter, and sorts members and twins."""

    def __init__(self, configuration: Configuration, keeps_fences: bool = False) -> None:
        """`keeps_fences`: the store may forget, so each of its fences counts by itself."""
        self.shared: Interned[Shared] = Interned()
        self.members: Interned[Member] = Interned()
        self._bundles = range(len(configuration.bundles))
        self._splits = configuration.splits
        self._twins = configuration.twins
        self._keeps_fences = keeps_fences
        self._epochs: dict[int, Epochs] = {}
        self._renamed: dict[tuple[int, Epochs], int] = {}
        self._exchanged: dict[int, int] = {}
        self._exchanged_shared: dict[int, int] = {}
        self._coded: dict[tuple[Shared, Epochs, Epochs], int] = {}

    def code(self, shared: Shared, members: Sequence[int]) -> CodedState:
        """The normal form of a state whose members have these numbers."""
        known = [0] * len(self._bundles)
        for number in members:
            for bundle, epochs in enumerate(self._epochs_of(number)):
                known[bundle] |= epochs
        of_members = tuple(known)
        used = tuple([self._with_records(shared, bundle, known[bundle]) for bundle in self._bundles])
        first = self._coded_shared(shared, of_members, used)
        for epochs in used:
            if epochs & (epochs + 2):  # they are not 1, 2, 3, …
                members = [self._rename_member(number, used) for number in members]
                break
        state = (first, *sorted(members))
        if self._twins is None:
            return state
        return min(state, (self._exchange_shared(first), *sorted([self._exchange_member(n) for n in members])))

    # ---------------------------------------------------------------- epochs

    def _with_records(self, shared: Shared, bundle: int, epochs: int) -> int:
        record = shared.records[bundle]
        if record is not None:
            epochs |= 1 << record.epoch
        if shared.parked is not None and bundle == 0:
            epochs |= 1 << shared.parked.epoch
        if self._keeps_fences:
            epochs |= (1 << shared.on_disk[bundle]) | (1 << shared.confirmed[bundle])
        return epochs & ~1

    def _coded_shared(self, shared: Shared, of_members: Epochs, used: Epochs) -> int:
        key = shared, of_members, used
        found = self._coded.get(key)
        if found is None:
            found = self._coded[key] = self.shared.number(self._rename_shared(shared, of_members, used))
        return found

    def _epochs_of(self, number: int) -> Epochs:
        """The epochs that a member knows, by bundle."""
        found = self._epochs.get(number)
        if found is None:
            member, epochs = self.members.values[number], [0] * len(self._bundles)
            for bundle, view in [*enumerate(member.views), *member.unread]:
                if view is not None:
                    epochs[bundle] |= 1 << view.epoch
                    if view.state == RETIRED and view.role == BY:
                        epochs[1:] = [known | 2 for known in epochs[1:]]  # its children begin at epoch 1
            for bundle, work in enumerate(member.works):
                if work is not None:
                    for epoch in (work.serving, work.doing_epoch, work.agreed, work.refused, work.fenced, work.maybe):
                        epochs[bundle] |= 1 << epoch
                    if work.splits:
                        epochs[1:] = [known | 2 for known in epochs[1:]]
            for answer in member.sent:
                epochs[answer.bundle] |= 1 << answer.epoch
            found = self._epochs[number] = tuple(known & ~1 for known in epochs)
        return found

    def _rename_shared(self, shared: Shared, of_members: Epochs, used: Epochs) -> Shared:
        """A fence is renamed to the next epoch in use, which it excludes as little as before."""
        records = tuple(
            record if record is None else record._replace(epoch=_rank(used[bundle], record.epoch))
            for bundle, record in enumerate(shared.records)
        )
        in_force = self._rename_fences(shared.in_force, used)
        on_disk = in_force if shared.on_disk == shared.in_force else self._rename_fences(shared.on_disk, used)
        confirmed = in_force if shared.confirmed == shared.in_force else self._rename_fences(shared.confirmed, used)
        ordered = tuple(
            sorted({(b, _rank_from(used[b], at)) for b, at in shared.ordered if self._matters(of_members, b, at)})
        )
        parked = shared.parked
        if parked is not None:
            parked = parked._replace(epoch=_rank(used[0], parked.epoch))
        return Shared(records, in_force, on_disk, confirmed, ordered, shared.left, parked)

    def _rename_fences(self, fences: Stored, used: Epochs) -> Stored:
        return tuple(_rank_from(used[bundle], epoch) if epoch else 0 for bundle, epoch in enumerate(fences))

    def _matters(self, of_members: Epochs, bundle: int, epoch: int) -> bool:
        """Whether some member still knows an epoch below this fence."""
        below = of_members[bundle] & ((1 << epoch) - 1)
        if self._splits:
            below |= of_members[0] if bundle else 0
        return bool(below)

    def _rename_member(self, number: int, used: Epochs) -> int:
        found = self._renamed.get((number, used))
        if found is None:
            member = self.members.values[number]
            found = self._renamed[number, used] = self.members.number(
                member._replace(
                    views=tuple(_rename_view(view, used[b]) for b, view in enumerate(member.views)),
                    works=tuple(_rename_work(work, used[b]) for b, work in enumerate(member.works)),
                    unread=tuple((b, view._replace(epoch=_rank(used[b], view.epoch))) for b, view in member.unread),
                    sent=tuple(one._replace(epoch=_rank(used[one.bundle], one.epoch)) for one in member.sent),
                )
            )
        return found

    # ---------------------------------------------------------------- twins

    def _exchange_member(self, number: int) -> int:
        found = self._exchanged.get(number)
        if found is None:
            member = self.members.values[number]
            found = self._exchanged[number] = self.members.number(
                member._replace(
                    standing=member.standing._replace(roles=self._exchange(member.standing.roles)),
                    views=self._exchange(member.views),
                    works=self._exchange(member.works),
                    unread=tuple((self._twin(bundle), view) for bundle, view in member.unread),
                    sent=tuple(sorted(answer._replace(bundle=self._twin(answer.bundle)) for answer in member.sent)),
                )
            )
            self._exchanged[found] = number
        return found

    def _exchange_shared(self, number: int) -> int:
        found = self._exchanged_shared.get(number)
        if found is None:
            shared = self.shared.values[number]
            found = self._exchanged_shared[number] = self.shared.number(
                shared._replace(
                    records=self._exchange(shared.records),
                    in_force=self._exchange(shared.in_force),
                    on_disk=self._exchange(shared.on_disk),
                    confirmed=self._exchange(shared.confirmed),
                    ordered=tuple(sorted((self._twin(bundle), epoch) for bundle, epoch in shared.ordered)),
                )
            )
        return found

    def _twin(self, bundle: int) -> int:
        first, second = self._twins or (0, 0)
        return {first: second, second: first}.get(bundle, bundle)

    def _exchange(self, values: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(values[self._twin(bundle)] for bundle in self._bundles)


def _rank(used: int, epoch: int) -> int:
    """The place of an epoch among those in use, from 1 on; 0 stays 0."""
    return (used & ((2 << epoch) - 1)).bit_count() if epoch else 0


def _rank_from(used: int, epoch: int) -> int:
    """The place of the first epoch in use that is not below this one."""
    return (used & ((1 << epoch) - 1)).bit_count() + 1


def _rename_view(view: View | None, used: int) -> View | None:
    return view if view is None else view._replace(epoch=_rank(used, view.epoch))


def _rename_work(work: Work | None, used: int) -> Work | None:
    if work is None:
        return None
    return work._replace(
        serving=_rank(used, work.serving),
        doing_epoch=_rank(used, work.doing_epoch),
        agreed=_rank(used, work.agreed),
        refused=_rank(used, work.refused),
        fenced=_rank(used, work.fenced),
        maybe=_rank(used, work.maybe),
    )
