"""Placement strategy of the extensible manager: LeastResourceUsageWithWeight of the extensions.

Unlike its namesake in the modular manager it keeps no history: the brokers themselves report an average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from controller.domain.settings.pulsar import PulsarKnobs


class Choice(NamedTuple):
    """`broker`: None without candidates. `among`: the brokers it was drawn from, sorted."""

    broker: str | None
    among: tuple[str, ...]


def select(
    candidates: Iterable[str], loads: Mapping[str, float], knobs: PulsarKnobs, draw_below: Callable[[int], int]
) -> Choice:
    """Draw one of the brokers that are at least the difference threshold below the mean.

    `loads`: weightedMaxEMA by broker, as fractions, without brokers that have no load data. `draw_below(n)` returns a
    number from 0 to n - 1.

    Surprise: if no broker is that far below the mean, Pulsar draws from *all* candidates, including those without load
    data and those above the overload threshold (which are only logged). Bundles placed just now are not counted, so
    many lookups between two reports go to the same few brokers.
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
    return Choice(among[draw_below(len(among))], among)
