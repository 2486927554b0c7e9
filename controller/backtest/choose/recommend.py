"""The recommendation of a backtest: what to do, the strategy, the knobs that it reads, and the reasons.

`choose` has the rule, `verdict` what it means for the configuration, `rationale` the reasons. Pure: the same results in
the same order give the same recommendation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.backtest.choose import rationale
from controller.backtest.choose.choose import STEADY, Choice, choose, knobs_that_matter, knobs_without_effect, positions
from controller.backtest.choose.confidence import NOTHING_FINISHED, Confidence, Grade, confidence
from controller.backtest.choose.model_error import MODEL_ERROR, fitting_error
from controller.backtest.choose.verdict import NO_VERDICT, Verdict, judge
from controller.backtest.point.grid import Value, configured_value
from controller.backtest.point.result import PointResult
from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies import get, has, reads


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to configure. `overall` is None without any point, `steady` without points of `steady`.

    `verdict`: what to do and what that would change. Where `point` is None nothing is recommended, and `strategy` and
    `settings` are the configured ones.

    `settings`: by names of `PolicySettings`, only what the recommended strategy reads: the three knobs of `steady`, and
    those that made a difference to the strategy.
    """

    strategy: str | None
    overall: Choice | None
    steady: Choice | None
    settings: Mapping[str, Value]
    reasons: tuple[str, ...]
    advice: tuple[str, ...]  # what to run to know more
    confidence: Confidence = NOTHING_FINISHED
    verdict: Verdict = NO_VERDICT
    kept: frozenset[str] = frozenset()  # names in `settings` with the configured value, as nothing was learned of them

    @property
    def point(self) -> int | None:
        """The position of the recommended point; None where nothing is recommended."""
        return self.overall.chosen if self.overall is not None and self.confidence.grade is not Grade.NONE else None


def recommend(
    results: Sequence[PointResult], lasted_ms: int, base: PolicySettings, unfinished: int = 0
) -> Recommendation:
    """The recommendation from finished points.

    `lasted_ms`: length of the recording; `base`: the configuration; `unfinished`: points that an interrupt left out.
    """
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
        idle = knobs_without_effect(results, point.strategy)
        settings |= {name: value for name, value in point.knobs.items() if name not in idle}
        telling |= knobs_that_matter(results, point.strategy)
    strategy = None if overall is None else results[overall.chosen].strategy
    if strategy is not None and sure.grade is Grade.NONE:
        strategy, settings = base.strategy, {name: configured_value(base, name) for name in settings}
        telling = set()
    if strategy is not None and has(strategy):  # results may be older than the strategies that are installed
        settings = {name: value for name, value in settings.items() if reads(get(strategy), name.partition(".")[0])}
    kept = {name for name, value in settings.items() if value == configured_value(base, name) and name not in telling}
    return Recommendation(
        strategy=strategy,
        overall=overall,
        steady=steady,
        settings=dict(sorted(settings.items())),
        reasons=rationale.reasons(results, overall, steady, lasted_ms, base, sure),
        advice=rationale.advice(results, steady, lasted_ms, base, sure, unfinished),
        confidence=sure,
        verdict=judge(results, overall, base, sure),
        kept=frozenset(kept),
    )


def _steady_settings(results: Sequence[PointResult], point: PointResult, base: PolicySettings) -> dict[str, Value]:
    """The three knobs of `steady` (the configured value if a knob made no difference), and the model error.

    A model error that was varied as a knob is recommended by its results, not by the predictions.
    """
    without_effect = knobs_without_effect(results, STEADY)
    settings: dict[str, Value] = {}
    for name in (*rationale.STEADY_KNOBS, *([MODEL_ERROR] if rationale.values_of(results, MODEL_ERROR) else [])):
        idle = name in without_effect
        settings[name] = configured_value(base, name) if idle else point.knobs.get(name, configured_value(base, name))
    if MODEL_ERROR not in settings:
        error = fitting_error(point, float(settings[rationale.TOLERANCE] or 0))
        settings |= {} if error is None else {MODEL_ERROR: error}
    return settings
