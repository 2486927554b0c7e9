"""What one broker may do by itself: its process, its sessions, its agent. What it needs of others is a condition.

A session whose lease has lapsed serves nothing, sends nothing and never comes back; so a lapse is the end of everything
that the session read and did. What it has sent may have reached Kafka or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from controller.agent.handover.actions import Outcome
from controller.sim.model.agent import NAMES_NOBODY, AgentRules, Input, Knows, must_wait
from controller.sim.model.configuration import (
    DROP,
    FAILED_SPLIT,
    FENCE,
    HANG,
    KILL,
    LAPSE,
    LEAVE,
    REFUSE,
    RELEASE,
    SERVE,
    SNAPSHOT,
    SPLIT_UP,
    Configuration,
)
from controller.sim.model.states import (
    ALIVE,
    ASSIGNING,
    BY,
    ENDED,
    FENCER,
    NOBODY,
    OF_EARLIER_PROCESS,
    OF_SAME_PROCESS,
    RETIRED,
    ROLES,
    STATES,
    TO,
    TRANSFERRING,
    UNREGISTERED,
    Member,
    NormalForm,
    Record,
    Standing,
    View,
)

TOO_FAR_BEHIND = -1
# What a move depends on
NOTHING, IF_RELEASED, IF_FENCED, IF_NOBODY_HANGS, RAISES_FENCE, RAISES_FENCES_OF_CHILDREN = range(6)


class Move(NamedTuple):
    """What a broker may do. `cost`: disturbances; `after`: the number of the member it then is; `refused`: the one if
    the store has a higher fence."""

    text: str
    cost: int
    after: int
    needs: int = NOTHING
    bundle: int = 0
    epoch: int = 0
    refused: int = -1


class MemberRules:
    """The moves of a member, and how it gets new entries."""

    def __init__(self, configuration: Configuration, form: NormalForm, agent: AgentRules) -> None:
        self._configuration = configuration
        self._happens = configuration.happens
        self._members = form.members
        self._agent = agent
        self._nothing = (None,) * len(configuration.bundles)
        self._moves: dict[int, tuple[Move, ...]] = {}
        self._told: dict[tuple[int, Standing, Standing | None, tuple[tuple[int, Record], ...]], int] = {}

    def moves(self, number: int) -> tuple[Move, ...]:
        """What the member may do."""
        found = self._moves.get(number)
        if found is None:
            member = self._members.values[number]
            every = [*self._agent_moves(member), *self._process_moves(member)]
            found = self._moves[number] = tuple(move for move in every if move.after != number)
        return found

    def tell(
        self, number: int, standing: Standing, parked: Standing | None, entries: tuple[tuple[int, Record], ...]
    ) -> int:
        """The member once these entries are committed; TOO_FAR_BEHIND if it would have too many to read."""
        key = (number, standing, parked, entries)
        found = self._told.get(key)
        if found is None:
            found = self._told[key] = self._add(self._members.values[number], standing, parked, entries)
        return found

    # ---------------------------------------------------------------- the agent

    def _agent_moves(self, member: Member) -> Iterator[Move]:
        if member.hung or member.standing.session == UNREGISTERED:
            return
        yield from self._read(member)
        for bundle, (view, work) in enumerate(zip(member.views, member.works, strict=True)):
            if view is None or work is None:
                continue
            where = self._name(bundle)
            if work.doing:
                yield from self._end_work(member, bundle)
            if must_wait(view) and not work.heard and work.refused != view.epoch:
                text = f"hears `released` of epoch {view.epoch}{where}"
                yield Move(text, 0, self._after(member, Input("hears", bundle)), IF_RELEASED, bundle, view.epoch)
            if work.serving and not work.doing:
                text = f"is refused an append at epoch {work.serving}{where} and stops"
                yield Move(text, 0, self._after(member, Input("loses", bundle)), IF_FENCED, bundle, work.serving)
        yield Move("goes on", 0, self._after(member, Input("repeats")))

    def _read(self, member: Member) -> Iterator[Move]:
        if not member.unread:
            return
        (bundle, view), rest = member.unread[0], member.unread[1:]
        reader = member._replace(unread=rest)
        text = f"reads {_describe(view)}{self._name(bundle)}"
        yield Move(text, 0, self._after(reader, Input("reads", bundle, view)))
        offered = view.role == TO and view.state in (ASSIGNING, TRANSFERRING)
        if offered and not member.asked and REFUSE in self._happens:
            yield Move(f"{text} and refuses", 1, self._after(reader, Input("reads", bundle, view, refuses=True)))
        if SNAPSHOT in self._happens and rest:
            newest = {**dict(enumerate(member.views)), **dict(member.unread)}
            views = tuple(newest[b] or NAMES_NOBODY for b in range(len(member.views)))
            skipper = member._replace(unread=())
            yield Move("reads the newest snapshot", 0, self._after(skipper, Input("skips", views=views)))

    def _end_work(self, member: Member, bundle: int) -> Iterator[Move]:
        """A call of the runtime ends."""
        work, where = member.works[bundle], self._name(bundle)
        assert work is not None
        done = self._after(member, Input("ends", bundle, outcome=Outcome.DONE))
        if work.doing in (SERVE, FENCE):
            text = f"{'serves' if work.doing == SERVE else 'raises the fence'} at epoch {work.doing_epoch}{where}"
            refused = self._after(member, Input("ends", bundle, outcome=Outcome.FENCED))
            yield Move(text, 0, done, RAISES_FENCE, bundle, work.doing_epoch, refused)
        elif work.doing == SPLIT_UP:
            yield Move("serves the children", 0, done, RAISES_FENCES_OF_CHILDREN)
            if FAILED_SPLIT in self._happens:
                yield Move("fails to split", 1, self._after(member, Input("ends", bundle, outcome=Outcome.FAILED)))
        elif work.doing in (RELEASE, DROP):
            yield Move(f"stops serving{where}", 0, done)

    def _after(self, member: Member, given: Input) -> int:
        if member.asked:  # a broker that leaves takes no further bundles
            given = given._replace(refuses=True)
        reaction = self._agent.react(Knows(member.views, member.works), given)
        sent = member.sent
        if not set(sent).issuperset(reaction.said):
            sent = tuple(sorted({*sent, *reaction.said}))
        return self._number(member._replace(views=reaction.knows.views, works=reaction.knows.works, sent=sent))

    # ---------------------------------------------------------------- the process and its sessions

    def _process_moves(self, member: Member) -> Iterator[Move]:
        session, older = member.standing.session, member.standing.older
        if session == ENDED:
            yield Move("reads that its session has ended and drops everything", 0, self._next_session(member))
        if LAPSE in self._happens and session == ALIVE and not older:
            text = "loses its lease and drops everything"
            yield Move(text, 1, self._next_session(member))
            if member.sent:
                yield Move(f"{text}; what it sent is lost", 1, self._next_session(member, lost=True))
        if KILL in self._happens and (not older if session == ALIVE else older == OF_SAME_PROCESS):
            yield Move("is killed", 1, self._next_session(member, dies=True))
            if member.sent:
                yield Move("is killed; what it sent is lost", 1, self._next_session(member, dies=True, lost=True))
        if HANG in self._happens and session == ALIVE:
            yield Move(
                "hangs, and its lease lives on", 1, self._number(member._replace(hung=1, unread=())), IF_NOBODY_HANGS
            )
        if LEAVE in self._happens and session == ALIVE and not member.hung:
            if not member.asked:
                yield Move("is asked to leave", 1, self._number(member._replace(asked=1)))
            elif member.standing.leaving and not older and member.works == self._nothing:
                yield Move("has left", 0, self._next_session(member, dies=True))

    def _next_session(self, member: Member, dies: bool = False, lost: bool = False) -> int:
        """The member whose session is over: it knows, serves and holds nothing. A process that dies has a successor,
        which registers at some time, or never."""
        registered = member.standing.session == ALIVE
        kept = [answer for answer in member.sent if answer.older or not lost]
        return self._number(
            Member(
                asked=0 if dies else member.asked,
                hung=0,
                standing=_make_older(member.standing, dies),
                parked=_make_older(member.parked, dies) if member.parked is not None else None,
                views=self._nothing,
                works=self._nothing,
                unread=(),
                sent=tuple(sorted({a._replace(older=1) if registered else a for a in kept})),
            )
        )

    # ---------------------------------------------------------------- new entries

    def _add(
        self, member: Member, standing: Standing, parked: Standing | None, entries: tuple[tuple[int, Record], ...]
    ) -> int:
        unread = list(member.unread)
        if standing.session != UNREGISTERED and not member.hung:
            for bundle, record in entries:
                view = _view(record, standing, bundle)
                follows = member.works[bundle] is not None or any(
                    b == bundle or (v.state == RETIRED and v.role == BY) for b, v in unread
                )
                last = next((v for b, v in reversed(unread) if b == bundle), member.views[bundle])
                if view.role != NOBODY or (follows and view != last):
                    unread.append((bundle, view))
        if len(unread) > self._configuration.unread:
            return TOO_FAR_BEHIND
        return self._number(member._replace(standing=standing, parked=parked, unread=tuple(unread)))

    def _number(self, member: Member) -> int:
        """The member's number, without entries that it will read to no effect."""
        unread = member.unread
        while unread and unread[0][1].role == NOBODY and member.works[unread[0][0]] is None:
            unread = unread[1:]
        return self._members.number(member if unread is member.unread else member._replace(unread=unread))

    def _name(self, bundle: int) -> str:
        return "" if len(self._configuration.bundles) == 1 else f" of bundle {bundle}"


def _make_older(standing: Standing, dies: bool) -> Standing:
    """The standing when the current session becomes the older one, or is forgotten as the journal does not know it."""
    if standing.session == ALIVE:
        older = OF_EARLIER_PROCESS if dies else OF_SAME_PROCESS
        return Standing(UNREGISTERED, older, standing.leaving, tuple(roles % ROLES * ROLES for roles in standing.roles))
    older = OF_EARLIER_PROCESS if dies and standing.older else standing.older
    return Standing(UNREGISTERED, older, standing.leaving, tuple(roles // ROLES * ROLES for roles in standing.roles))


def _view(record: Record, standing: Standing, bundle: int) -> View:
    """The record as the broker's current session reads it, without what means nothing in its role."""
    role = standing.roles[bundle] % ROLES
    if record.state == RETIRED:
        return View(RETIRED, BY if standing.roles[bundle + 1] % ROLES == BY else NOBODY, 0)
    if role == NOBODY:
        return NAMES_NOBODY
    released = 0 if record.fence or role == FENCER else record.released
    return View(record.state, role, record.epoch, released, record.fence if role == TO else 0)


def _describe(view: View) -> str:
    state = "`split`" if view.state == RETIRED else f"`{STATES[view.state].value}`"
    role = {NOBODY: ", which names it not", BY: " by itself", TO: " to itself", FENCER: " with itself as fencer"}
    more = " and the order to fence" if view.fence else " and that it is released" if view.released else ""
    return f"{state}{role[view.role]}{more}" + (f", epoch {view.epoch}" if view.epoch else "")
