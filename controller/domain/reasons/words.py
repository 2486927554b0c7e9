"""A reason code in words, with the figures of its evidence: `hot in 5 of the 6 rounds needed`.

Evidence of any version is accepted: a missing figure leads to plainer words, never to an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from string import Formatter
from typing import Any, TypeGuard

from controller.domain.decision import Decision, Reason
from controller.domain.load import SCORE_UNIT
from controller.domain.reasons.table import REASON_TABLE

_SHARES = ("score", "mean", "usage", "average", "history", "threshold")  # in evidence in 1 / SCORE_UNIT
TELLING = 100  # of that unit: a smaller share that passes is not told
_VERBATIM = ("partner", "paced_by", "too_big", "isolation")
_BY_NUMBER = {reason.value[:3]: reason for reason in Reason}
_BY_PULSAR_NAME = {row.pulsar.lower(): reason for reason, row in REASON_TABLE.items() if row.pulsar}


def describe_reason(code: str | None, evidence: Mapping[str, Any] | None = None, returns: bool = False) -> str:
    """The most specific words whose figures the evidence has; empty for text that is no reason code.

    `returns`: the decision is the half of an exchange that comes back for the other (`returns_in_exchange`).
    """
    reason = _parse_reason(code)
    if reason is None:
        return ""
    if returns:
        return f"in exchange for {(evidence or {}).get('swapped_with')}"
    if not evidence:
        return REASON_TABLE[reason].words[-1]
    words, figures = _choose_words(reason, evidence)
    told = words.format(**figures)
    if "score" in _find_placeholders(words) and _is_number(passing := evidence.get("passing")) and passing >= TELLING:
        told += f", and {_format_share(passing / SCORE_UNIT)} more that is not expected to last"
    lost = evidence.get("bundles_lost")
    by_this = lost.get(reason.value) if isinstance(lost, Mapping) else None
    return f"{told}: {by_this} of its bundles" if _is_number(by_this) else told


def describe_score(
    code: str | None, evidence: Mapping[str, Any], measured: float | None, receives: bool = False
) -> str:
    """The reason of a broker's score in words; both figures, each named, where the round judged by another one than
    was measured (a fraction of its limit).

    A reading of usage comes late, so what the broker owns by now may explain far less or more. `receives`: the moves of
    the round, which the evidence of a skip counts as done, bring the broker something.
    """
    words, judged = describe_reason(code, evidence), evidence.get("score")
    if measured is None or not _is_number(judged) or not _names_score(_parse_reason(code), evidence):
        return words
    if _format_share(measured) == _format_share(judged / SCORE_UNIT):
        return words
    with_moves = ", with what it was to get" if receives else ""
    return f"{words}, by estimate{with_moves}; {_format_share(measured)} was measured"


def describe_decision(decision: Decision) -> str:
    """A decision's reason in words."""
    row = {"before": decision.before, "source": decision.source, "target": decision.target}
    returns = returns_in_exchange({**row, "evidence": decision.evidence})
    return describe_reason(decision.reason.value, decision.evidence, returns)


def returns_in_exchange(decision: Mapping[str, Any]) -> bool:
    """Whether a decision's row is the half of an exchange that goes from the emptier broker to the fuller one."""
    before = decision.get("before") or {}
    source, target = before.get(decision.get("source")), before.get(decision.get("target"))
    exchanged = bool((decision.get("evidence") or {}).get("swapped_with"))
    return exchanged and source is not None and target is not None and source < target


def describe_decision_row(decision: Mapping[str, Any]) -> str:
    """The reason in words of a decision's row, whose evidence is an object."""
    return describe_reason(decision.get("reason"), decision.get("evidence"), returns_in_exchange(decision))


def find_reason(name: str) -> Reason | None:
    """The reason with this number (`412`), code (`412_external_load`) or Pulsar name (`HitCount`); None without one."""
    return _parse_reason(name) or _BY_NUMBER.get(name) or _BY_PULSAR_NAME.get(name.lower())


def _parse_reason(code: str | None) -> Reason | None:
    try:
        return Reason(code)
    except ValueError:
        return None


def _choose_words(reason: Reason, evidence: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    """The most specific words of the reason whose figures the evidence has, and all its figures."""
    *telling, plain = REASON_TABLE[reason].words
    figures = _format_figures(reason, evidence) if telling else {}
    return next((words for words in telling if figures.keys() >= _find_placeholders(words)), plain), figures


def _names_score(reason: Reason | None, evidence: Mapping[str, Any]) -> bool:
    return reason is not None and "score" in _find_placeholders(_choose_words(reason, evidence)[0])


@cache
def _find_placeholders(words: str) -> frozenset[str]:
    return frozenset(name for _, name, _, _ in Formatter().parse(words) if name)


def _format_figures(reason: Reason, evidence: Mapping[str, Any]) -> dict[str, str]:
    """The figures that words may name, as text; those that the evidence lacks are left out."""
    shares = {name: evidence[name] / SCORE_UNIT for name in _SHARES if _is_number(evidence.get(name))}
    figures = {name: _format_share(share) for name, share in shares.items() if share >= 0}  # below 0: unknown
    figures |= {name: str(evidence[name]) for name in _VERBATIM if evidence.get(name)}
    if _is_number(evidence.get("gap_points")):
        figures["gap_points"] = f"{evidence['gap_points']:.1f}"
    if _is_number(evidence.get("backlog_s")):
        figures["backlog"] = f"{evidence['backlog_s']} s"
    if _is_number(evidence.get("cost_permille")):
        figures["speed"] = f"{evidence['cost_permille'] / 10:.0f} %"
    parts = evidence.get("permille_of_limit")
    if isinstance(parts, Mapping) and _is_number(parts.get(reason.value)):
        figures["limit_pct"] = f"{parts[reason.value] / 10:.0f} %"
    limits = evidence.get("limits")
    if isinstance(limits, Mapping) and limits and all(map(_is_number, limits.values())):
        fullest = max(limits, key=lambda name: limits[name])
        figures |= {"fullest": str(fullest), "fullest_pct": f"{limits[fullest] / 10:.0f} %"}
    predicted, realised = evidence.get("predicted"), evidence.get("realised")
    if _is_number(predicted) and _is_number(realised) and predicted > 0:
        figures |= {"judged_moves": str(evidence.get("moves")), "brought": f"{100 * realised / predicted:.0f} %"}
    return figures | _format_rounds(evidence)


def _format_rounds(evidence: Mapping[str, Any]) -> dict[str, str]:
    hits, needed = evidence.get("hits"), evidence.get("hits_needed")
    if not _is_number(hits) or hits < 1:
        return {}
    if "std" in evidence:  # Pulsar's TransferShedder counts for the cluster
        return {"cycles": _format_count(hits, "cycle")}
    if _is_number(needed) and hits < needed:
        return {"hits": str(hits), "rounds_needed": _format_count(needed, "round")}
    if _is_number(needed):
        return {"rounds_enough": _format_count(hits, "round")}
    return {"rounds": _format_count(hits, "round")}


def _format_share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _format_count(count: float, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
