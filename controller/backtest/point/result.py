"""The result of one point of a backtest: a row of the scoreboard, and a timeline.

Stored files, tables, plots and the report all use it. Numbers are rounded when they are computed (`round_figure`), so
that the same run gives the same bytes. A table has a column for every knob of any row, ordered by name, and COLUMNS.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from controller.backtest.point.grid import Value
from controller.domain.errors import BadRecord

VERSION = 1
DIGITS = 6  # after the decimal point
Cell = str | float | int | bool | None


@dataclass(frozen=True, slots=True)
class PointResult:
    """One strategy with its knobs on one recording. The *load* of a broker is its highest weighted utilisation.

    `max_best_*`: the highest load of a broker divided by the best achievable one: mean of all steps, of the last tenth,
    and the worst step. `moves_*`: moves to brokers that were empty shortly before, from brokers that left, and others.
    `useless_rate`: as a share of the moves by rounds (removals are placements). `error_*`: |predicted - realised| load
    of a move's source or target, as a fraction of the level that all could share; None without predictions.
    """

    strategy: str
    knobs: Mapping[str, Value]
    rounds: int
    brokers: int  # members at any time
    bundles: int  # present at any time
    max_best_mean: float
    max_best_end: float
    max_best_worst: float
    cv_mean: float  # coefficient of variation of the members' load, mean of all steps
    thrash_pct: float
    moves_addition: int
    moves_removal: int
    moves_balance: int
    splits: int
    useless_moves: int
    useless_rate: float
    overload_minutes: float  # broker-minutes at a load of 85 % or more
    unavailable_bundle_s: float
    error_p50: float | None
    error_p90: float | None
    n_checked: int  # number of errors

    @property
    def moves(self) -> int:
        """All changes of owner."""
        return self.moves_addition + self.moves_removal + self.moves_balance

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them back."""
        return {**asdict(self), "knobs": dict(self.knobs)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> PointResult:
        """The result that `to_json` wrote. Raises BadRecord when fields are missing or unknown."""
        _check("point", stored, {f.name for f in fields(cls)})
        return cls(**stored)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The run step by step; all columns have the same length. `moves`: changes of owner that took effect then."""

    at_ms: tuple[int, ...]  # end of the step
    max_best: tuple[float, ...]
    cv: tuple[float, ...]
    moves: tuple[int, ...]

    def to_json(self) -> dict[str, list[float] | list[int]]:
        """Plain lists; `from_json` reads them back."""
        return {"at_ms": [*self.at_ms], "max_best": [*self.max_best], "cv": [*self.cv], "moves": [*self.moves]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Timeline:
        """The timeline that `to_json` wrote. Raises BadRecord when a column is missing, unknown or too short."""
        _check("timeline", stored, {f.name for f in fields(cls)})
        if len({len(column) for column in stored.values()}) > 1:
            raise BadRecord("backtest_result", "the timeline's columns differ in length: run the point again")
        return cls(**{name: tuple(column) for name, column in stored.items()})


@dataclass(frozen=True, slots=True)
class PointRun:
    """The result and the timeline of a run, as stored for every finished point."""

    point: PointResult
    timeline: Timeline

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them back."""
        return {"v": VERSION, "point": self.point.to_json(), "timeline": self.timeline.to_json()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> PointRun:
        """The run that `to_json` wrote. Raises BadRecord for other versions."""
        if stored.get("v") != VERSION:
            raise BadRecord("backtest_result", f"version {stored.get('v')!r}, wanted {VERSION}: run the point again")
        _check("run", stored, {"v", "point", "timeline"})
        return cls(PointResult.from_json(stored["point"]), Timeline.from_json(stored["timeline"]))


COLUMNS = tuple(f.name for f in fields(PointResult) if f.name not in ("strategy", "knobs"))


def table_columns(results: Iterable[PointResult]) -> tuple[str, ...]:
    """`strategy`, the knobs that any of the results has, then COLUMNS."""
    return ("strategy", *sorted({name for result in results for name in result.knobs}), *COLUMNS)


def to_columns(results: Sequence[PointResult]) -> dict[str, list[Cell]]:
    """Column -> a value for every result, in the order of `table_columns`; None if a result lacks the knob or figure.

    `pyarrow.table(to_columns(...))` and `pandas.DataFrame(to_columns(...))` accept it.
    """
    rows = [{"strategy": r.strategy, **r.knobs, **{name: getattr(r, name) for name in COLUMNS}} for r in results]
    return {name: [row.get(name) for row in rows] for name in table_columns(results)}


def to_csv(results: Sequence[PointResult]) -> str:
    """The table as CSV with a header; None becomes an empty cell, lines end with a newline."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = to_columns(results)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def round_figure(value: float) -> float | None:
    """The value rounded to DIGITS digits; None if it is not finite."""
    return round(float(value), DIGITS) if math.isfinite(value) else None


def _check(what: str, stored: Mapping[str, Any], wanted: set[str]) -> None:
    if set(stored) != wanted:
        wrong = ", ".join(sorted(set(stored) ^ wanted))
        raise BadRecord("backtest_result", f"the stored {what} has other fields ({wrong}): run the point again")
