"""What a backtest recommends to configure: the strategy, the knobs of `steady`, and the reasons.

`choose` has the rule, `recommend_wording` the sentences. Pure: the same results in the same order, the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.backtest.choose import wording
from controller.backtest.choose.choose import STEADY, Choice, choose, configured, knobs_that_matter, positions
from controller.backtest.choose.confidence import NOTHING_FINISHED, Confidence, Grade, confidence
from controller.backtest.choose.model_error import MODEL_ERROR, fitting_error
from controller.backtest.point.grid import Value
from controller.backtest.point.result import PointResult
from controller.domain.settings.policy import PolicySettings


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to configure. `overall` and `steady` are None where there is no point of any, or of that, strategy.

    `settings`: names as in `PolicySettings`. All three knobs of `steady` once it was among the points, and what made a
    difference to the recommended strategy. Where the points cannot be told apart it is what is configured.
    """

    strategy: str | None
    overall: Choice | None
    steady: Choice | None
    settings: Mapping[str, Value]
    reasons: tuple[str, ...]
    advice: tuple[str, ...]  # what to run to know more
    confidence: Confidence = NOTHING_FINISHED
    kept: frozenset[str] = frozenset()  # names of `settings` that nothing was learned about: as they are configured


def recommend(results: Sequence[PointResult], lasted_ms: int, base: PolicySettings) -> Recommendation:
    """The recommendation of finished points on a recording that lasted so long; `base`: how the cluster is set."""
    overall = choose(results, range(len(results)), base)
    steady = choose(results, positions(results, STEADY), base)
    sure = confidence(results, lasted_ms)
    settings: dict[str, Value] = {}
    telling: set[str] = {MODEL_ERROR}
    if steady is not None:
        settings |= _steady_settings(results, results[steady.chosen], base)
        telling |= knobs_that_matter(results, STEADY)
    if overall is not None:
        point = results[overall.chosen]
        matter = knobs_that_matter(results, point.strategy)
        settings |= {name: value for name, value in point.knobs.items() if name in matter}
        telling |= matter
    strategy = None if overall is None else results[overall.chosen].strategy
    if strategy is not None and sure.grade is Grade.NONE:
        strategy, settings = base.strategy, {name: configured(base, name) for name in settings}
    kept = {name for name, value in settings.items() if value == configured(base, name) and name not in telling}
    return Recommendation(
        strategy=strategy,
        overall=overall,
        steady=steady,
        settings=dict(sorted(settings.items())),
        reasons=wording.reasons(results, overall, steady, lasted_ms, base, sure),
        advice=wording.advice(results, steady, lasted_ms, base),
        confidence=sure,
        kept=frozenset(kept),
    )


def _steady_settings(results: Sequence[PointResult], point: PointResult, base: PolicySettings) -> dict[str, Value]:
    """The three knobs, those that made no difference as they are configured, and what to expect of predictions.

    An error that was run as a knob is recommended like one: by what came of it, not by the predictions.
    """
    telling = knobs_that_matter(results, STEADY)
    settings: dict[str, Value] = {}
    for name in (*wording.STEADY_KNOBS, *([MODEL_ERROR] if wording.values_of(results, MODEL_ERROR) else [])):
        idle = len(wording.values_of(results, name)) > 1 and name not in telling
        settings[name] = configured(base, name) if idle else point.knobs.get(name, configured(base, name))
    if MODEL_ERROR not in settings:
        error = fitting_error(point, float(settings[wording.TOLERANCE] or 0))
        settings |= {} if error is None else {MODEL_ERROR: error}
    return settings
