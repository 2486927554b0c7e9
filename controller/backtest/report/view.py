"""The figures that tables, plots and text of a backtest's report share. Computed once from the finished points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from controller.backtest.choose.choose import choose_for_each, positions
from controller.backtest.choose.pareto import churn, pareto_front, span_ms
from controller.backtest.choose.points import describe_point
from controller.backtest.choose.recommend import Recommendation, recommend
from controller.backtest.choose.verdict import configured_position
from controller.backtest.point.grid import Value
from controller.backtest.point.result import PointResult, PointRun, Timeline
from controller.backtest.report.knobs import KnobNames
from controller.domain.settings.policy import PolicySettings

MOST_DRAWN = 1_500  # values of a line; screens have fewer columns
COLOURS = (  # Tol's
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999933", "#bbbbbb", "#332288", "#ee8866",
)  # fmt: skip
RING = 7  # pixels by which a marker is larger for each strategy that is drawn over it
MOST_NAMED = 12  # points that a hover box lists
CAUSES = {  # colour and words
    "addition": ("#228833", "to new or empty brokers"),
    "removal": ("#ccbb44", "from lost brokers"),
    "balance": ("#4477aa", "for balance"),
}


@dataclass(frozen=True, eq=False)
class View:
    """Finished points of one recording, the configuration of the cluster, and the number of points that are missing."""

    runs: Sequence[PointRun]
    base: PolicySettings
    names: KnobNames = field(default_factory=KnobNames)
    unfinished: int = 0

    @cached_property
    def results(self) -> tuple[PointResult, ...]:
        """The row of each point."""
        return tuple(run.point for run in self.runs)

    @cached_property
    def lasted_ms(self) -> int:
        """The length of the recording; 0 without points."""
        return max((span_ms(run) for run in self.runs), default=0)

    @cached_property
    def imbalance(self) -> tuple[float, ...]:
        """Mean of max/best of each point."""
        return tuple(result.max_best_mean for result in self.results)

    @cached_property
    def churn(self) -> tuple[float, ...]:
        """Moves for balance per bundle and day, of each point."""
        return tuple(churn(result, self.lasted_ms) for result in self.results)

    @cached_property
    def front(self) -> tuple[int, ...]:
        """Positions of the points on the Pareto front, by increasing imbalance."""
        return pareto_front(self.imbalance, self.churn)

    @cached_property
    def recommendation(self) -> Recommendation:
        """The recommendation from these points."""
        return recommend(self.results, self.lasted_ms, self.base, self.unfinished)

    @property
    def recommended(self) -> int | None:
        """The position of the recommended point; None where nothing is recommended."""
        return self.recommendation.point

    @cached_property
    def configured(self) -> int | None:
        """The position of the point that is configured now; None if it was not run."""
        return configured_position(self.results, self.base)

    @cached_property
    def chosen(self) -> Mapping[str, int]:
        """Strategy -> position of the point that represents it in plots over time."""
        return choose_for_each(self.results, self.base)

    @cached_property
    def strategies(self) -> tuple[str, ...]:
        """Names in the order in which they appear."""
        return tuple(dict.fromkeys(result.strategy for result in self.results))

    @cached_property
    def places(self) -> Mapping[tuple[float, float], tuple[int, ...]]:
        """(churn, imbalance) -> positions of the points there, strategy by strategy."""
        found: dict[tuple[float, float], list[int]] = {}
        for strategy in self.strategies:
            for at in positions(self.results, strategy):
                found.setdefault((self.churn[at], self.imbalance[at]), []).append(at)
        return {place: tuple(tied) for place, tied in found.items()}

    def points_beside(self, at: int) -> tuple[int, ...]:
        """The points at the same place as this one, including it."""
        return self.places[self.churn[at], self.imbalance[at]]

    def ring(self, at: int) -> int:
        """How many strategies are drawn over this point; its marker is larger by as many rings."""
        here = dict.fromkeys(self.results[one].strategy for one in self.points_beside(at))
        return len(here) - 1 - list(here).index(self.results[at].strategy)

    def label_of(self, at: int) -> str:
        """A short description of the point, as plain text."""
        return describe_point(self.results, self.results[at]).replace("`", "")

    def knob_text(self, knob: str, value: Value) -> str:
        """A knob with its value and unit, as plain text: `tolerance = 0.05`."""
        heading = self.names.heading(knob)
        return f"{heading.name} = {self.names.text(knob, value)} {heading.unit}".rstrip()

    def colour(self, strategy: str) -> str:
        """The colour of the strategy in all plots."""
        return COLOURS[self.strategies.index(strategy) % len(COLOURS)]


def thin_out(timeline: Timeline, most: int = MOST_DRAWN) -> Timeline:
    """Reduce a timeline to `most` values: of each group the highest max/best and cv, all moves, the last time."""
    stride = -(-len(timeline.at_ms) // most)
    if stride <= 1:
        return timeline
    starts = range(0, len(timeline.at_ms), stride)
    return Timeline(
        at_ms=tuple(timeline.at_ms[start : start + stride][-1] for start in starts),
        max_best=tuple(max(timeline.max_best[start : start + stride]) for start in starts),
        cv=tuple(max(timeline.cv[start : start + stride]) for start in starts),
        moves=tuple(sum(timeline.moves[start : start + stride]) for start in starts),
    )
