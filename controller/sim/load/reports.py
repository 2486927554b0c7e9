"""What the balancer sees: load reports with noise and delay, sometimes lost, and their rolling averages.

Every tick, every able broker reports its own usage and that of its bundles. A report counts from its append, since
Kafka's append time is the clock of all panes. A round at T reads the window [T - 60 s, T): one row of averages per
broker and one per broker and bundle, as `ledger/loads.py` merges them from the panes of the real tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import ConfigError
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.policy.view.tabulate import Columns
from controller.sim.load.cost_model import FIELD, Floats
from controller.sim.load.workloads import Ints
from controller.sim.load.world import Moment

WINDOW_MS = 60_000
_RATES = FIELD["throughput_out"] + 1  # measured fields come first, then counts


@dataclass(frozen=True, slots=True)
class ReportSpec:
    """The quality of reports. `noise`: relative standard deviation of every measured number.

    A report is appended up to `delay_ms` after its measurement and is lost with probability `loss`.
    """

    every_ms: int = 10_000
    delay_ms: int = 1_000
    noise: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.loss < 1.0 or self.noise < 0.0:
            raise ConfigError(f"noise={self.noise:g} loss={self.loss:g}: give noise >= 0 and 0 <= loss < 1")
        if self.every_ms < 1_000 or WINDOW_MS % self.every_ms:
            raise ConfigError(f"reports every {self.every_ms} ms: a divisor of {WINDOW_MS} ms, at least 1,000")


@dataclass(frozen=True, eq=False)
class _Sample:
    """The reports of one tick that were not lost: b brokers, n bundles."""

    broker: Ints  # [b] index
    incarnation: Ints  # [b]
    appended_ms: Ints  # [b]
    usage: Floats  # [b x R]
    limit: Floats  # [b x R]
    bundle: Ints  # [n] number of the name
    reporter: Ints  # [n] row of this sample
    fields: Floats  # [n x F]


class Reports:
    """Keeps the reports of the last window and averages them."""

    def __init__(self, spec: ReportSpec, seed: int) -> None:
        self._spec = spec
        self._seed = seed
        self._samples: list[_Sample] = []
        self._numbers: dict[str, int] = {}  # bundle name -> its number
        self.sent = self.lost = 0

    def take(self, at_ms: int, moment: Moment, incarnations: Ints) -> None:
        """Take the reports of all brokers. `incarnations` [B]: 0 for a broker that cannot report now."""
        dice = np.random.default_rng([self._seed, 3, at_ms])  # independent of what the strategy did before
        brokers = len(incarnations)
        heard = (incarnations > 0) & (dice.random(brokers) >= self._spec.loss)
        self.sent += int((incarnations > 0).sum())
        self.lost += int((incarnations > 0).sum() - heard.sum())
        delay = dice.integers(0, self._spec.delay_ms + 1, brokers)
        usage = self._noisy(moment.usage, dice)
        fields = moment.fields.copy()
        fields[:, :_RATES] = self._noisy(fields[:, :_RATES], dice)
        row = np.cumsum(heard) - 1
        listed = np.flatnonzero(np.append(heard, False)[moment.owner])
        numbers = self._numbers
        known = np.fromiter((numbers.setdefault(name, len(numbers)) for name in moment.names), np.int64)
        sample = _Sample(
            broker=np.flatnonzero(heard),
            incarnation=incarnations[heard],
            appended_ms=at_ms + delay[heard],
            usage=usage[heard],
            limit=moment.limit[heard],
            bundle=known[listed],
            reporter=row[moment.owner[listed]],
            fields=fields[listed],
        )
        oldest = at_ms - 2 * WINDOW_MS - self._spec.delay_ms
        self._samples = [s for s in self._samples if s.appended_ms.max(initial=0) > oldest] + [sample]

    def rolling(self, at_ms: int, brokers: list[str]) -> tuple[Columns, Columns]:
        """The averages of brokers and of bundles that a round at this time reads, as columns."""
        window = [(s, (s.appended_ms >= at_ms - WINDOW_MS) & (s.appended_ms < at_ms)) for s in self._samples]
        return self._broker_columns(window, brokers), self._bundle_columns(window, brokers)

    def _noisy(self, values: Floats, dice: np.random.Generator) -> Floats:
        if self._spec.noise == 0.0:
            return values
        return np.asarray(np.maximum(values * (1.0 + self._spec.noise * dice.standard_normal(values.shape)), 0.0))

    def _broker_columns(self, window: list[tuple[_Sample, NDArray[np.bool_]]], brokers: list[str]) -> Columns:
        broker = _join([s.broker[kept] for s, kept in window])
        incarnation = _join([s.incarnation[kept] for s, kept in window])
        appended = _join([s.appended_ms[kept] for s, kept in window])
        # a process that restarted within the window has another row
        keys, rows = np.unique(np.column_stack([broker, incarnation]), axis=0, return_inverse=True)
        rows = rows.reshape(-1)
        columns: dict[str, NDArray[np.generic]] = {
            "broker": np.array([brokers[at] for at in keys[:, 0].tolist()], object),
            "incarnation": keys[:, 1],
            "reports": np.bincount(rows, minlength=len(keys)),
            "last_event_ms": _largest(rows, appended, len(keys)),
        }
        for what in ("usage", "limit"):
            values = _stack([getattr(s, what)[kept] for s, kept in window], len(RESOURCES))
            mean = _means(rows, values, len(keys))
            columns |= {f"{name}_{what}": mean[:, at] for at, name in enumerate(RESOURCES)}
        parts = [_sums(s.reporter, s.fields, len(s.broker))[kept] for s, kept in window]
        totals = _means(rows, _stack(parts, len(BUNDLE_FIELDS)), len(keys))
        return columns | {name: totals[:, at] for at, name in enumerate(BUNDLE_FIELDS)}

    def _bundle_columns(self, window: list[tuple[_Sample, NDArray[np.bool_]]], brokers: list[str]) -> Columns:
        kept = [np.flatnonzero(mask[s.reporter]) for s, mask in window]
        bundle = _join([s.bundle[at] for (s, _), at in zip(window, kept, strict=True)])
        reporter = _join([s.broker[s.reporter[at]] for (s, _), at in zip(window, kept, strict=True)])
        fields = _stack([s.fields[at] for (s, _), at in zip(window, kept, strict=True)], len(BUNDLE_FIELDS))
        keys, rows = np.unique(np.column_stack([bundle, reporter]), axis=0, return_inverse=True)
        rows = rows.reshape(-1)
        names = list(self._numbers)
        mean = _means(rows, fields, len(keys))
        texts = [names[number] for number in keys[:, 0].tolist()]
        columns: dict[str, NDArray[np.generic]] = {
            "bundle": np.array(texts, object),
            "namespace": np.array([name.rpartition("/")[0] for name in texts], object),
            "broker": np.array([brokers[at] for at in keys[:, 1].tolist()], object),
            "reports": np.bincount(rows, minlength=len(keys)),
        }
        return columns | {name: mean[:, at] for at, name in enumerate(BUNDLE_FIELDS)}


def _join(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _stack(parts: list[Floats], width: int) -> Floats:
    return np.concatenate(parts) if parts else np.zeros((0, width))


def _sums(rows: Ints, values: Floats, count: int) -> Floats:
    """[count x columns] sums of the values of each row."""
    columns = [np.bincount(rows, values[:, at], count) for at in range(values.shape[1])]
    return np.column_stack(columns) if columns else np.zeros((count, 0))


def _means(rows: Ints, values: Floats, count: int) -> Floats:
    return _sums(rows, values, count) / np.maximum(np.bincount(rows, minlength=count), 1)[:, None]


def _largest(rows: Ints, values: Ints, count: int) -> Ints:
    result = np.zeros(count, np.int64)
    np.maximum.at(result, rows, values)
    return result
