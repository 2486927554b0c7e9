"""What is measured while a soak runs, and what "bounded" means: no growth beyond noise once it has settled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil


@dataclass
class Series:
    """One figure over time; `progress` is what the run has done (journal entries), not seconds."""

    name: str
    progress: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, progress: float, value: float) -> None:
        """One sample."""
        self.progress.append(progress)
        self.values.append(value)

    @property
    def slope(self) -> float:
        """Least-squares growth per unit of progress over the second half, after everything has warmed up."""
        xs, ys = self.progress[len(self.progress) // 2 :], self.values[len(self.values) // 2 :]
        mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
        spread = sum((x - mean_x) ** 2 for x in xs)
        return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0

    def growth(self) -> float:
        """What the slope means for the second half of the run, as a fraction of its median."""
        half = self.progress[len(self.progress) // 2 :]
        return self.slope * (half[-1] - half[0]) / max(1.0, median(self.values[len(self.values) // 2 :]))

    def document(self) -> dict[str, float]:
        """For the figures."""
        return {
            "first": round(self.values[0], 2),
            "median": round(median(self.values), 2),
            "max": round(max(self.values), 2),
            "last": round(self.values[-1], 2),
            "growth_in_second_half": round(self.growth(), 3),
        }


class Samples:
    """All series of a run, by name."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}

    def add(self, name: str, progress: float, value: float) -> None:
        """One sample of one figure."""
        self.series.setdefault(name, Series(name)).add(progress, value)

    def following(self, progress: str, limit: float, names: Iterable[str]) -> dict[str, float]:
        """Figures that grow with what was done: their growth by that of the series `progress` is above `limit`.

        1 is a figure that doubles when the work doubles, 0 one that has nothing to do with it.
        """
        done = self.series[progress].growth()
        found = {name: round(self.series[name].growth() / done, 3) for name in names}
        return {name: ratio for name, ratio in found.items() if ratio > limit}

    def growing(self, limit: float, names: Iterable[str]) -> dict[str, float]:
        """Figures that grow by more than `limit` (a fraction) in the second half, whatever was done."""
        found = {name: round(self.series[name].growth(), 3) for name in names}
        return {name: growth for name, growth in found.items() if growth > limit}

    def document(self) -> dict[str, dict[str, float]]:
        """For the figures."""
        return {name: series.document() for name, series in sorted(self.series.items())}


def rss_mib(process: psutil.Process) -> float:
    """Resident memory, MiB."""
    return float(process.memory_info().rss / 2**20)


def files_of(folder: Path) -> tuple[int, int]:
    """How many files lie below a folder and how many bytes they hold; files that vanish meanwhile count as gone."""
    sizes = []
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                sizes.append(path.stat().st_size)
        except FileNotFoundError:
            continue
    return len(sizes), sum(sizes)


def family(process: psutil.Process) -> Sequence[psutil.Process]:
    """A process and all its descendants that live."""
    return [process, *process.children(recursive=True)]
