"""The result of a benchmark: figures, their targets, and broken invariants.

A missed target is reported and stored. A broken invariant (lost, duplicated or reordered messages) invalidates the run,
however good its times are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.domain.errors import BallastError


class NotMeasured(BallastError):
    """Raised when a benchmark could not observe what it measures."""


@dataclass(frozen=True, slots=True)
class Target:
    """An upper limit for one figure, named by its path: `with_loads.gap_ms.p50`."""

    path: str
    limit: float
    unit: str

    def measured(self, figures: Mapping[str, Any]) -> float | None:
        """The figure; None if the run did not observe it. Raises KeyError if there is no such figure."""
        value: Any = figures
        for part in self.path.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise KeyError(f"{self.path}: no {part!r} among the figures")
            value = value[part]
        return None if value is None else float(value)

    def reached(self, figures: Mapping[str, Any]) -> bool:
        """Whether the figure was observed and does not exceed the limit."""
        value = self.measured(figures)
        return value is not None and value <= self.limit


@dataclass(slots=True)
class Result:
    """The result of one benchmark. `broken` lists what invalidates its times."""

    name: str
    figures: dict[str, Any]
    targets: list[Target] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        """Whether a valid run reached every target."""
        return not self.broken and all(t.reached(self.figures) for t in self.targets)

    def document(self) -> dict[str, Any]:
        """The document to store: figures, targets and verdicts."""
        return {
            **self.figures,
            "targets": [
                {
                    "figure": t.path,
                    "limit": t.limit,
                    "unit": t.unit,
                    "measured": t.measured(self.figures),
                    "reached": t.reached(self.figures),
                }
                for t in self.targets
            ],
            "broken": list(self.broken),
        }

    def lines(self) -> list[str]:
        """Lines for the terminal: every figure, then every target."""
        lines = [f"{self.name}: {path} = {value}" for path, value in flatten(self.figures)]
        for t in self.targets:
            verdict = "reached" if t.reached(self.figures) else "MISSED"
            lines.append(f"{self.name}: {t.path} {t.measured(self.figures)} {t.unit}, limit {t.limit:g}: {verdict}")
        return lines + [f"{self.name}: BROKEN: {text}" for text in self.broken]


def flatten(figures: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """The leaves, by dotted path. Groups of plain numbers stay on one line."""
    rows: list[tuple[str, Any]] = []
    for name, value in figures.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and any(isinstance(v, Mapping | list) for v in value.values()):
            rows += flatten(value, f"{path}.")
        elif isinstance(value, Mapping):
            rows.append((path, " ".join(f"{k}={v}" for k, v in value.items())))
        else:
            rows.append((path, value))
    return rows
