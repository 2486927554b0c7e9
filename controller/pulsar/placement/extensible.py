"""Where the extensible manager puts a bundle: LeastResourceUsageWithWeight of the extensions.

Unlike its namesake of the modular manager it keeps no history of its own: the brokers report the average themselves.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controller.domain.settings.pulsar import PulsarKnobs


class Choice(NamedTuple):
    """`broker` None: no candidate. `among`: those it was drawn from, sorted."""

    broker: str | None
    among: tuple[str, ...]


def select(candidates: Iterable[str], loads: Mapping[str, float], knobs: PulsarKnobs, seed: int) -> Choice:
    """One of the brokers at least the difference threshold below the mean, drawn with the seed.

    `loads`: weightedMaxEMA by broker, fractions; a broker without load data is not in it.

    Surprise: where no broker is that far below the mean one of *all* candidates is drawn, those without load data and
    those above the overload threshold included (an overloaded one costs a line in the log, no more). Nothing counts
    what was just placed, so many lookups within one report go to the same few brokers.
    """
    everyone = sorted(set(candidates))
    known = [broker for broker in everyone if broker in loads]
    best: list[str] = []
    if known:
        mean = sum(loads[broker] for broker in known) / len(known)
        margin = knobs.load_balancer_average_resource_usage_difference_threshold_percentage / 100.0
        best = [broker for broker in known if loads[broker] + margin <= mean]
    among = tuple(best or everyone)
    if not among:
        return Choice(None, ())
    return Choice(among[random.Random(seed).randrange(len(among))], among)
