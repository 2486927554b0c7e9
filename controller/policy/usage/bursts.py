"""Which part of a bundle's load lasts: a rise that may end as it began is no reason to move anything.

A load clearly above what is usual for the bundle counts as a *burst* until it has lasted `PATIENCE` rounds; then it is
the usual one; where it ends within `LONGEST` rounds it was a burst all the same. `PATIENCE` outlasts a job of three
minutes. A bundle that had bursts is given two rounds more than the longest of them, for as long as that is remembered.
A rise in which most of the cluster's load takes part is given `PATIENCE` rounds, whatever its bundles did before. Slow
growth is never a burst.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from controller.policy.usage.model import BundleStates
from controller.policy.view.costs import Floats

PATIENCE = 4
CLEARLY = 1.35  # times the usual load
REMEMBERED = 180  # rounds
LONGEST = 15  # rounds: what stood for longer was worth a move, and is no burst when it ends
MOST = 0.5  # of all load: bursts of bundles are no reason to doubt a rise of more than that
NOISE_ROUNDS = 2  # a shorter burst is not remembered


def reprice(bundles: BundleStates, ratio: float) -> BundleStates:
    """The remembered loads, once the same traffic is thought to cost so many times as much."""
    if ratio == 1.0:
        return bundles
    usual = np.where(bundles.usual > 0, bundles.usual * ratio, bundles.usual)
    return replace(bundles, usual=usual, carried=bundles.carried * ratio)


def follow(bundles: BundleStates, load: Floats, seen: Floats) -> tuple[BundleStates, Floats]:
    """The states after a round with these loads [N], and [N] what part of each is expected to last.

    `seen`: [N] 1 where the round heard of the bundle, else 0; of others nothing changes.
    """
    age = bundles.age + seen
    known = bundles.usual >= 0
    usual = np.where(known, bundles.usual, load)
    rising = known & (load > CLEARLY * usual)
    falling = known & (load * CLEARLY < usual)
    first = falling & (age <= PATIENCE) & (bundles.stood == 0)  # what the first rounds showed was a burst
    ended = np.where(first, age - 1, np.where(rising, 0.0, bundles.above) + np.where(falling, bundles.stood, 0.0))
    memory, needed = recall(bundles.burst, bundles.since, ended, np.where(first, 1, NOISE_ROUNDS))
    if float(load[rising].sum()) > MOST * float(load.sum()):
        needed = np.minimum(needed, PATIENCE)
    above = np.where(rising, bundles.above + 1, 0.0)
    stays = rising & (above >= needed)
    stood = np.where(stays, above, np.where((bundles.stood > 0) & ~falling, bundles.stood + 1, 0.0))
    usual = np.where(rising & ~stays, usual, load)
    columns: dict[str, Any] = {
        "usual": usual,
        "above": np.where(stays, 0.0, above),
        "stood": np.where(stood <= LONGEST, stood, 0.0),
        "burst": memory.burst,
        "since": memory.since,
    }
    heard = seen > 0
    if not heard.all():
        columns = {name: np.where(heard, column, getattr(bundles, name)) for name, column in columns.items()}
    lasting = np.where(load > 0, np.minimum(1.0, usual / np.where(load > 0, load, 1.0)), 1.0)
    return replace(bundles, age=age, **columns), lasting


class Memory(NamedTuple):
    """Of bursts: rounds of the longest, and rounds since the last one ended."""

    burst: Floats
    since: Floats


def recall(burst: Floats, since: Floats, ended: Floats, at_least: Floats | int) -> tuple[Memory, Floats]:
    """The memory after a round in which bursts of `ended` rounds ended (0: none), and how many rounds a rise has to
    last from now on. `at_least`: shorter ones are noise."""
    since = since + 1
    remembered = np.where(since <= REMEMBERED, burst, 0.0)
    over = (ended > 0) & (ended >= at_least)
    burst = np.where(over, np.maximum(remembered, ended), remembered)
    return Memory(burst, np.where(over, 0.0, since)), np.maximum(PATIENCE, np.where(burst > 0, burst + 2, 0.0))
