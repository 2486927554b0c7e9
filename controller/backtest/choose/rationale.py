"""The reasons for a recommendation in words: why this point, what its neighbours cost, what to run to learn more.

This module only builds sentences; it decides nothing. Figures are those of the table, in its units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.backtest.choose.choose import (
    STEADY,
    WITHIN,
    Choice,
    choose,
    knobs_that_matter,
    knobs_without_effect,
    positions,
)
from controller.backtest.choose.confidence import DAY_SEEN_MS, Confidence, Grade, duration
from controller.backtest.choose.model_error import FEWEST_CHECKED, MODEL_ERROR, fitting_error, model_error
from controller.backtest.choose.pareto import churn, knee, pareto_front
from controller.backtest.choose.points import describe_point, format_value, knob_values, short_name
from controller.backtest.point.grid import Value, configured_value
from controller.backtest.point.result import PointResult
from controller.domain.settings.policy import PolicySettings

TOLERANCE = "steady.tolerance"
STEADY_KNOBS = (TOLERANCE, "steady.churn", "steady.budget")
# as the configuration allows
RANGES: Mapping[str, tuple[float, float]] = {TOLERANCE: (0.001, 1), "steady.churn": (0, 1), "steady.budget": (0, 100)}


def reasons(
    results: Sequence[PointResult],
    overall: Choice | None,
    steady: Choice | None,
    lasted_ms: int,
    base: PolicySettings,
    sure: Confidence,
) -> tuple[str, ...]:
    """The reasons for the recommended strategy, then those for the knobs of `steady`."""
    if overall is None:
        return ("No finished point has a figure: there is nothing to recommend.",)
    if sure.too_short:
        best = results[overall.best]
        shown = f"{describe_point(results, best)}: {_figures(best)}"
        return (
            "Strategies wait for several rounds before they act, and let a moved bundle rest: of that, minutes show "
            f"little. Strategy `{base.strategy}` stays, as it is configured.",
            f"Over {duration(lasted_ms)} the most even point was {shown}.",
        )
    if sure.grade is Grade.NONE:
        figures = _figures(results[overall.chosen])
        return (f"Nothing tells the points apart ({figures}): strategy `{base.strategy}` stays, as it is configured.",)
    sentences = [_why(results, overall, lasted_ms), *_knee(results, overall, lasted_ms)]
    if steady is not None and overall.chosen != steady.chosen:
        sentences.append("Of the points of `steady`: " + _why(results, steady, lasted_ms))
    sentences += _others(results, overall, base)
    if steady is not None:
        sentences += [*_neighbours(results, steady), *_too_tight(results, steady), *_idle(results, base)]
        sentences += _model(results, results[steady.chosen], base)
    return tuple(sentences)


def advice(
    results: Sequence[PointResult],
    steady: Choice | None,
    lasted_ms: int,
    base: PolicySettings,
    sure: Confidence,
    unfinished: int,
) -> tuple[str, ...]:
    """What to run next, as options of the command if possible; of a recording that is too short, nothing.

    Points that are `unfinished` come first: what their figures tell may be what other advice would ask for.
    """
    if unfinished:
        return (f"{_count(unfinished, 'point')} did not finish: run the same command again, which continues.",)
    still = []
    if results and not any(result.moves_balance for result in results):
        still.append("No point moved anything for balance: replay a time with more load, or one in which load changes.")
    if results and lasted_ms < DAY_SEEN_MS:
        still.append(
            f"The recording lasts {duration(lasted_ms)}: what repeats daily is not in it. Replay a day or more."
        )
    return tuple(still if sure.too_short else [*_next_grid(results, steady, base), *still])


def _next_grid(results: Sequence[PointResult], steady: Choice | None, base: PolicySettings) -> list[str]:
    """Advice on the points to run next."""
    sentences = []
    if steady is None:
        sentences.append(
            "`steady` is not among the points: name it in --strategies to learn its tolerance, churn and budget."
        )
    missing = [name for name in STEADY_KNOBS if len(values_of(results, name)) < 2]
    if missing:
        grid = " ".join(f"--grid {name}={_around(base, name)}" for name in missing)
        names = _join_words([short_name(name) for name in missing])
        sentences.append(f"{names} of `steady` had one value only: run again with {grid}.")
    if steady is not None:
        sentences += [*_edges(results, steady), *_untried_error(results, results[steady.chosen], base)]
    return sentences


def _why(results: Sequence[PointResult], choice: Choice, lasted_ms: int) -> str:
    point, best = results[choice.chosen], results[choice.best]
    moves = f"{_few_digits(churn(point, lasted_ms))} moves of a bundle a day"
    text = f"{describe_point(results, point)}: {_figures(point)}, {moves}."
    if len(choice.within) > 1:
        text += (
            f" The fewest moves of the {len(choice.within)} points that are within {WITHIN:.0%} of the best max/best "
            f"({best.max_best_mean:.3f}) without more overload."
        )
    elif choice.chosen == choice.best:
        text += f" No other point is within {WITHIN:.0%} of its max/best without more overload."
    if choice.chosen != choice.best:
        text += f" The best balance is that of {describe_point(results, best)}: {_figures(best)}{_times(best, point)}."
    return text


def _knee(results: Sequence[PointResult], overall: Choice, lasted_ms: int) -> list[str]:
    imbalance = [result.max_best_mean for result in results]
    churned = [churn(result, lasted_ms) for result in results]
    bend = knee(imbalance, churned, pareto_front(imbalance, churned))
    if bend is None:
        return []
    at = overall.chosen
    if (imbalance[at], churned[at]) == (imbalance[bend], churned[bend]):
        return ["It is also where the Pareto front bends: from there on more moves buy little balance."]
    return [f"The Pareto front bends at {describe_point(results, results[bend])}: {_figures(results[bend])}."]


def _others(results: Sequence[PointResult], overall: Choice, base: PolicySettings) -> list[str]:
    """The best balanced of the other strategies, each represented by its chosen point."""
    mine = results[overall.chosen].strategy
    found = (choose(results, positions(results, name), base) for name in {r.strategy for r in results} - {mine})
    others = sorted(
        (results[c.chosen] for c in found if c), key=lambda r: (r.max_best_mean, r.moves_balance, r.strategy)
    )
    return (
        [f"Of the other strategies the most even is {describe_point(results, others[0])}: {_figures(others[0])}."]
        if others
        else []
    )


def _neighbours(results: Sequence[PointResult], steady: Choice) -> list[str]:
    """The effect of each knob alone, with all others as chosen."""
    sentences = []
    for name in knobs_that_matter(results, STEADY):
        rows = _line(results, steady.chosen, name)
        if len({_figures(point) for _, point in rows}) == 1 < len(rows):
            sentences.append(f"{short_name(name)} makes no difference there: {_figures(rows[0][1])}.")
        elif len(rows) > 1:
            each = "; ".join(f"{format_value(point.knobs[name])}: {_figures(point)}" for _, point in rows)
            sentences.append(f"{short_name(name)}, all else as recommended: {each}.")
    return sorted(sentences)


def _too_tight(results: Sequence[PointResult], steady: Choice) -> list[str]:
    """The cost of the lowest tolerance in the grid, compared with the chosen one."""
    rows = _line(results, steady.chosen, TOLERANCE)
    chosen = results[steady.chosen]
    if len(rows) < 2 or rows[0][1] is chosen:
        return []
    value, tight = rows[0]
    more, gained = tight.moves_balance - chosen.moves_balance, chosen.max_best_mean - tight.max_best_mean
    if more <= 0:
        return []
    bought = f"a max/best lower by {gained:.3f}" if gained > 0 else "no better max/best"
    cost = f"{_count(more, 'move')} more{_times(tight, chosen)}"
    return [f"A tolerance as tight as {format_value(value)} would cost {cost} for {bought}."]


def _idle(results: Sequence[PointResult], base: PolicySettings) -> list[str]:
    """Knobs of `steady` that were varied without effect."""
    idle = knobs_without_effect(results, STEADY)
    return [
        f"{short_name(name)} made no difference: keep {format_value(configured_value(base, name))}."
        for name in STEADY_KNOBS
        if name in idle
    ]


def _model(results: Sequence[PointResult], point: PointResult, base: PolicySettings) -> list[str]:
    """The quality of predictions and its consequence for `steady.model_error`, unless that was varied as a knob."""
    error = model_error(point)
    if error is None:
        return [
            f"{point.n_checked} predictions of `steady` could be compared with what came of them, fewer than the "
            f"{FEWEST_CHECKED} it takes to recommend {MODEL_ERROR}."
        ]
    off = f"{point.error_p90:.3f} of the level"
    found = f"Nine in ten of {point.n_checked} predictions by `steady` were off by at most {off}"
    if values_of(results, MODEL_ERROR):
        return [f"{found}."]
    if fitting_error(point, _tolerance(point, base)) is None:
        return [f"{found}, more than the tolerance: not recommended as {MODEL_ERROR}, which would forbid most moves."]
    return [f"{found}: {MODEL_ERROR} {error:g}, so that no move is made that brings less."]


def _untried_error(results: Sequence[PointResult], point: PointResult, base: PolicySettings) -> list[str]:
    """Advice to run with the recommended error, if it would have changed the run it was learned from."""
    error = fitting_error(point, _tolerance(point, base))
    churn_share = float(point.knobs.get("steady.churn", configured_value(base, "steady.churn")) or 0)
    if error is None or error <= churn_share or values_of(results, MODEL_ERROR):
        return []
    return [f"No point was run with {MODEL_ERROR} {error:g}: see what it costs with --grid {MODEL_ERROR}=0,{error:g}."]


def _tolerance(point: PointResult, base: PolicySettings) -> float:
    return float(point.knobs.get(TOLERANCE, configured_value(base, TOLERANCE)) or 0)


def _edges(results: Sequence[PointResult], steady: Choice) -> list[str]:
    """Advice on chosen values at the edge of the grid, if the last step towards the edge changed something."""
    sentences = []
    for name in STEADY_KNOBS:
        rows = _line(results, steady.chosen, name)
        at = next((at for at, (_, point) in enumerate(rows) if point is results[steady.chosen]), None)
        if len(rows) < 2 or at not in (0, len(rows) - 1):
            continue
        (chosen, point), (_, next_to_it) = rows[at], rows[1 if at == 0 else -2]
        which, beyond = ("lowest", chosen / 2) if at == 0 else ("highest", chosen * 2)
        beyond = _clamp(name, beyond)
        if beyond != chosen and _figures(point) != _figures(next_to_it):
            tried = f"{short_name(name)} {format_value(chosen)} is the {which} tried"
            sentences.append(f"{tried}: add {format_value(beyond)} to its --grid.")
    return sentences


def _line(results: Sequence[PointResult], at: int, name: str) -> list[tuple[float, PointResult]]:
    """The points that differ from the one at `at` only in this knob, ordered by its value."""
    point = results[at]
    rest = _without(point.knobs, name)
    rows = [
        (float(result.knobs[name] or 0), result)
        for result in results
        if result.strategy == point.strategy and name in result.knobs and _without(result.knobs, name) == rest
    ]
    return sorted(rows, key=lambda row: row[0])


def _without(knobs: Mapping[str, Value], name: str) -> dict[str, Value]:
    return {other: value for other, value in knobs.items() if other != name}


def values_of(results: Sequence[PointResult], name: str) -> list[float]:
    """The values of a knob among the points of `steady`, in increasing order."""
    return sorted(float(value) for value in knob_values(results, STEADY, name) if value is not None)


def _around(base: PolicySettings, name: str) -> str:
    middle = float(configured_value(base, name) or 0.01)
    return ",".join(dict.fromkeys(format_value(_clamp(name, middle * factor)) for factor in (0.4, 1, 2)))


def _clamp(name: str, value: float) -> float:
    low, high = RANGES[name]
    return min(max(value, low), high)


def _figures(point: PointResult) -> str:
    moves = f"{_count(point.moves_balance, 'move')} for balance"
    moves += f" and {_count(point.splits, 'split')}" if point.splits else ""
    return f"max/best {point.max_best_mean:.3f}, {moves}, {point.overload_minutes:.1f} overload minutes"


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _few_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _times(more: PointResult, fewer: PointResult) -> str:
    if not fewer.moves_balance or more.moves_balance < 1.05 * fewer.moves_balance:
        return ""
    return f" ({more.moves_balance / fewer.moves_balance:.1f} times as many)"


def _join_words(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
