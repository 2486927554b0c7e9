"""Journal entries in words: moves, swaps, splits, plans that wait, brokers that come and go, failovers.

An entry does not say that its move is half of a swap. The evidence of its decision does; `swaps_in` looks it up once a
round.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from controller.domain.decision import Reason
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError
from controller.domain.reasons.words import describe_reason, returns_in_exchange
from controller.operations.evidence_view import EvidenceView
from controller.operations.plans import plan_words
from controller.operations.reading import Reader

TENANT = "demo/"  # of every bundle of the demo; omitted to save space
ENDS = {"lease": "its lease ran out", "goodbye": "it said goodbye", "superseded": "a newer process took its place"}


class Half(NamedTuple):
    """Half of a swap: the bundle that goes the other way, and whether this bundle is the one that comes back."""

    other: str
    returning: bool


Swaps = Callable[[str], Mapping[str, Half]]  # round id -> halves of its swaps by decision id
Decide = Callable[[str], str]  # round id -> how one decides about its plan


class Events:
    """Takes every entry in order and describes those that are worth a line."""

    def __init__(self, swaps: Swaps, decide: Decide) -> None:
        self._swaps = swaps
        self._decide = decide
        self._owners: dict[str, str] = {}  # bundle -> the broker that had it last

    def lines(self, entries: Iterable[Entry]) -> list[str]:
        """One line per entry, oldest first; none for unimportant entries."""
        lines = (self._line(entry) for entry in entries)
        return [line for line in lines if line is not None]

    def _line(self, entry: Entry) -> str | None:
        if entry.kind is Kind.OWNERSHIP:
            return self._ownership(entry)
        if entry.kind in (Kind.ORDER, Kind.ORDER_ENDED):
            return order_line(entry)
        if entry.kind is Kind.SPLIT:
            self._owners |= dict.fromkeys(entry.data.get("children", {}), broker_of(entry.by))
        if entry.kind is Kind.SESSION_ENDED:
            return f"{entry.broker} is gone: {ENDS.get(entry.reason or '', entry.reason)}"
        if entry.kind is Kind.REGISTERED:
            return f"{entry.broker} has joined"
        if entry.kind is Kind.PLAN:
            return plan_line(entry, self._decide)
        if entry.kind in (Kind.ALARM, Kind.GUARD):
            return f"{entry.kind.value}: {words_of(entry.reason)} {short(entry.bundle) or entry.broker or ''}".rstrip()
        return None

    def _ownership(self, entry: Entry) -> str | None:
        bundle, before = short(entry.bundle), self._owners.get(entry.bundle or "")
        if entry.by and entry.bundle:
            self._owners[entry.bundle] = broker_of(entry.by)
        if entry.state == "transferring":
            return self._transfer(entry, bundle)
        if entry.state == "splitting":
            return f"split {bundle} on {broker_of(entry.by)}: {words_of(entry.reason)}"
        if entry.state == "assigning" and entry.reason == Reason.ORPHANED.value:
            return f"failover {bundle}: {before or 'nobody'} → {broker_of(entry.to)}"
        return None

    def _transfer(self, entry: Entry, bundle: str) -> str:
        path = f"{bundle}: {broker_of(entry.by)} → {broker_of(entry.to)}"
        half = self._half(entry.decision_id)
        if half is None:
            return f"move {path}, {words_of(entry.reason)}"
        if half.returning:
            return f"  in return {path}, for {short(half.other)}"
        return f"swap {path}"

    def _half(self, decision_id: str | None) -> Half | None:
        round_id = (decision_id or "").rpartition("-")[0]
        if not round_id or decision_id is None:
            return None
        return self._swaps(round_id).get(decision_id)


def order_line(entry: Entry) -> str:
    """An order to a Pulsar cluster, or how it ended."""
    bundle, data = short(entry.bundle), entry.data
    if entry.kind is Kind.ORDER_ENDED:
        took = f" after {data['took_ms']} ms" if data.get("took_ms") is not None else ""
        return f"  {data['outcome']}{took}: {bundle}"
    if data["kind"] == "split":
        return f"split {bundle} on {data['source']}: {words_of(entry.reason)}"
    return f"move {bundle}: {data['source']} → {data.get('target') or 'anywhere'}, {words_of(entry.reason)}"


def plan_line(entry: Entry, decide: Decide) -> str:
    """A plan that waits and how to decide about it, or what became of a plan."""
    round_id = str(entry.data["round_id"])
    how = f"; {decide(round_id)}" if "moves" in entry.data else ""
    return f"plan of round {round_id}: {plan_words.entry_text(entry).replace(TENANT, '')}{how}"


def decide_text(round_id: str, conf: Path, on_page: bool) -> str:
    """How one decides about the plan of a round. `on_page`: whether one can log in on the page."""
    command = shlex.quote(command_name())
    typed = f"`{command} approve {round_id} --why REASON --conf {shlex.quote(str(conf))}`"
    return f"decide with {typed}, or `{command} decline` with the same words{', or on the page' if on_page else ''}"


def swaps_in(reader: Callable[[], Reader]) -> Swaps:
    """Looks up the halves of a round's swaps in the table of decisions; none if it cannot be read."""

    @cache
    def halves(round_id: str) -> Mapping[str, Half]:
        try:
            decisions = EvidenceView(reader()).decisions(round_id=round_id, skips=False)
        except (BallastError, OSError):
            return {}
        swapped = [d for d in decisions if d["evidence"].get("swapped_with")]
        return {d["decision_id"]: Half(d["evidence"]["swapped_with"], returns_in_exchange(d)) for d in swapped}

    return halves


def command_name() -> str:
    """The command as one can type it here: with its path if `ballast` is not on the PATH."""
    return "ballast" if shutil.which("ballast") else sys.argv[0]


def words_of(reason: str | None) -> str:
    """A reason in words; codes without words stay as they are."""
    return describe_reason(reason) or reason or ""


def short(bundle: str | None) -> str:
    """The name of a bundle without the tenant of the demo."""
    return (bundle or "").removeprefix(TENANT)


def broker_of(session: str | None) -> str:
    """The broker of a session in the journal's form."""
    return (session or "nobody").rpartition("#")[0] or "nobody"
