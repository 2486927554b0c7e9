"""An advice: what a shadow round says, as one document: brokers with their load, moves, splits, what was left. Pure.

`ballast pulsar advise` prints it; its JSON form is the document itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from controller.brokers.pulsar.admin_commands import split_command, unload_command
from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.errors import BadRecord
from controller.domain.ids import Bundle
from controller.domain.reasons.words import describe_decision, describe_score

if TYPE_CHECKING:  # all strategies, which a command that prints a page's advice does without
    from controller.backtest.advise.rounds import ShadowRound
    from controller.policy.view.tabulate import Columns

LISTED = ("pairs", "candidates")  # of evidence: long lists


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice of a round, after the rounds before it.

    `brokers`: of every broker its score and load, and why it gives nothing away; their `evidence` counts the moves as
    made. `moves`, `splits`: in the order in which to do them, each with its command. `left`: what was wanted and is not
    done. `earlier`: times at which rounds before would have acted, in ms, with how many actions.
    """

    strategy: str
    at_ms: int
    rounds: int
    brokers: Sequence[Mapping[str, Any]]
    moves: Sequence[Mapping[str, Any]]
    splits: Sequence[Mapping[str, Any]]
    left: Sequence[Mapping[str, Any]]
    earlier: Sequence[Mapping[str, int]] = field(default_factory=tuple)

    def to_json(self) -> dict[str, Any]:
        """The document of `--json`. It shares the rows: read it only."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Advice:
        """What `to_json` wrote; other members are left out. Raises BadRecord for a document that is no advice."""
        names = [part.name for part in fields(cls)]
        if missing := [name for name in names if name not in document]:
            raise BadRecord("no_advice", f"an advice has {', '.join(missing)} as well")
        return cls(**{name: document[name] for name in names})


def advice_of(rounds: Sequence[ShadowRound], boundaries: Mapping[str, int], usable_names: bool = True) -> Advice:
    """The advice of the last round. `boundaries`: bundle -> hash that parts its load, where it is known.

    `usable_names`: off for hashed names, which no command can use.
    """
    last = rounds[-1]
    acted = [d for d in last.result.decisions if d.kind is not DecisionKind.SKIP]
    moves = [_move(d, usable_names) for d in acted if d.kind in (DecisionKind.TRANSFER, DecisionKind.UNLOAD)]
    splits = [_split(d, boundaries, usable_names) for d in acted if d.kind is DecisionKind.SPLIT]
    left = [_row(d) for d in last.result.decisions if d.kind is DecisionKind.SKIP and d.bundle is not None]
    earlier = [
        {"at_ms": one.result.at_ms, "actions": sum(d.kind is not DecisionKind.SKIP for d in one.result.decisions)}
        for one in rounds[:-1]
        if one.acts
    ]
    brokers = _brokers(last)
    return Advice(last.result.strategy, last.result.at_ms, len(rounds), brokers, moves, splits, left, earlier)


def _brokers(of: ShadowRound) -> list[dict[str, Any]]:
    of_brokers = (d for d in of.result.decisions if d.kind is DecisionKind.SKIP and d.bundle is None)
    skips = {(d.source, d.reason.value): d for d in of_brokers}
    held = Counter(of.bundles["broker"].tolist())
    at = {str(broker): row for row, broker in enumerate(of.brokers["broker"].tolist())}
    targets = {d.target for d in of.result.decisions if d.kind is not DecisionKind.SKIP}
    rows = []
    for score in of.result.scores:
        broker, row = str(score["broker"]), at.get(str(score["broker"]))
        reason = str(score["reason"] or "")
        skip = skips.get((broker, reason))
        receives = broker in targets and not score["source"]
        rows.append(
            {
                **score,
                # where no load is known there is no level either, rather than one of 0
                "mean": score["mean"] if score["score"] is not None or score["mean"] else None,
                "words": describe_score(reason, skip.evidence if skip else {}, score["score"], receives),
                "evidence": _short(skip) if skip else {},
                "bundles": held[broker],
                "msg_rate": _sum(of.brokers, row, "msg_rate_in", "msg_rate_out"),
                "throughput": _sum(of.brokers, row, "throughput_in", "throughput_out"),
            }
        )
    return rows


def _sum(brokers: Columns, row: int | None, *names: str) -> float | None:
    return None if row is None else round(float(sum(brokers[name][row] for name in names)), 1)


def _move(decision: Decision, usable_names: bool) -> dict[str, Any]:
    bundle = Bundle.parse(str(decision.bundle))
    command = unload_command(bundle, decision.target) if usable_names else None
    return {**_row(decision), "command": command}


def _split(decision: Decision, boundaries: Mapping[str, int], usable_names: bool) -> dict[str, Any]:
    bundle = Bundle.parse(str(decision.bundle))
    boundary = boundaries.get(str(decision.bundle)) if decision.reason is not Reason.SPLIT_TOPICS else None
    at = boundary if boundary is not None else decision.boundary
    command = split_command(bundle, boundary) if usable_names else None
    return {**_row(decision), "boundary": at, "by_load": boundary is not None, "command": command}


def _row(decision: Decision) -> dict[str, Any]:
    return {
        "id": decision.id,
        "kind": decision.kind.value,
        "bundle": decision.bundle,
        "source": decision.source,
        "target": decision.target,
        "reason": decision.reason.value,
        "words": describe_decision(decision),
        "before": dict(decision.before),
        "after": dict(decision.after),
        "evidence": _short(decision),
    }


def _short(decision: Decision) -> dict[str, Any]:
    return {name: value for name, value in decision.evidence.items() if name not in LISTED}
