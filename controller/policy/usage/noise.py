"""The noise of readings of CPU, as a share of what is read: learned from brokers whose traffic stays as it is.

Two readings in a row of such a broker differ by the noise of both. The median over the brokers counts, so what begins
or ends on fewer than half of them teaches nothing, and it is followed slowly. A figure that came again is no second
reading, one at its limit is cut off, and of a broker that is hardly used a reading's last digit is more than noise.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np

from controller.policy.usage.model import UsageModel
from controller.policy.usage.readings import work_before_and_now
from controller.policy.usage.seen import FULL, Seen
from controller.policy.view.costs import Floats
from controller.policy.view.median import median

AS_IT_WAS = 0.02  # of a reading, that the CPU its traffic is worth may change by: a larger change may be told later
LEAST_USED = 0.05  # of the limit
LEAST_BROKERS = 3
OF_BOTH = 0.6744897501960817 * sqrt(2.0)  # median difference of two readings, in standard deviations of one
PACE, MOST_TIMES = 0.1, 2.0  # of the difference, each round; times what is known, that one round counts for
SMALLEST, LARGEST = 0.01, 0.12


def follow_noise(model: UsageModel, seen: Seen, before: Floats) -> UsageModel:
    """The model after the differences of this round's usage and the readings of the round `before` [B]."""
    if model.drivers is None:
        return model
    now = seen.usage
    lower, higher = np.minimum(now, before), np.maximum(now, before)  # NaN, which tells nothing, if either is unknown
    work_before, work = work_before_and_now(model, seen)
    change = model.brokers.speed * (work - work_before)
    tells = (now != before) & (lower > LEAST_USED * seen.limit) & (higher < FULL * seen.limit)
    tells &= np.abs(change) <= AS_IT_WAS * lower
    tells &= ~np.isnan(model.brokers.error)  # this very process has been read before
    if np.count_nonzero(tells) < LEAST_BROKERS:
        return model
    differs = np.abs(now - before - change)[tells] / ((now + before)[tells] / 2)
    found = min(median(differs) / OF_BOTH, MOST_TIMES * model.noise)
    noise = model.noise + PACE * (found - model.noise)
    return replace(model, noise=min(max(noise, SMALLEST), LARGEST))
