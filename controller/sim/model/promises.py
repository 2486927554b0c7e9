"""The promises that every state is held to, and what of a member they depend on, computed once for each member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from controller.sim.model.agent import must_wait
from controller.sim.model.configuration import FORGOTTEN_FENCE, TOO_EARLY, TWO_SERVERS, Configuration
from controller.sim.model.control import Seat
from controller.sim.model.states import BY, OWNED, RELEASED, RETIRED, ROLES, UNREGISTERED, Member, Shared
from controller.sim.ownership.invariants import is_fenced_apart

Place = tuple[int, int]  # a bundle and an epoch


@dataclass(frozen=True, slots=True)
class Sight:
    """A member from outside."""

    member: Member
    seats: tuple[Seat, ...]
    servers: tuple[Place, ...]  # what it serves, or may serve
    owned: frozenset[Place]  # what it serves and owns according to the journal
    released: frozenset[Place]  # the answers `released` that it has sent
    awaits: frozenset[Place]  # the ones that it waits for, or will
    missing: frozenset[Place]  # what its inventory lacks although it owns it by the newest record, which it has read
    served_early: int  # a bundle that it serves although it was neither released nor is to be fenced; -1: none

    @classmethod
    def of(cls, member: Member) -> Sight:
        """Look at the member."""
        standing = member.standing
        seats = tuple(Seat(standing.session, standing.older, standing.leaving, roles) for roles in standing.roles)
        sent = frozenset((answer.bundle, answer.epoch) for answer in member.sent if answer.kind == RELEASED)
        if standing.session == UNREGISTERED:
            return cls(member, seats, (), frozenset(), sent, frozenset(), frozenset(), -1)
        unread = {bundle for bundle, _ in member.unread}
        awaits = {(bundle, view.epoch) for bundle, view in member.unread if must_wait(view)}
        servers: list[Place] = []
        missing: set[Place] = set()
        early = -1
        for bundle, (view, work) in enumerate(zip(member.views, member.works, strict=True)):
            if view is None or work is None:
                continue
            if work.serving or work.maybe:
                servers.append((bundle, work.serving or work.maybe))
            if must_wait(view) and not work.heard and not member.hung:
                awaits.add((bundle, view.epoch))
                early = bundle if work.serving == view.epoch else early
            listed = work.serving or work.waits  # in its inventory
            owns = view.state == OWNED and view.role == BY and bundle not in unread
            if owns and not listed and not member.hung:
                missing.add((bundle, view.epoch))
        owned = frozenset(place for place in servers if standing.roles[place[0]] % ROLES == BY)
        return cls(member, seats, tuple(servers), owned, sent, frozenset(awaits), frozenset(missing), early)


def find_breach(configuration: Configuration, shared: Shared, sights: Sequence[Sight]) -> str:
    """The first promise that these break; empty if they break none."""
    serving = [sight for sight in sights if sight.servers]
    for one, other in combinations(serving, 2):
        for first in one.servers:
            for second in other.servers:
                if not _may_coexist(configuration, shared, first, second):
                    return f"{TWO_SERVERS} of bundle {first[0]}, at epochs {first[1]} and {second[1]}"
    early = next((sight.served_early for sight in serving if sight.served_early >= 0), -1)
    return f"{TOO_EARLY}: bundle {early} was not released by its owner" if early >= 0 else ""


def find_forgotten(shared: Shared) -> str:
    """A fence that was confirmed and is not in force; empty if there is none."""
    for bundle, (fence, confirmed) in enumerate(zip(shared.in_force, shared.confirmed, strict=True)):
        if fence < confirmed:
            return f"{FORGOTTEN_FENCE}: the store takes epoch {fence} of bundle {bundle}, {confirmed} was confirmed"
    return ""


def is_settled(shared: Shared, sights: Sequence[Sight]) -> bool:
    """Whether every bundle is served by its owner at its newest epoch, or is owned by an agent that hangs."""
    return all(
        record is None
        or record.state == RETIRED
        or (record.state == OWNED and any(_is_kept(sight, bundle, record.epoch) for sight in sights))
        for bundle, record in enumerate(shared.records)
    )


def _is_kept(sight: Sight, bundle: int, epoch: int) -> bool:
    """Whether this owner is a good end: nothing takes a bundle from a living session that owns it."""
    hangs = sight.member.hung and sight.member.standing.roles[bundle] % ROLES == BY
    return bool(hangs) or (bundle, epoch) in sight.owned


def _may_coexist(configuration: Configuration, shared: Shared, one: Place, other: Place) -> bool:
    """Whether two brokers may serve these at the same time: they share no hash, or the journal ordered a fence."""
    bundles, real = configuration.bundles, configuration.real_epoch
    if not bundles[one[0]].overlaps(bundles[other[0]]):
        return True
    older, newer = sorted((real(*one), real(*other)))
    fences = [(bundles[bundle], real(bundle, epoch)) for bundle, epoch in shared.ordered]
    return is_fenced_apart(fences, bundles[one[0]], bundles[other[0]], older, newer)
