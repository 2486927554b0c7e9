"""Why a candidate that no rule forbids was not chosen, in words that the figures stored beside it bear out.

What a strategy orders candidates by is not stored as a whole: `steady` also counts what a move disrupts and what its
figures may be wrong by, and of these evidence has the chosen one's disruption alone. So words compare the stored scores
of the candidate and the chosen one, and name the rest only where these scores leave nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.decision import PLACEMENT, DecisionKind
from controller.domain.load import SCORE_UNIT
from controller.operations.text import percent_text

OTHERWISE = "allowed, but another one was chosen"
NOTHING_MOVED = "allowed, but nothing was moved"
Row = Mapping[str, Any]


def score_text(value: int | None) -> str:
    """A score in evidence as a percentage; empty if unknown."""
    return "" if value is None else percent_text(value / SCORE_UNIT)


def passed_over_text(row: Row, chosen: Row | None, decision: Row) -> str:
    """Why this candidate, which no rule forbids, was passed over. `chosen`: the candidate that was taken, if listed."""
    if "throughput" in row:
        return "chosen as well"  # such a list has the moves of a whole round
    if not row.get("target"):
        return ""
    if decision["kind"] == DecisionKind.SKIP.value:
        return NOTHING_MOVED
    if decision["strategy"] == PLACEMENT:
        return "allowed, and as good: the order of names decided"
    words = _WORDS.get(str(decision["strategy"]))
    if words is None or chosen is None or not (_has_scores(row) and _has_scores(chosen)):
        return OTHERWISE
    return words(row, chosen, decision)


def _has_scores(row: Row) -> bool:
    return row.get("source_after") is not None and row.get("target_after") is not None


def _by_relief(row: Row, chosen: Row, decision: Row) -> str:
    """`steady`: the higher of the two brokers, then disruption and uncertainty; a bundle goes to its best target."""
    own, best = (max(one["source_after"], one["target_after"]) for one in (row, chosen))
    if own > best and score_text(own) != score_text(best):
        higher = f"the higher of the two at {score_text(best)}, not {score_text(own)}"
        return f"allowed, but another one brings more: {higher}"
    if own > best:
        return "allowed, but another one brings more, by less than a tenth of a point"
    if row["bundle"] == chosen["bundle"]:
        return "allowed, but the chosen target stays lower when what may be wrong with its estimate is counted"
    if decision["evidence"].get("swapped_with"):
        against = "what its figures may be wrong by counts"
    else:
        against = "its disruption, or what its figures may be wrong by, counts"
    return f"allowed, but {against} against it" if own < best else f"allowed, and as low, but {against} against it"


def _by_distance(row: Row, chosen: Row, decision: Row) -> str:
    """`headroom`: the source closest to the mean and not below it, then the lower target, then names."""
    mean = decision["evidence"].get("mean")
    if mean is None:
        return OTHERWISE
    own, best = ((one["source_after"] < mean, abs(one["source_after"] - mean)) for one in (row, chosen))
    if own[0] > best[0]:
        return "allowed, but it would take its source below the mean"
    if own[0] == best[0] and own[1] > best[1]:
        return "allowed, but another one leaves the source closer to the mean"
    if own == best and row["target_after"] > chosen["target_after"]:
        return "allowed, but another one leaves its target lower"
    return OTHERWISE


_WORDS = {"steady": _by_relief, "headroom": _by_distance, "first": _by_distance}
