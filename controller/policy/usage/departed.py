"""What bundles took with them when they left a broker, and what that says of those that stayed.

A broker that uses far more CPU than its traffic usually costs has something else that keeps it busy, or dear bundles:
nothing but a move tells them apart. How far its usage falls when some leave is evidence for one or the other. Once
that settles that it is the bundles, those that stayed cost as many times the usual as those that left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from controller.policy.usage.model import UsageModel
from controller.policy.usage.seen import Seen, sum_by
from controller.policy.view.costs import Floats
from controller.policy.view.frame import NOBODY, Ints

DEAR = 2.0  # times the usual, that bundles must cost if they are what keeps a broker busy
SPREAD = 0.5  # of what bundles then take with them, a standard deviation
FITS = 2.0  # standard deviations
SETTLED, MOST = 4.6, 10.0  # logarithms of odds: 100 to 1 settles it; more is not remembered
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
    logarithm of the odds. `dear`: whether that is settled now. `times`: where it is, how many times as much the bundles
    that left took as they were thought to take; else 1.
    """

    blame: Floats
    dear: NDArray[np.bool_]
    times: Floats

    @classmethod
    def of(cls, model: UsageModel, gave: Floats, work: Floats, surprise: Floats, noise: Floats) -> Shown:
        """`gave`: [B] what those that left were thought to take; `work`: [B] what those that stay are thought to cost
        there; `surprise`: [B] usage beyond what is expected; `noise`: its standard deviation."""
        assert model.drivers is not None
        base = np.maximum(model.brokers.base - model.drivers.base, 0.0)
        times = 1 + base / np.maximum(gave + work, TINY)  # that bundles cost, if it is they
        asked = (gave > 0) & (times >= DEAR)
        blame = model.brokers.blame + np.where(asked, _weigh(-surprise, gave * (times - 1), noise), 0.0)
        dear = asked & (blame > SETTLED)
        took = np.where(dear, (gave - surprise) / np.maximum(gave, TINY), 1.0)
        return cls(np.where(dear, 0.0, np.clip(blame, -MOST, MOST)), dear, np.maximum(took, 1.0))


def _weigh(more: Floats, told: Floats, noise: Floats) -> Floats:
    """[B] what usage that fell by so much `more` than expected adds to the logarithm of the odds.

    `told`: how much more it would be if bundles keep a broker busy; each then costs another multiple. A change that
    fits neither tells nothing: what keeps a broker busy may begin or end just then.
    """
    spread, variance = told * SPREAD, noise**2 + TINY
    ratio = spread**2 / variance
    narrow = ratio / (2 + ratio / 2)  # log(1 + ratio) / 2, nearly: the same on every machine
    others, bundles = more**2 / variance, (more - told) ** 2 / (variance + spread**2)
    return np.where(np.minimum(others, bundles) <= FITS**2, (others - bundles) / 2 - narrow, 0.0)


def blame_bundles(
    model: UsageModel, seen: Seen, departed: Departed, shown: Shown, surprise: Floats, work: Floats
) -> UsageModel:
    """The model in which bundles cost, and always have, what departures have shown. Figures as of `Shown.of`."""
    assert model.drivers is not None
    brokers, bundles = model.brokers, model.bundles
    rest = np.maximum(brokers.base + surprise - model.drivers.base, 0.0)
    grown = np.where(shown.dear & (work > 0), 1 + rest / np.maximum(work, TINY), 1.0)
    growth = np.ones(len(bundles.names))
    growth[seen.bundle] = grown[seen.reporter]
    growth[departed.bundle] *= shown.times[departed.broker]
    return replace(
        model,
        brokers=replace(brokers, base=np.where(shown.dear, model.drivers.base, brokers.base)),
        bundles=replace(bundles, factor=bundles.factor * growth, variance=bundles.variance * growth**2),
    )
