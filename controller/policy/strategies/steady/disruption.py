"""What a move does to those who use the bundle, relative to the other bundles of its broker, and what it must bring.

Each of sessions, unacknowledged messages and backlog counts by how it compares with the source's average bundle, and
bundles that moved lately cost more. 0 means that no client notices; the sum stays below 1.5.
"""

from __future__ import annotations

import numpy as np

from controller.domain.load import BUNDLE_FIELDS
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.snapshot import Snapshot

_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
SHARES = (("sessions", 0.5), ("unacked", 0.25), ("backlog_bytes", 0.25))
_NEEDED = ("sessions", "producers", "consumers", "unacked", "backlog_bytes")
RECENT_MS, RECENT_SHARE = 4 * 3_600_000, 0.5
UNNOTICED = 0.75  # of the least relief: what a move must bring that no client notices
GAIN_SHARE = 0.3  # of a gain, that the largest disruption takes off


def disruption(snapshot: Snapshot, bundles: Ints) -> Floats:
    """[n] of the bundles of one source; at least one."""
    fields = {name: snapshot.fields[bundles, _F[name]] for name in _NEEDED}
    fields["sessions"] = np.maximum(fields["sessions"], fields["producers"] + fields["consumers"])
    result = np.zeros(len(bundles))
    for name, share in SHARES:
        value = fields[name]
        mean = float(value.mean())
        if mean > 0:
            result += share * value / (value + mean)
    moved = snapshot.moved_at_ms[bundles]
    age = np.clip((snapshot.at_ms - moved) / RECENT_MS, 0.0, 1.0)
    return np.asarray(result + np.where(moved > 0, RECENT_SHARE * (1.0 - age), 0.0))


def least_relief_of(least_relief: float, *disruptions: Floats) -> Floats:
    """What moves with these disruptions must take off their source together; `least_relief` is the usual amount."""
    return np.asarray(least_relief * sum(disruptions, start=UNNOTICED))


def net_gain(gain: Floats, disruption: Floats) -> Floats:
    """The gain of a move, with what its disruption takes off."""
    return np.asarray(gain - np.abs(gain) * GAIN_SHARE * np.minimum(disruption, 1.0))
