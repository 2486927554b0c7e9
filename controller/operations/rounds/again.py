"""Replays stored rounds: whether each leads to the same plan again (invariant I4), and how many of how many do.

A round of former rules of its strategy is skipped: only the version that decided it could tell. Inputs are read a few
rounds at a time, because those of one round of a large cluster take megabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from controller.operations.evidence_view import EvidenceView
from controller.policy.replay import BROKEN, Verdict, judge

AT_ONCE = 20  # rounds whose inputs are in memory
_KEPT = ("round_id", "at_ms", "strategy", "challenger", "code_version", "plan_hash")
Row = dict[str, Any]


class Tally(NamedTuple):
    """How many rounds led to the same plan, how many were decided again, and those of former rules, by strategy."""

    equal: int
    compared: int
    skipped: dict[str, list[str]]

    @property
    def broken(self) -> int:
        """Rounds that led to another plan or could not be read."""
        return self.compared - self.equal

    def to_json(self) -> Row:
        """The figures of `ballast replay --json`."""
        skipped = sum(map(len, self.skipped.values()))
        return {"equal": self.equal, "compared": self.compared, "broken": self.broken, "skipped": skipped}


def replay_rounds(view: EvidenceView, rounds: Sequence[Row]) -> Iterator[Row]:
    """A row for each of these rows of `view.rounds()`, in their order: its own columns, `rules`, `verdict`, `text`."""
    waiting = iter(rounds)
    while chosen := list(islice(waiting, AT_ONCE)):
        times = [row["wall_ms"] for row in chosen]
        inputs = view.inputs((row["attempt_id"] for row in chosen), min(times), max(times))
        for row in chosen:
            found = judge(inputs[row["attempt_id"]], row["plan_hash"])
            facts = {name: row[name] for name in _KEPT}
            yield {**facts, "rules": found.rules, "verdict": found.verdict.value, "text": found.text}


def tally(rows: Iterable[Row]) -> Tally:
    """The sum of `replay_rounds`."""
    equal = compared = 0
    skipped: dict[str, list[str]] = {}
    for row in rows:
        if row["verdict"] == Verdict.OTHER_RULES.value:
            skipped.setdefault(f"{row['strategy']} by rules {row['rules']}", []).append(row["round_id"])
            continue
        compared += 1
        equal += row["verdict"] == Verdict.EQUAL.value
    return Tally(equal, compared, skipped)


def is_broken(row: Row) -> bool:
    """Whether a round led to another plan or could not be read."""
    return Verdict(row["verdict"]) in BROKEN
