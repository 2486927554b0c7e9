"""What a benchmark returns: figures, the targets they are held against, and what must not have happened.

A missed target is said and stored; a broken invariant (lost, doubled or reordered messages) makes the run worthless,
whatever its times were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.domain.errors import BallastError


class NotMeasured(BallastError):
    """Raised when a benchmark did not see what it was to measure."""


@dataclass(frozen=True, slots=True)
class Target:
    """An upper limit for one figure, named by its path: `with_loads.gap_ms.p50`."""

    path: str
    limit: float
    unit: str

    def measured(self, figures: Mapping[str, Any]) -> float | None:
        """The figure, None when the run did not get to see it; raises KeyError when it is not among the figures."""
        value: Any = figures
        for part in self.path.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise KeyError(f"{self.path}: no {part!r} among the figures")
            value = value[part]
        return None if value is None else float(value)

    def reached(self, figures: Mapping[str, Any]) -> bool:
        """Whether the figure was seen and is at most the limit."""
        value = self.measured(figures)
        return value is not None and value <= self.limit


@dataclass(slots=True)
class Result:
    """One benchmark's outcome. `broken` lists what makes its times worthless."""

    name: str
    figures: dict[str, Any]
    targets: list[Target] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        """Whether every target was reached by a run that counts."""
        return not self.broken and all(t.reached(self.figures) for t in self.targets)

    def document(self) -> dict[str, Any]:
        """The figures as stored, with targets and verdicts beside them."""
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
        """For the terminal: every figure, then every target."""
        shown = [f"{self.name}: {path} = {value}" for path, value in flattened(self.figures)]
        for t in self.targets:
            verdict = "reached" if t.reached(self.figures) else "MISSED"
            shown.append(f"{self.name}: {t.path} {t.measured(self.figures)} {t.unit}, limit {t.limit:g}: {verdict}")
        return shown + [f"{self.name}: BROKEN: {text}" for text in self.broken]


def flattened(figures: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Leaves by dotted path. Groups of plain numbers stay on one line."""
    rows: list[tuple[str, Any]] = []
    for name, value in figures.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and any(isinstance(v, Mapping | list) for v in value.values()):
            rows += flattened(value, f"{path}.")
        elif isinstance(value, Mapping):
            rows.append((path, " ".join(f"{k}={v}" for k, v in value.items())))
        else:
            rows.append((path, value))
    return rows
