"""One published case: a cluster, what happens to it, and how to tell whether a balancer handled it well.

`outcome(case, strategy)` plays a case with any strategy and describes what the strategy did. Rounds are one minute
apart; moves are carried out before the next round.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.published.clusters import MESSAGES_A_POINT, ClusterBuilder, moves, splits
from controller.domain.decision import Decision, DecisionKind, Reason, RoundResult
from controller.domain.load import BUNDLE_FIELDS

Script = Callable[[int, ClusterBuilder], None]
Judge = Callable[["Played"], "str | None"]
NO_TRAFFIC: dict[str, Any] = dict.fromkeys(("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out"), 0.0)


@dataclass
class Played:
    """What a strategy did: its rounds in order, and the resulting cluster."""

    built: ClusterBuilder
    results: list[RoundResult] = field(default_factory=list)

    @property
    def moves(self) -> list[Decision]:
        """The moves of all rounds."""
        return [m for result in self.results for m in moves(result)]

    @property
    def splits(self) -> list[Decision]:
        """The splits of all rounds."""
        return [s for result in self.results for s in splits(result)]

    def cpu(self, broker: str) -> float:
        """The broker's CPU at the end, in percent."""
        row = self.built.brokers[broker]
        return float(100 * row["cpu_usage"] / row["cpu_limit"])

    @property
    def highest(self) -> float:
        """The highest CPU at the end, in percent."""
        return max(map(self.cpu, self.built.brokers))

    def reasons(self, broker: str) -> set[Reason]:
        """The reasons for which this broker gave nothing away, over all rounds."""
        return {
            d.reason for r in self.results for d in r.decisions if d.source == broker and d.kind is DecisionKind.SKIP
        }

    @property
    def touched(self) -> set[str | None]:
        """Brokers that gave or received a bundle."""
        return {broker for m in self.moves for broker in (m.source, m.target)}


@dataclass(frozen=True)
class Case:
    """A case. `judge` returns None if the strategy did well, else what is wrong. `script` runs before each round."""

    name: str
    title: str
    source: str
    build: Callable[[], ClusterBuilder]
    judge: Judge
    rounds: int = 10
    script: Script = lambda number, built: None


def play(case: Case, strategy: str) -> Played:
    """Play the rounds of a case. Between rounds the memory goes through JSON, as it does in the journal."""
    played = Played(case.build())
    played.built.settings = replace(played.built.settings, strategy=strategy)
    for number in range(case.rounds):
        case.script(number, played.built)
        result = played.built.round()
        played.built.state.round_memory = json.loads(json.dumps(dict(result.memory)))
        played.results.append(result)
        for move in moves(result):
            carry_out(played.built, move)
        played.built.later()
    return played


def outcome(case: Case, strategy: str) -> str:
    """A short description of what the strategy does in this case, and whether a good balancer would do that."""
    played = play(case, strategy)
    pairs = Counter(f"{m.source}→{m.target}" for m in played.moves)
    named = [f"{pair} ×{n}" if n > 1 else pair for pair, n in pairs.most_common(3)]
    more = len(pairs) - len(named)
    parts = [", ".join(named) + (f" and {more} more" if more > 0 else "")] if named else []
    if played.splits:
        parts.append(f"{len(played.splits)} split{'s' if len(played.splits) > 1 else ''}")
    complaint = case.judge(played)
    verdict = "good" if complaint is None else complaint
    return f"{'; '.join(parts) or 'nothing'}: {verdict}"


def carry_out(built: ClusterBuilder, move: Decision) -> None:
    """Give the bundle and its load to the target."""
    row = next(b for b in built.bundles if b["bundle"] == move.bundle)
    points = (row["msg_rate_in"] + row["msg_rate_out"]) / MESSAGES_A_POINT
    for broker, sign in ((row["broker"], -1.0), (str(move.target), 1.0)):
        table = built.brokers[broker]
        table["cpu_usage"] += sign * points
        for name in BUNDLE_FIELDS:
            table[name] = max(0.0, table[name] + sign * row[name])
        for direction in ("in", "out"):
            table[f"bandwidth_{direction}_usage"] += sign * row[f"throughput_{direction}"]  # NaN stays unknown
    row["broker"] = move.target
    record = built.state.bundles[str(move.bundle)]
    session = built.state.brokers[str(move.target)].session
    built.state.bundles[str(move.bundle)] = replace(record, by=session, epoch=record.epoch + 1, moved_at_ms=built.at_ms)


def set_cpu(built: ClusterBuilder, broker: str, percent: float) -> None:
    """Scale the load of the broker and its bundles so that the broker's CPU is at `percent`."""
    row = built.brokers[broker]
    factor = percent / (100 * row["cpu_usage"] / row["cpu_limit"])
    row["cpu_usage"] *= factor
    for name in NO_TRAFFIC:
        row[name] *= factor
        for bundle in built.bundles:
            if bundle["broker"] == broker:
                bundle[name] *= factor


def first_complaint(*checks: tuple[bool, str]) -> str | None:
    return next((wrong for good, wrong in checks if not good), None)


def no_moves(played: Played) -> str | None:
    return f"{len(played.moves)} moves" if played.moves else None


def fills(broker: str, share: float) -> Judge:
    def judge(played: Played) -> str | None:
        fair = sum(played.cpu(b) for b in played.built.brokers) / len(played.built.brokers)
        got = played.cpu(broker)
        return None if got >= share * fair else f"{broker} has {got:.0f} % where {fair:.0f} % is its part"

    return judge


def ends_below(*allowed: str, below: float) -> Judge:
    def judge(played: Played) -> str | None:
        grown = {m.target for m in played.moves if m.after[str(m.target)] > m.before[str(m.target)]}
        others = grown - set(allowed)  # in a swap, the lighter half goes back to a fuller broker
        return first_complaint(
            (bool(played.moves), "nothing moves"),
            (not others, f"moves to {', '.join(sorted(map(str, others)))}"),
            (played.highest <= below, f"{played.highest:.0f} % at the end"),
        )

    return judge
