"""The checks of the invariants, by name. Scenarios, fault tests and benchmarks all use these.

A check raises InvariantBroken with the name of the invariant and the offending values; it never returns False.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from controller.domain.apply import fold
from controller.domain.entries import Entry
from controller.domain.errors import InvariantBroken
from controller.domain.holdings import Holdings
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.domain.ring import check_cover
from controller.domain.state import ClusterState


def check_one_server(
    serving: Mapping[Session, Mapping[Bundle, int]], fences: Sequence[tuple[Bundle, int]] = ()
) -> None:
    """I1: at most one session serves a hash at any moment.

    `serving`: bundles with their epochs, of living, unlapsed sessions only. `fences`: ranges and epochs of the fences
    that the journal has ordered. A server that a fence excludes still counts, since a store may be all that keeps two
    owners apart, unless the fence was ordered: then the controller gave up on the owner below it.
    """
    by_namespace: dict[str, list[tuple[Bundle, Session, int]]] = {}
    for session, bundles in serving.items():
        for bundle, epoch in bundles.items():
            by_namespace.setdefault(bundle.namespace, []).append((bundle, session, epoch))
    for places in by_namespace.values():
        places.sort()
        for at, (one, first, epoch) in enumerate(places):
            for other, second, later in places[at + 1 :]:
                if other.lower >= one.upper:
                    break
                if not is_fenced_apart(fences, one, other, *sorted((epoch, later))):
                    raise InvariantBroken(
                        f"I1: {first} serves {one} at epoch {epoch} while {second} serves {other} at epoch {later}"
                    )


def list_ordered_fences(entries: Iterable[Entry]) -> list[tuple[Bundle, int]]:
    """Range and epoch of every fence that these entries order."""
    return [
        (Bundle.parse(entry.bundle), entry.epoch)
        for entry in entries
        if entry.bundle and entry.epoch is not None and (entry.data.get("fence") or entry.data.get("fencer"))
    ]


def is_fenced_apart(fences: Sequence[tuple[Bundle, int]], one: Bundle, other: Bundle, older: int, newer: int) -> bool:
    """Whether a fence was ordered between two epochs that keeps their owners apart where these ranges overlap."""
    return any(older < epoch <= newer and part.overlaps(one) and part.overlaps(other) for part, epoch in fences)


def check_rings(state: ClusterState) -> None:
    """I2: the living bundles of every namespace cover its ring exactly."""
    for namespace, bundles in state.namespaces.items():
        check_cover(namespace, bundles)
        for bundle in bundles:
            if state.bundles[str(bundle)].state is State.RETIRED:
                raise InvariantBroken(f"I2: {bundle} is retired and still in the ring")


def check_epochs_grow(before: ClusterState, after: ClusterState) -> None:
    """I3: no bundle's epoch falls, and no change of grantee keeps the epoch."""
    for name, old in before.bundles.items():
        new = after.bundles.get(name)
        if new is None or new.epoch < old.epoch:
            raise InvariantBroken(f"I3: {name} had epoch {old.epoch}, now {new and new.epoch}")


def check_fold(base: ClusterState, journal: Sequence[Entry], projection: ClusterState) -> None:
    """I4: folding the journal from its base gives the projection."""
    folded = fold(base, journal)
    if folded != projection:
        names = [f.name for f in fields(ClusterState) if getattr(folded, f.name) != getattr(projection, f.name)]
        raise InvariantBroken(
            f"I4: the fold of the journal up to {folded.seq} differs from the projection at {projection.seq} "
            f"in {', '.join(names)}"
        )
    if list(folded.commands) != list(projection.commands):  # equal, but the oldest are forgotten first
        raise InvariantBroken(f"I4: up to seq {folded.seq}, the fold of the journal has the commands in another order")


def check_parties_live(state: ClusterState) -> None:
    """Only living sessions are granted bundles. I6 depends on it, as a dead grantee would never answer."""
    for name, record in state.bundles.items():
        if record.to is not None and record.to not in state.sessions:
            raise InvariantBroken(f"I6: {name} is {record.state.value} to {record.to}, which has ended")
        if record.by is not None and record.by not in state.sessions:
            raise InvariantBroken(f"I6: {name} is {record.state.value} by {record.by}, which has ended")


def check_settled(state: ClusterState) -> None:
    """I6: after the deadlines, with an eligible broker alive, no bundle is in flight or orphaned."""
    for name, record in state.bundles.items():
        if record.state in (State.OWNED, State.RETIRED) or not record.ever_owned:
            continue
        raise InvariantBroken(f"I6: {name} is still {record.state.value} at epoch {record.epoch}")


def check_holdings(state: ClusterState) -> None:
    """The index of holdings equals a scan of the bundles."""
    if state.holdings != Holdings.of_records(state.bundles.values(), state.observed):
        raise InvariantBroken(f"I4: at seq {state.seq} the index of holdings differs from the bundles")


def check_state(before: ClusterState, after: ClusterState) -> None:
    """Check what must hold after every batch: I2, I3, living parties and a correct index."""
    check_rings(after)
    check_holdings(after)
    check_epochs_grow(before, after)
    check_parties_live(after)
