"""What a run's entries tell, counted without SQL: the answers that questions are compared with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle


def broker_of(session: str | None) -> str | None:
    """The broker of a session's text."""
    return None if session is None else session.partition("#")[0]


def list_moves(entries: Iterable[Entry]) -> dict[str, list[tuple[int, str, str]]]:
    """(time, from, to) of every change between brokers, by bundle. Both halves of a split begin where it was made."""
    owners: dict[str, str] = {}
    moves: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for entry in entries:
        if entry.kind is Kind.SPLIT:
            owners |= dict.fromkeys(entry.data["children"], str(broker_of(entry.by)))
        if entry.kind is Kind.OWNERSHIP and entry.state == "owned":
            bundle, broker = str(entry.bundle), str(broker_of(entry.by))
            if owners.get(bundle, broker) != broker:
                moves[bundle].append((entry.at_ms, owners[bundle], broker))
            owners[bundle] = broker
    return dict(moves)


def list_episodes(entries: Iterable[Entry]) -> list[list[Entry]]:
    """The ownership entries of each bundle, cut after every one that states an owner; those without one left out."""
    open_ones: dict[str, list[Entry]] = defaultdict(list)
    done = []
    for entry in entries:
        if entry.kind is Kind.OWNERSHIP:
            open_ones[str(entry.bundle)].append(entry)
            if entry.state == "owned":
                done.append(open_ones.pop(str(entry.bundle)))
    return [episode for episode in done if episode[0].state != "owned"]


def first_move_of_a_round(entries: Sequence[Entry]) -> Entry:
    """The entry that begins it."""
    begun = (e for e in entries if e.kind is Kind.OWNERSHIP and e.state == "transferring" and e.decision_id)
    return next(e for e in begun if not str(e.decision_id).startswith("step-"))


def namespace_of(bundle: str) -> str:
    """`tenant/namespace`."""
    return str(Bundle.parse(bundle).namespace)
