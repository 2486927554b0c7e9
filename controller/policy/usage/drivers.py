"""Which traffic costs CPU: learned across brokers, from what they use for different mixes of it.

Half of the CPU goes by messages and half by bytes, until brokers show otherwise: a regression of usage on the four
drivers and a constant, the common base, pulled towards that half-and-half. The same bundles make the same difference
round after round, so rounds are averaged and their number says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from controller.domain.load import BUNDLE_FIELDS
from controller.policy.view.costs import Floats
from controller.policy.view.median import median

DRIVERS = ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out")
DRIVER_COLUMNS = [BUNDLE_FIELDS.index(name) for name in DRIVERS]
SIZE = len(DRIVERS) + 1

SHARE_SPREAD = 2.0  # of a driver's share around the prior
COMMON_BASE_SPREAD = 0.06  # of the common base around 0, as a share of the mean usage
READING_SPREAD = 0.03  # of a reading
LEAST_PACE = 0.005
OUTLIER = 3.0  # standard deviations: a broker further off than this counts the less, the further it is
UNIT_PACE = 0.2
MOST_SHIFTED = 0.8  # of what all traffic was thought to cost


@dataclass(frozen=True, eq=False)
class Evidence:
    """Normal equations of the regression, as a mean over rounds: rounds in which brokers' traffic differed more say
    more. `products`: [D+1 x D+1] of the drivers and the constant; `answers`: [D+1] of each with usage."""

    products: Floats = field(default_factory=lambda: np.zeros((SIZE, SIZE)))
    answers: Floats = field(default_factory=lambda: np.zeros(SIZE))
    rounds: int = 0


@dataclass(frozen=True, eq=False)
class Drivers:
    """`share`: [D] of the CPU that each driver accounts for. `unit`: [D] CPU for a unit of each. `base`: of a broker
    without traffic. `usual_cost`: of all traffic of the last rounds on average, by the unit of now."""

    share: Floats
    unit: Floats
    base: float
    usual_cost: float
    evidence: Evidence


def learn_drivers(drivers: Drivers | None, traffic: Floats, usage: Floats, spread: Floats) -> Drivers | None:
    """What is known after a round. `traffic`: [B x D]; `usage`: [B], of brokers whose usage is known and below its
    limit. `spread`: [B] of what their traffic costs around what it costs on average, as their bundles differ.
    """
    totals = traffic.sum(axis=0)
    if not len(usage) or usage.sum() <= 0 or totals.sum() <= 0:
        return drivers
    mean = float(usage.mean())
    share, base = (drivers.share, drivers.base) if drivers is not None else (half_and_half(totals), 0.0)
    readings = Readings.of(traffic, usage, spread, share, base / mean)
    evidence = _add(drivers.evidence if drivers is not None else Evidence(), readings)
    share, base = _solve_for(evidence, totals)
    per_traffic = readings.cost_of(share, base)
    unit = np.where(totals > 0, share * per_traffic * mean * len(usage) / np.where(totals > 0, totals, 1.0), 0.0)
    if drivers is None:
        return Drivers(share, unit, base * mean, cost_of(totals, unit), evidence)
    unit, usual_cost = _follow(drivers, unit, totals)
    return Drivers(share, unit, base * mean, usual_cost, evidence)


def shift_to_base(drivers: Drivers, amount: float, totals: Floats) -> Drivers:
    """The same, if so much CPU of what all traffic [D] was thought to cost is brokers' base."""
    cost = cost_of(totals, drivers.unit)
    left = 1 - min(amount / cost, MOST_SHIFTED) if cost > 0 else 1.0
    return replace(drivers, unit=drivers.unit * left, usual_cost=drivers.usual_cost * left)


def cost_of(traffic: Floats, unit: Floats) -> float:
    """CPU of traffic [D]."""
    return float((unit * traffic).sum())


def _follow(drivers: Drivers, found: Floats, totals: Floats) -> tuple[Floats, float]:
    """The unit and the usual cost after a round in which the unit seemed to be `found`.

    The more traffic a round had, the more it says: of next to none, the apparent cost is the base of its brokers.
    """
    cost = cost_of(totals, drivers.unit)
    usual_cost = drivers.usual_cost + UNIT_PACE * (cost - drivers.usual_cost)
    unit = drivers.unit + (UNIT_PACE * cost / usual_cost if usual_cost > 0 else 1.0) * (found - drivers.unit)
    return unit, usual_cost * (cost_of(totals, unit) / cost if cost > 0 else 1.0)


def half_and_half(totals: Floats) -> Floats:
    """[D] shares: half by messages and half by bytes; all by one where there are none of the other."""
    groups = [totals * [1, 1, 0, 0], totals * [0, 0, 1, 1]]
    parts = [group / group.sum() for group in groups if group.sum() > 0]
    return np.asarray(sum(parts) / len(parts))


@dataclass(frozen=True, eq=False)
class Readings:
    """Of one round, relative to their means. `features`: [B x D+1] traffic and a constant; `usage`, `weight`: [B].

    `trust`: [B] how far a broker may speak for the others. One that uses CPU for something else than its bundles must
    not make up a base for all of them.
    """

    features: Floats
    usage: Floats
    weight: Floats
    trust: Floats

    @classmethod
    def of(cls, traffic: Floats, usage: Floats, spread: Floats, share: Floats, base: float) -> Readings:
        """`share`, `base`: what was known before, the base relative too."""
        totals = traffic.sum(axis=0)
        features = np.column_stack([traffic / np.where(totals > 0, totals, 1.0) * len(usage), np.ones(len(usage))])
        relative = usage / float(usage.mean())
        by_bundles = features[:, :-1].mean(axis=1) * spread  # where there is no traffic, bundles hide nothing
        weight = 1.0 / (by_bundles**2 + (READING_SPREAD * relative) ** 2 + READING_SPREAD**2 / 9)
        of_traffic = _of_traffic(features, share)
        usual = of_traffic > 0
        believable = []
        for common in (base, float(relative.min())):  # a common base is at most what the least loaded broker uses
            cost = median((relative[usual] - common) / of_traffic[usual]) if usual.any() else 0.0
            deviation = np.abs(relative - common - cost * of_traffic) * np.sqrt(weight)
            believable.append(np.minimum(1.0, OUTLIER / np.maximum(deviation, OUTLIER)))
        return cls(features, relative, weight, max(believable, key=lambda trust: float(trust.sum())) ** 2)

    def cost_of(self, share: Floats, base: float) -> float:
        """Usage without the base, for what a broker has of all traffic on average."""
        of_traffic = float((self.trust * _of_traffic(self.features, share)).sum())
        return max(float((self.trust * (self.usage - base)).sum()), 0.0) / of_traffic if of_traffic > 0 else 0.0


def _of_traffic(features: Floats, share: Floats) -> Floats:
    return np.asarray(sum(features[:, at] * share[at] for at in range(SIZE - 1)))


def _add(evidence: Evidence, readings: Readings) -> Evidence:
    """With one round more."""
    features, weighted = readings.features, readings.features * (readings.weight * readings.trust)[:, None]
    products = np.array([[float((weighted[:, i] * features[:, j]).sum()) for j in range(SIZE)] for i in range(SIZE)])
    answers = np.array([float((weighted[:, i] * readings.usage).sum()) for i in range(SIZE)])
    pace = max(LEAST_PACE, 1.0 / (evidence.rounds + 1))
    return Evidence(
        evidence.products + pace * (products - evidence.products),
        evidence.answers + pace * (answers - evidence.answers),
        evidence.rounds + 1,
    )


def _solve_for(evidence: Evidence, totals: Floats) -> tuple[Floats, float]:
    """Shares that explain usage best, and the base as a share of the mean usage."""
    prior = half_and_half(totals)
    expected = [*prior.tolist(), 0.0]
    spread = [*np.where(totals > 0, SHARE_SPREAD, 1e-6).tolist(), COMMON_BASE_SPREAD]
    rows = evidence.products.tolist()
    right = evidence.answers.tolist()
    for at in range(SIZE):
        rows[at][at] += 1 / spread[at] ** 2
        right[at] += expected[at] / spread[at] ** 2
    *shares, base = np.maximum(_solve(rows, right), 0.0).tolist()
    all_of_it = sum(shares)
    return (np.array(shares) / all_of_it if all_of_it > 0 else prior), base


def _solve(rows: list[list[float]], right: list[float]) -> Floats:
    """Gauss-Jordan elimination, written out: the same bits on every machine, which LAPACK does not promise."""
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    size = len(table)
    for column in range(size):
        pivot = max(range(column, size), key=lambda at: abs(table[at][column]))
        table[column], table[pivot] = table[pivot], table[column]
        for at in range(size):
            if at != column:
                factor = table[at][column] / table[column][column]
                table[at] = [one - factor * other for one, other in zip(table[at], table[column], strict=True)]
    return np.array([table[at][size] / table[at][at] for at in range(size)])
