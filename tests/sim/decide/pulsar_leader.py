"""Pulsar's modular leader in plain loops over one line of `ballast decide`: which bundles it would unload from whom.

Written from the rules of the four shedders alone and slow on purpose: dictionaries, no arrays, nothing shared with the
code under test but the order of Java's hash map. Default knobs. A line's brokers are
{id: {"cpu": [usage, limit], "bandwidthIn": …, "bandwidthOut": …, "bundles": {name: [rate in, rate out, bytes in, …]}}}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cmp_to_key
from typing import Any

import numpy as np

from controller.pulsar.java_order import hash_map_order

MIB = 1024 * 1024
GRACE_MS = 30 * 60_000
RATE, BYTES = 1, 2  # of a bundle's moving averages, behind their number of samples
Line = Mapping[str, Mapping[str, Any]]
Unloads = dict[str, list[str]]


class Leader:
    """One shedder with what the leader keeps between cycles. `unloaded` is told what was carried out."""

    def __init__(self, strategy: str) -> None:
        self._shed: Callable[[], Unloads] = {
            "overload": self._overload,
            "threshold": self._threshold,
            "uniform": self._uniform,
            "average": self._average,
        }[strategy]
        self._averages: dict[str, tuple[int, float, float]] = {}
        self._history: dict[str, float] = {}
        self._recent: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._low: dict[str, int] = {}
        self._line: Line = {}

    def cycle(self, now_ms: int, line: Line) -> Unloads:
        """Source -> bundles."""
        self._line = line
        rows = {name: row for body in line.values() for name, row in body["bundles"].items()}
        for name in [name for name in self._averages if name not in rows]:
            del self._averages[name]
        for name, row in rows.items():
            samples, rate, traffic = self._averages.get(name, (0, 0.0, 0.0))
            n = min(samples + 1, 10)
            rate, traffic = (n - 1) * rate + row[0] + row[1], (n - 1) * traffic + row[2] + row[3]
            self._averages[name] = (n, rate / n, traffic / n)
        self._recent = {name: at for name, at in self._recent.items() if at >= now_ms - GRACE_MS}
        if len(line) <= 1:
            return {}
        return {broker: names for broker, names in self._shed().items() if names}

    def unloaded(self, name: str, now_ms: int) -> None:
        """The bundle's unload succeeded."""
        self._recent[name] = now_ms

    def _overload(self) -> Unloads:
        found = {}
        for broker in self._line:
            over = self._usage(broker) - 0.85
            if not self._usage(broker) < 0.85:
                found[broker] = self._enough(broker, self._total(broker, BYTES) * (over + 0.05))
        return found

    def _threshold(self) -> Unloads:
        for broker in [broker for broker in self._history if broker not in self._line]:
            del self._history[broker]
        for broker in self._line:
            usage = self._usage(broker)
            self._history[broker] = self._history.get(broker, usage) * 0.9 + (1 - 0.9) * usage
        mean = sum(self._history.values()) / len(self._line)
        found = {}
        for broker, past in self._history.items():
            needed = self._total(broker, BYTES) * (past - mean - 0.1 + 0.05)
            if mean > 0 and not past < mean + 0.1 and not needed < 10 * MIB:
                found[broker] = self._enough(broker, needed)
        return found

    def _uniform(self) -> Unloads:
        for what, least_worth in ((RATE, 1000), (BYTES, MIB)):
            totals = {broker: self._total(broker, what) for broker in self._line}
            hot = max(totals, key=lambda broker: totals[broker])
            least = min(*totals.values(), 2**31 - 1)
            least = 1.0 if abs(least) <= 1e-6 else least
            gap_pct, ratio = (totals[hot] - least) * 100 / least, totals[hot] / least
            if not (gap_pct > 50 if what == RATE else ratio > 4):
                continue
            budget = int(min(2**31 - 1, (totals[hot] - least) * 0.2))
            if len(self._line[hot]["bundles"]) <= 1 or budget < least_worth:
                return {}
            taken = []
            for value, name in self._largest_first(hot, what):
                if value <= budget + 1000:
                    budget -= int(value)
                    taken.append(name)
            return {hot: taken}
        return {}

    def _average(self) -> Unloads:
        names = sorted(self._line)
        score = {broker: self._usage(broker) * 100 for broker in names}
        walk = [names[at] for at in hash_map_order(names)]

        def by_points(a: str, b: str) -> int:
            return int(score[a] - score[b])

        order = sorted(walk, key=cmp_to_key(by_points))
        pairs = [(order[i], order[-1 - i]) for i in range((len(order) + 1) // 2)]
        apart = [pair for pair in pairs if self._counted(*pair, score[pair[1]] - score[pair[0]])]
        if not apart:
            self._high.clear()
            self._low.clear()
        found = {}
        for pair in apart:
            if any(self._high.get(one, 0) >= 2 or self._low.get(one, 0) >= 8 for one in pair):
                self._forget(*pair)
                found[pair[1]] = self._within(*pair)
        return found

    def _counted(self, cold: str, hot: str, gap: float) -> bool:
        """Whether the pair is far enough apart to count."""
        if gap < 15:
            self._forget(cold, hot)
            return False
        for one in (cold, hot):
            self._low[one] = self._low.get(one, 0) + 1
            if gap < 40:
                self._high.pop(one, None)
            else:
                self._high[one] = self._high.get(one, 0) + 1
        return True

    def _forget(self, *brokers: str) -> None:
        for broker in brokers:
            self._high.pop(broker, None)
            self._low.pop(broker, None)

    def _within(self, cold: str, hot: str) -> list[str]:
        for what, least_worth in ((RATE, 1000), (BYTES, MIB)):
            budget = (self._total(hot, what) - self._total(cold, what)) * 0.2
            if budget > least_worth:
                break
        else:
            return []
        taken = []
        for value, name in self._largest_first(hot, what):
            if 0 < value <= budget:
                budget -= value
                taken.append(name)
        return taken

    def _enough(self, broker: str, needed: float) -> list[str]:
        taken: list[str] = []
        marked = 0.0
        if len(self._line[broker]["bundles"]) > 1:
            for value, name in self._largest_first(broker, BYTES):
                if marked < needed or not taken:
                    taken.append(name)
                    marked += value
        return taken

    def _largest_first(self, broker: str, what: int) -> list[tuple[float, str]]:
        held = (name for name in self._line[broker]["bundles"] if name not in self._recent)
        return sorted(((self._averages[name][what], name) for name in held), key=lambda one: -one[0])

    def _usage(self, broker: str) -> float:
        """Fraction: the fullest of CPU and bandwidth; direct memory has no weight. Percentages in 32 bits."""
        pairs = (self._line[broker][name] for name in ("cpu", "bandwidthIn", "bandwidthOut"))
        return max(float(np.float32(usage) / np.float32(limit) * np.float32(100)) for usage, limit in pairs) / 100

    def _total(self, broker: str, what: int) -> float:
        first = 0 if what == RATE else 2
        return float(sum(row[first] + row[first + 1] for row in self._line[broker]["bundles"].values()))
