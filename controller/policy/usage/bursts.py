"""Which part of a load lasts: a rise that may end as it began is no reason to move anything.

A load clearly above what is usual for the bundle counts as a *burst* until it has lasted `PATIENCE` rounds; then it is
the usual one; where it ends within `LONGEST` rounds it was a burst all the same. `PATIENCE` outlasts a job of three
minutes. A bundle that had bursts is given two rounds more than the longest of them, for as long as that is remembered.
A rise in which most of the cluster's load takes part is given `PATIENCE` rounds, whatever its bundles did before. Slow
growth is never a burst. A fall changes what is usual once it has lasted, too: what comes back after a pause is no rise.

A broker's usage may rise as well while its bundles' traffic does not. Such a rise that is over at once is a *spike*. A
broker that had spikes, or is one of many brokers that had, is given as long as they lasted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.policy.usage.model import BrokerStates, BundleStates
from controller.policy.view.costs import Floats

Bools = NDArray[np.bool_]

PATIENCE = 4
CLEARLY = 1.35  # times the usual load
FALL_ROUNDS = 3  # a fall that is over before was a pause
PAUSES_APART = 5  # rounds since the last pause or burst: what goes up and down all the time has none
REMEMBERED = 180  # rounds
LONGEST = 15  # rounds: what stood for longer was worth a move, and is no burst when it ends
MOST = 0.5  # of all load: bursts of bundles are no reason to doubt a rise of more than that
OFTEN = 2  # times running that a load is back after no longer than it was there: that is how it is
NOISE_ROUNDS = 2  # a shorter burst is not remembered
SPIKE_ROUNDS = 3  # a rise of a broker's usage that is over by then was a spike
LEAST_SPIKE = 0.25  # of the limit: noise makes smaller ones
KNOWN_FROM = 1.5  # spikes, by age: two within two thirds of REMEMBERED
OF_MANY = (3, 0.25)  # so many of all brokers together, and a share of the brokers: then any of them may have one


def reprice(bundles: BundleStates, ratio: float) -> BundleStates:
    """The remembered loads, once the same traffic is thought to cost so many times as much."""
    if ratio == 1.0:
        return bundles
    usual = np.where(bundles.usual > 0, bundles.usual * ratio, bundles.usual)
    return replace(bundles, usual=usual, carried=bundles.carried * ratio)


def follow(
    bundles: BundleStates, load: Floats, seen: Floats, returning: Bools | None = None
) -> tuple[BundleStates, Floats]:
    """The states after a round with these loads [N], and [N] what part of each is expected to last.

    `seen`: [N] 1 where the round heard of the bundle, else 0; of others nothing changes. `returning`: [N] whose clients
    may be coming back: if they are not there this is a pause, whatever was before.
    """
    age = bundles.age + seen
    known = bundles.usual >= 0
    usual = np.where(known, bundles.usual, load)
    rising = known & (load > CLEARLY * usual)
    low = known & (load * CLEARLY < usual)
    up = np.where(rising, np.maximum(bundles.above, 0.0) + 1, 0.0)
    down = np.where(low, np.maximum(-bundles.above, 0.0) + 1, 0.0)
    fallen = _find_fallen(bundles, low, down, returning)
    first = fallen & (age - down < PATIENCE) & (bundles.stood == 0)  # what the first rounds showed was a burst
    ended = np.where(first, age - down, _rounds_of_ended(bundles, rising, fallen, down))
    memory, needed = recall(bundles.burst, bundles.since, ended, np.where(first, 1, NOISE_ROUNDS))
    since = np.where((bundles.above < 0) & ~low, 0.0, memory.since)  # a pause has ended
    if float(load[rising].sum()) > MOST * float(load.sum()):
        needed = np.minimum(needed, PATIENCE)
    often = _count_often(bundles, rising & (up == 1), memory)
    needed = np.where((bundles.burst > NOISE_ROUNDS) & (often >= OFTEN), 1, needed)
    stays = rising & (up >= needed)
    waits = (rising & ~stays) | (low & ~fallen)
    stood = np.where(stays, up, np.where((bundles.stood > 0) & ~fallen, bundles.stood + 1, 0.0))
    usual = np.where(waits, usual, load)
    columns: dict[str, Any] = {
        "usual": usual,
        "above": np.where(waits, up - down, 0.0),
        "stood": np.where(stood <= LONGEST, stood, 0.0),
        "burst": memory.burst,
        "since": since,
        "often": often,
    }
    heard = seen > 0
    if not heard.all():
        columns = {name: np.where(heard, column, getattr(bundles, name)) for name, column in columns.items()}
    lasting = np.where(load > 0, np.minimum(1.0, usual / np.where(load > 0, load, 1.0)), 1.0)
    return replace(bundles, age=age, **columns), lasting


def _count_often(bundles: BundleStates, returns: Bools, memory: Memory) -> Floats:
    """[N] how many times running a rise came back after no longer than such rises last. `returns`: who rises now."""
    soon = (bundles.burst > 0) & (memory.since <= bundles.burst)
    return np.where(returns, np.where(soon, bundles.often + 1, 0.0), bundles.often)


def _find_fallen(bundles: BundleStates, low: Bools, down: Floats, returning: Bools | None) -> Bools:
    """[N] whose load is low for good: a pause is over sooner, and does not follow another one, or a burst, at once."""
    again = bundles.since < PAUSES_APART
    if returning is not None:
        again &= ~returning
    return np.asarray((down >= FALL_ROUNDS) | (low & again))


def _rounds_of_ended(bundles: BundleStates, rising: Bools, fallen: Bools, down: Floats) -> Floats:
    """[N] rounds of the bursts that are over in this round, whether they counted as usual by then or not; else 0."""
    passed = np.where(rising, 0.0, np.maximum(bundles.above, 0.0))
    return passed + np.where(fallen, np.maximum(bundles.stood - down + 1, 0.0), 0.0)


def count_spikes(spikes: Floats, ended: Floats) -> Floats:
    """[B] the spikes of brokers after a round in which rises of `ended` rounds [B] ended (0: none)."""
    return spikes * (1 - 1 / REMEMBERED) + is_spike(ended)


def is_spike(ended: Floats) -> Bools:
    """Whether a rise of so many rounds that ended (0: none) was a spike."""
    return np.asarray((ended > 0) & (ended <= SPIKE_ROUNDS))


def rounds_of_spikes(brokers: BrokerStates) -> Floats:
    """[B] how long the next rise of a broker may last if it is another spike; 0: it has had none to speak of."""
    longest = np.where(brokers.burst <= SPIKE_ROUNDS, np.maximum(brokers.burst, 1.0), 1.0)
    least, share = OF_MANY
    if float(brokers.spikes.sum()) >= max(least, share * len(brokers.names)):
        return np.full(len(longest), longest.max(initial=1.0))
    return np.where(brokers.spikes >= KNOWN_FROM, longest, 0.0)


def find_spikes(brokers: BrokerStates, limit: Floats) -> Bools:
    """[B] whose usage is up now as it was in spikes before, and no longer than those lasted."""
    held_back = (brokers.passing >= LEAST_SPIKE * limit) & (brokers.above > 0)
    return np.asarray(held_back & (brokers.above <= rounds_of_spikes(brokers)))


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
