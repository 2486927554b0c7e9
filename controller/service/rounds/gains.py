"""What the moves of this worker's rounds have brought, against what they were predicted to; for metrics only.

`ballast explain` judges the same moves by the same function from stored rounds. Here the newest rounds are kept in
memory: a worker that starts again judges no move of the rounds before. A move counts once the journal says that it was
begun, in its turn as well; one that waited for an approval counts in the round in whose time it was carried out, not in
the one that wanted it. Nothing depends on the outcome, so an error is logged and forgets the kept rounds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from controller.domain.decision import EARLY, EXECUTED, MOVES, OF_STEP, Decision, KeptPlan, RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.ownership import State
from controller.policy.usage.judged import ROUNDS, Judged, Move
from controller.policy.usage.realised import judge
from controller.policy.view.frame import Frame

log = logging.getLogger(__name__)

MOST_KEPT = 100  # rounds: more are never needed, whatever interval and window are


@dataclass(eq=False)
class _Round:
    """A journaled round. `decided`: its moves by decision id, of which `begun` were carried out. `early`: its readings
    may be of the time before a shift; nor can moves be judged that were decided `by_traffic`."""

    at_ms: int
    stored_frame: Mapping[str, Any]
    decided: Mapping[str, Decision]
    begun: dict[str, Decision] = field(default_factory=dict)
    early: bool = False
    by_traffic: bool = False
    judged: bool = False

    @cached_property
    def frame(self) -> Frame:
        """Read only if a move nearby is judged."""
        return Frame.from_json(self.stored_frame)


class Gains:
    """The newest rounds and their moves. `window_ms`: how long a reading may still hold load from before a move."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._rounds: list[_Round] = []  # oldest first
        self._computed: tuple[str, _Round] | None = None  # id of the newest round, which is not journaled yet
        self._waiting: Mapping[str, Decision] = {}  # moves of the last plan that was kept for an operator

    def note_computed(self, result: RoundResult) -> None:
        """A round was computed: the acting strategy's result."""
        decided = {one.id: one for one in result.decisions if one.kind in MOVES}
        early, by_traffic = result.round_id.endswith(EARLY), bool(result.inputs.get("by_traffic"))
        made = _Round(result.at_ms, result.inputs["frame"], decided, early=early, by_traffic=by_traffic)
        self._computed = result.round_id, made

    def note_entry(self, entry: Entry) -> None:
        """An entry of the journal: a round, a move that begins, or a plan that waits or is carried out."""
        if entry.kind is Kind.ROUND and not entry.data.get("challenger"):
            if self._computed is not None and entry.data.get("round_id") == self._computed[0]:
                self._rounds.append(self._computed[1])
            self._computed = None
        elif entry.kind is Kind.PLAN:
            self._note_plan(entry)
        elif entry.decision_id is not None and self._rounds and _begins_move(entry):
            newest = self._rounds[-1]
            for name in {entry.decision_id, *_waited(entry, newest.decided)} & newest.decided.keys():
                newest.begun[name] = newest.decided[name]

    def _note_plan(self, entry: Entry) -> None:
        if "moves" in entry.data:
            self._waiting = {one.id: one for one in KeptPlan.from_json(entry.data).moves}
        done = [name for name, outcome in entry.data.get("outcomes", {}).items() if outcome == EXECUTED]
        if self._rounds:
            self._rounds[-1].begun |= {name: self._waiting[name] for name in done if name in self._waiting}

    def judge(self) -> tuple[Judged, ...]:
        """Both ends of the moves whose rounds can be judged by now; each once."""
        try:
            found = [end for at in range(len(self._rounds)) for end in self._judge(at)]
        except Exception:  # only a metric is lost
            log.exception("the gains of the newest moves are not known")
            self._rounds.clear()
            return ()
        self._forget()
        return tuple(found)

    def _judge(self, at: int) -> list[Judged]:
        deciding = self._rounds[at]
        after_ms = deciding.at_ms + self._window_ms
        later = [one for one in self._rounds[at + 1 :] if one.at_ms > after_ms and not one.early][:ROUNDS]
        if deciding.judged or len(later) < ROUNDS:
            return []
        deciding.judged = True
        if not deciding.begun or deciding.by_traffic:
            return []
        before = [one for one in self._rounds[:at] if not one.early][1 - ROUNDS :]
        moves = [Move(len(before), str(one.bundle), str(one.source), one.target) for one in deciding.begun.values()]
        return judge([one.frame for one in (*before, deciding, *later)], moves, self._window_ms)

    def _forget(self) -> None:
        """Keep the rounds that are not judged, and those just before them."""
        first = next((at for at, one in enumerate(self._rounds) if not one.judged), len(self._rounds))
        del self._rounds[: max(0, first - ROUNDS + 1, len(self._rounds) - MOST_KEPT)]


def _waited(entry: Entry, decided: Mapping[str, Decision]) -> list[str]:
    """The moves of a round that an order of the control step carries out in their turn."""
    if entry.kind is not Kind.ORDER or not str(entry.decision_id).startswith(OF_STEP):
        return []
    what = entry.bundle, entry.data.get("source"), entry.data.get("target")
    return [name for name, one in decided.items() if (one.bundle, one.source, one.target) == what]


def _begins_move(entry: Entry) -> bool:
    """Whether the entry is the first of a handover, or an order to the brokers themselves."""
    return entry.kind is Kind.ORDER or (entry.kind is Kind.OWNERSHIP and entry.state == State.TRANSFERRING.value)
