"""What brokers' networks carry: the bytes of their bundles, and a *surplus* of other bytes.

A reading of bandwidth errs by a few percent. The bytes of bundles are counted one by one, so their sum hardly errs; but
replication, protocols and other processes use the network as well, and only the reading has those. So the surplus of
readings over sums is followed: slowly while it may be noise, at once where it cannot be. It is never taken at once
below 0: after a sudden change of traffic a reading may still be of before. A full network says "at least". More bytes
than the network can carry, and many times what it reads, were counted wrong. A large rise of the surplus may be a
*spike* (`bursts`): it becomes a part of the surplus once it has lasted, and until then it counts, unless the broker has
had spikes before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from controller.domain.load import RESOURCE_SCALES, RESOURCES, UNKNOWN
from controller.policy.usage.bursts import LEAST_SPIKE, SPIKE_ROUNDS, Bools, is_spike, rounds_of_spikes
from controller.policy.usage.drivers import DRIVERS
from controller.policy.usage.model import UsageModel
from controller.policy.usage.seen import FULL, Seen
from controller.policy.view.costs import Floats
from controller.policy.view.estimates import NETWORKS
from controller.policy.view.frame import Frame, Ints
from controller.policy.view.median import median

BYTES = dict(zip(NETWORKS, ("throughput_in", "throughput_out"), strict=True))  # of bundles, by network
_SCALES = np.array([RESOURCE_SCALES[RESOURCES.index(name)] for name in NETWORKS], np.float64)
PACE = 0.25  # of a difference that may be noise, each round
AT_ONCE = 0.12  # of a reading: no noise
MISCOUNTED = 3.0  # times a reading


class _Network(NamedTuple):
    """One of the networks after a round; [B] each. `spike`: what counts now and may be over in a moment; `ended`: how
    many rounds a rise took that is over."""

    surplus: Floats
    rising: Floats
    correction: Floats
    spike: Floats
    ended: Floats


def follow_networks(model: UsageModel, frame: Frame, seen: Seen) -> tuple[UsageModel, Ints, Ints]:
    """The model after this round, and [B x NETWORKS] each: the correction of readings, and what of that is a spike such
    as the broker has had before."""
    before = model.brokers
    received = _follow_network(NETWORKS[0], frame, seen, before.surplus_in, before.rising_in)
    sent = _follow_network(NETWORKS[1], frame, seen, before.surplus_out, before.rising_out)
    ended = np.maximum(received.ended, sent.ended)
    brokers = replace(
        before,
        surplus_in=received.surplus,
        rising_in=received.rising,
        surplus_out=sent.surplus,
        rising_out=sent.rising,
        spikes=before.spikes + is_spike(ended),
    )
    likely = rounds_of_spikes(before) > 0
    corrections = _whole(received.correction, sent.correction)
    spikes = _whole(np.where(likely, received.spike, 0.0), np.where(likely, sent.spike, 0.0))
    return replace(model, brokers=brokers), corrections, spikes


def _whole(received: Floats, sent: Floats) -> Ints:
    """[B x NETWORKS] as estimates have them."""
    return np.rint(np.column_stack([received, sent]) * _SCALES).astype(np.int64)


def _follow_network(name: str, frame: Frame, seen: Seen, before: Floats, rising: Floats) -> _Network:
    at = RESOURCES.index(name)
    known = (frame.usage[:, at] != UNKNOWN) & (frame.limit[:, at] != UNKNOWN)
    reading, limit = frame.usage[:, at] / RESOURCE_SCALES[at], frame.limit[:, at] / RESOURCE_SCALES[at]
    carried = seen.traffic[:, DRIVERS.index(BYTES[name])]
    known &= (carried <= limit) | (carried <= MISCOUNTED * reading)
    surplus, traffic = reading - carried, sum(seen.traffic[:, DRIVERS.index(driver)] for driver in BYTES.values())
    rise = np.clip(surplus - before, 0.0, find_foreign(surplus, np.asarray(traffic), known))
    far = known & (rise > LEAST_SPIKE * limit)
    rounds = np.where(far, rising + 1, np.where(known, 0.0, rising))
    held = far & (rounds <= SPIKE_ROUNDS)
    spike = np.where(held, rise, 0.0)
    after = np.where(known & ~held, _follow(before, reading, carried, limit), before)
    correction = np.where(known, carried + after + spike - reading, 0.0)
    return _Network(after, rounds, correction, spike, np.where(known & ~far, rising, 0.0))


def find_foreign(surplus: Floats, traffic: Floats, known: Bools) -> Floats:
    """[B] the part of a surplus [B] that is not usual for so much traffic [B] of bundles. Replication grows with that,
    on all brokers alike, and goes where the bundles go."""
    telling = known & (traffic > 0)
    usual = max(0.0, median(surplus[telling] / traffic[telling])) if telling.any() else 0.0
    return np.where(known, np.maximum(surplus - usual * traffic, 0.0), 0.0)


def _follow(surplus: Floats, reading: Floats, carried: Floats, limit: Floats) -> Floats:
    """[B] the surplus after a reading."""
    found = reading - carried
    found = np.where(reading >= FULL * limit, np.maximum(found, surplus), found)
    sudden = np.abs(found - surplus) > AT_ONCE * reading
    return np.where(sudden, np.maximum(found, np.minimum(surplus, 0.0)), surplus + PACE * (found - surplus))
