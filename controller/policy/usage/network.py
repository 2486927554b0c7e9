"""What brokers' networks carry: the bytes of their bundles, and a *surplus* of other bytes.

A reading of bandwidth errs by a few percent. The bytes of bundles are counted one by one, so their sum hardly errs; but
replication, protocols and other processes use the network as well, and only the reading has those. So the surplus of
readings over sums is followed: slowly while it may be noise, at once where it cannot be. It is never taken at once
below 0: after a sudden change of traffic a reading may still be of before. A full network says "at least". More bytes
than the network can carry, and many times what it reads, were counted wrong.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from controller.domain.load import RESOURCE_SCALES, RESOURCES, UNKNOWN
from controller.policy.usage.drivers import DRIVERS
from controller.policy.usage.model import UsageModel
from controller.policy.usage.seen import FULL, Seen
from controller.policy.view.costs import Floats
from controller.policy.view.estimates import NETWORKS
from controller.policy.view.frame import Frame, Ints

BYTES = dict(zip(NETWORKS, ("throughput_in", "throughput_out"), strict=True))  # of bundles, by network
PACE = 0.25  # of a difference that may be noise, each round
AT_ONCE = 0.12  # of a reading: no noise
MISCOUNTED = 3.0  # times a reading


def follow_networks(model: UsageModel, frame: Frame, seen: Seen) -> tuple[UsageModel, Ints]:
    """The model after this round, and [B x NETWORKS] the correction of its readings."""
    before = dict(zip(NETWORKS, (model.brokers.surplus_in, model.brokers.surplus_out), strict=True))
    after, corrections = dict(before), []
    for name in NETWORKS:
        at = RESOURCES.index(name)
        known = (frame.usage[:, at] != UNKNOWN) & (frame.limit[:, at] != UNKNOWN)
        reading, limit = frame.usage[:, at] / RESOURCE_SCALES[at], frame.limit[:, at] / RESOURCE_SCALES[at]
        carried = seen.traffic[:, DRIVERS.index(BYTES[name])]
        known &= (carried <= limit) | (carried <= MISCOUNTED * reading)
        after[name] = np.where(known, _follow(before[name], reading, carried, limit), before[name])
        correction = np.where(known, carried + after[name] - reading, 0.0)
        corrections.append(np.rint(correction * RESOURCE_SCALES[at]).astype(np.int64))
    surplus_in, surplus_out = after.values()
    brokers = replace(model.brokers, surplus_in=surplus_in, surplus_out=surplus_out)
    return replace(model, brokers=brokers), np.column_stack(corrections)


def _follow(surplus: Floats, reading: Floats, carried: Floats, limit: Floats) -> Floats:
    """[B] the surplus after a reading."""
    found = reading - carried
    found = np.where(reading >= FULL * limit, np.maximum(found, surplus), found)
    sudden = np.abs(found - surplus) > AT_ONCE * reading
    return np.where(sudden, np.maximum(found, np.minimum(surplus, 0.0)), surplus + PACE * (found - surplus))
