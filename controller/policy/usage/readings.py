"""Which readings of CPU are new, and which changes of traffic they may not show yet.

Traffic and usage are not measured at the same moment: Pulsar's brokers look at their CPU once a minute, and then tell
the mean of that minute. So after a sudden change of what is expected of a broker, a reading may be of the time before,
in whole or in part. With rounds closer together than readings the same figure comes again and again. After such a
change it says nothing new, for as long as a reading may be old; without one it does no harm.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from controller.policy.usage.model import BrokerStates, UsageModel
from controller.policy.usage.seen import Seen, sum_by, weigh
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints

SUDDEN = 0.1  # of what is expected of a broker: a smaller change counts as shown at once
OLDEST_MS = 60_000  # a figure that still repeats is no old reading any more


def follow_readings(model: UsageModel, seen: Seen) -> tuple[UsageModel, Seen]:
    """The model with this round's readings, and what was seen without those that say nothing new."""
    brokers = _note(model, seen)
    pursued = brokers.above > 0  # a surprise that is being held back began before the change
    old = (brokers.read_ms < seen.at_ms) & (brokers.unshown + brokers.pending > 0) & ~pursued
    return replace(model, brokers=brokers), replace(seen, usage=np.where(old, np.nan, seen.usage))


def _note(model: UsageModel, seen: Seen) -> BrokerStates:
    brokers, sudden = model.brokers, _sudden(model, seen)
    again = (seen.usage == brokers.reading) & (seen.at_ms - brokers.read_ms < OLDEST_MS)
    changed = brokers.pending + sudden
    return replace(
        brokers,
        reading=seen.usage,
        read_ms=np.where(again, brokers.read_ms, float(seen.at_ms)),
        unshown=np.where(again, brokers.unshown, changed),
        pending=np.where(again, changed, 0.0),
    )


def _sudden(model: UsageModel, seen: Seen) -> Floats:
    """[B] by how much more or less is expected of a broker's bundles than in the round before, beyond what counts as
    shown at once; 0 for a new process."""
    brokers, bundles, count = model.brokers, model.bundles, len(model.brokers.names)
    if model.drivers is None:
        return np.zeros(count)
    carried = np.flatnonzero(bundles.carrier >= 0)
    carrier: Ints = bundles.carrier[carried].astype(np.int64)
    before = sum_by(carrier, bundles.carried[carried] * bundles.factor[carried], count)
    now = sum_by(seen.reporter, weigh(seen.rows, model.drivers.unit) * bundles.factor[seen.bundle], count)
    unnamed = weigh(seen.unnamed, model.drivers.unit)
    expected = np.nan_to_num(brokers.base) + brokers.speed * (now + unnamed)
    sudden = np.maximum(np.abs(brokers.speed * (now - before)) - SUDDEN * expected, 0.0)
    return np.where(np.isnan(brokers.error), 0.0, sudden)
