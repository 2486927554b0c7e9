"""What bundles took with them when they left a broker, and what that says of those that stayed.

A broker that uses far more CPU than its traffic usually costs has something else that keeps it busy, or dear bundles:
nothing but a move tells them apart. How far its usage falls when some leave is evidence for one or the other. Once
that settles that it is the bundles, those that stayed cost as many times the usual as those that left: all bundles of
a broker are taken for alike, as nothing tells one from the other.

A fall that is there tells at once. That there is none tells only a round later, as a reading may be of the time before;
and never while usage is at its limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from controller.policy.usage.model import FACTOR_SPREAD, LARGEST_FACTOR, BrokerStates, UsageModel
from controller.policy.usage.seen import Seen, sum_by
from controller.policy.view.costs import Floats
from controller.policy.view.frame import NOBODY, Ints
from controller.policy.view.snapshot import Bools

DEAR = 2.0  # times the usual, that bundles must cost if they are what keeps a broker busy
SPREAD = 0.5  # of what bundles then take with them, a standard deviation
FITS = 2.0  # standard deviations
SETTLED, MOST = 4.6, 10.0  # logarithms of odds: 100 to 1 settles it; more is not remembered
SOME, OTHERS = 1, 2  # how far it is known: some evidence, and that something else keeps it busy
LOG_2 = 0.6931471805599453
TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Departed:
    """The bundles [n] that have left their broker since the round before, or are no longer seen."""

    bundle: Ints
    broker: Ints  # which they left
    load: Floats  # CPU that their traffic was worth there, with the usual factor

    @classmethod
    def of(cls, model: UsageModel, seen: Seen) -> Departed:
        """Of this round."""
        bundles = model.bundles
        here = np.full(len(bundles.names), NOBODY, np.int64)
        here[seen.bundle] = seen.reporter
        gone = np.flatnonzero((bundles.carrier >= 0) & (here != bundles.carrier))
        broker: Ints = bundles.carrier[gone].astype(np.int64)
        return cls(gone, broker, bundles.carried[gone] * model.brokers.speed[broker])

    def sum(self, model: UsageModel) -> Floats:
        """[B] CPU that they were thought to take with them."""
        return sum_by(self.broker, self.load * model.bundles.factor[self.bundle], len(model.brokers.names))


@dataclass(frozen=True, eq=False)
class Shown:
    """[B] what departures have shown of brokers.

    `blame`: by how much it is likelier that its bundles keep a broker busy than that something else does, as the
    logarithm of the odds; 0 where nothing does. `waits`: what is not settled waits for another reading. `dear`: whether
    it is settled now that it is the bundles. `times`: then, how many times as much those that left took as they were
    thought to take; else 1.
    """

    blame: Floats
    waits: Bools
    dear: Bools
    times: Floats

    @classmethod
    def of(
        cls, model: UsageModel, gave: Floats, work: Floats, surprise: Floats, noise: Floats, telling: Bools
    ) -> Shown:
        """`gave`: [B] what those that left were thought to take; `work`: [B] what those that stay are thought to cost
        there; `surprise`: [B] usage beyond what is expected; `noise`: its standard deviation; `telling`: [B] whose
        reading tells anything."""
        assert model.drivers is not None
        base = np.maximum(model.brokers.base - model.drivers.base, 0.0)
        times = 1 + base / np.maximum(gave + work, TINY)  # that bundles cost, if it is they
        busy = times >= DEAR
        asked = (gave > 0) & busy & telling
        found = np.where(asked, _weigh(-surprise, gave * (times - 1), noise), 0.0)
        waits = (gave > 0) & (~telling | (asked & (found <= 0) & (model.brokers.gave == 0)))
        blame = np.where(busy, np.clip(model.brokers.blame + np.where(waits, 0.0, found), -MOST, MOST), 0.0)
        dear = asked & ~waits & (blame > SETTLED)
        took = np.where(dear, (gave - surprise) / np.maximum(gave, TINY), 1.0)
        return cls(np.where(dear, 0.0, blame), waits, dear, np.maximum(took, 1.0))


def _weigh(more: Floats, told: Floats, noise: Floats) -> Floats:
    """[B] what usage that fell by so much `more` than expected adds to the logarithm of the odds.

    `told`: how much more it would be if bundles keep a broker busy; each then costs another multiple. A change that
    fits neither tells nothing: what keeps a broker busy may begin or end just then.
    """
    spread, variance = told * SPREAD, noise**2 + TINY
    others, bundles = more**2 / variance, (more - told) ** 2 / (variance + spread**2)
    wider = _log(1 + spread**2 / variance)
    return np.where(np.minimum(others, bundles) <= FITS**2, (others - bundles - wider) / 2, 0.0)


def _log(values: Floats) -> Floats:
    """Natural logarithms of positive numbers, within 1e-5 and the same on every machine, which numpy's are not."""
    part, power = np.frexp(values)
    ratio = (part - 1) / (part + 1)
    square = ratio * ratio
    return np.asarray(power * LOG_2 + 2 * ratio * (1 + square * (1 / 3 + square * (1 / 5 + square / 7))))


def describe_evidence(brokers: BrokerStates) -> Ints:
    """[B] 0: nothing that left has told of a broker yet; else SOME or OTHERS."""
    some = (brokers.blame != 0) | (brokers.gave > 0)
    return np.where(brokers.blame < -SETTLED, OTHERS, np.where(some, SOME, 0)).astype(np.int64)


def blame_bundles(
    model: UsageModel, seen: Seen, departed: Departed, shown: Shown, there: Floats, surprise: Floats
) -> UsageModel:
    """The model in which bundles cost, and always have, what departures have shown, as far as a factor goes. `there`:
    [M] what bundles would cost at their broker with the usual factor; `surprise`: as of `Shown.of`."""
    assert model.drivers is not None
    brokers, bundles, count = model.brokers, model.bundles, len(model.brokers.names)
    common, known = model.drivers.base, bundles.factor[seen.bundle]
    rest = np.maximum(brokers.base + surprise - common, 0.0)
    work = sum_by(seen.reporter, there * known, count)
    growth = np.ones(len(bundles.names))
    growth[seen.bundle] = np.where(shown.dear & (work > 0), 1 + rest / np.maximum(work, TINY), 1.0)[seen.reporter]
    growth[departed.bundle] *= shown.times[departed.broker]
    factor = np.where(growth > 1, np.minimum(bundles.factor * growth, LARGEST_FACTOR), bundles.factor)
    explained = sum_by(seen.reporter, there * (factor[seen.bundle] - known), count)
    base = common + np.maximum(rest - explained, 0.0)
    return replace(
        model,
        brokers=replace(brokers, base=np.where(shown.dear, base, brokers.base)),
        bundles=replace(
            bundles,
            factor=factor,
            variance=np.where(growth > 1, (FACTOR_SPREAD * factor) ** 2, bundles.variance),
        ),
    )
