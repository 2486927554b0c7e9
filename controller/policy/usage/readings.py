"""Which readings of CPU say something new, and which changes of traffic they may not show yet.

Traffic and usage are not measured at the same moment. After a sudden change of what is expected of a broker, this
round's reading may be of the time before. Pulsar's brokers look at their CPU only once a minute, and then tell the mean
of that minute. With rounds closer together the same figure comes again and again, and averages over a window mix two of
them. Of a broker whose figures *stand* like this, as panes or rounds have told, nothing is learned after a sudden
change until a figure has come a minute later, and has come again; until then its traffic tells. A figure that has stood
for a minute itself, or for two where panes tell it, is believed, and after five minutes of changes every figure is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from controller.policy.usage.figures import Figure
from controller.policy.usage.model import NEVER, UsageModel
from controller.policy.usage.seen import Seen, sum_by, weigh
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints

SUDDEN = 0.1  # of what is expected of a broker: a smaller change counts as shown at once
OLDEST_MS = 60_000  # a reading is the mean of at most so long, and stands for as long
STANDS, FADES = 0.4, 0.8  # four new figures in a row may be mixtures; after a fifth a broker's figures stand no more
LONGEST_MS = 300_000  # that changes keep a broker from being learned of


def follow_readings(
    model: UsageModel, seen: Seen, by_traffic: bool = False, figures: Mapping[str, Figure] = MappingProxyType({})
) -> tuple[UsageModel, Seen]:
    """The model with this round's readings, and what was seen without those that say nothing new. `by_traffic`: nor
    does one that comes with a sudden change. `figures`: of brokers whose figures are known to stand; they take the
    place of averages over the window."""
    brokers, at_ms, sudden = model.brokers, float(seen.at_ms), _sudden(model, seen)
    minute_apart = at_ms - brokers.read_ms >= OLDEST_MS
    told, since_ms = (
        np.array([getattr(figures[name], what) if name in figures else np.nan for name in brokers.names], np.float64)
        for what in ("value", "since_ms")
    )
    known = np.isfinite(told) & np.isfinite(seen.usage)
    seen = replace(seen, usage=np.where(known, told, seen.usage))
    again = seen.usage == brokers.reading
    read_ms = np.where(known, since_ms, np.where(again, brokers.read_ms, at_ms))
    stands = np.where(again, np.where(at_ms - read_ms < OLDEST_MS, 1.0, brokers.stands), FADES * brokers.stands)
    stands = np.where(known, 1.0, stands)
    changed_ms = np.where(sudden > 0, at_ms, brokers.changed_ms)
    began_ms = np.where((sudden > 0) & (brokers.began_ms == NEVER), at_ms, brokers.began_ms)
    shown = (again | known) & ((read_ms - changed_ms >= OLDEST_MS) | (at_ms - read_ms >= (1 + known) * OLDEST_MS))
    over = shown | (at_ms - began_ms > LONGEST_MS) | (stands < STANDS)
    changed_ms, began_ms = (np.where(over, NEVER, at) for at in (changed_ms, began_ms))
    pursued = brokers.above > 0  # a surprise that is being held back began before the change
    old = ((began_ms != NEVER) | (by_traffic & (sudden > 0))) & ~pursued
    brokers = replace(
        brokers,
        reading=seen.usage,
        read_ms=read_ms,
        stands=stands,
        changed_ms=changed_ms,
        began_ms=began_ms,
    )
    usage, unshown = np.where(old, np.nan, seen.usage), np.where(pursued, 0.0, sudden)
    return replace(model, brokers=brokers), replace(seen, usage=usage, unshown=unshown, minute_apart=minute_apart)


def _sudden(model: UsageModel, seen: Seen) -> Floats:
    """[B] by how much more or less is expected of a broker's bundles than in the round before, beyond what counts as
    shown at once; 0 for a new process."""
    brokers = model.brokers
    if model.drivers is None:
        return np.zeros(len(brokers.names))
    before, now = work_before_and_now(model, seen)
    unnamed = weigh(seen.unnamed, model.drivers.unit)
    expected = np.nan_to_num(brokers.base) + brokers.speed * (now + unnamed)
    sudden = np.maximum(np.abs(brokers.speed * (now - before)) - SUDDEN * expected, 0.0)
    return np.where(np.isnan(brokers.error), 0.0, sudden)


def work_before_and_now(model: UsageModel, seen: Seen) -> tuple[Floats, Floats]:
    """[B] each: what brokers' bundles were expected to take in the round before, and what they are now, on the usual
    broker."""
    assert model.drivers is not None
    bundles, count = model.bundles, len(model.brokers.names)
    carried = np.flatnonzero(bundles.carrier >= 0)
    carrier: Ints = bundles.carrier[carried].astype(np.int64)
    before = sum_by(carrier, bundles.carried[carried] * bundles.factor[carried], count)
    load = weigh(seen.rows, model.drivers.unit) * bundles.factor[seen.bundle]
    return before, sum_by(seen.reporter, load, count)
