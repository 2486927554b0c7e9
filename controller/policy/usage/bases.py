"""What brokers use without traffic. A new process starts with the common base, which the regression of drivers tells.

Balanced brokers hardly show a base: all of them use equal CPU for equal traffic. New processes without traffic show it
at once, and not only their own: if several agree, every known process has at least that base, and traffic costs so much
less; what each broker uses altogether is expected as before. Nobody's base is lowered. A process may be busy with its
own start, but then it seldom uses as much as the next one, and often more than a base would.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from controller.policy.usage.drivers import shift_to_base
from controller.policy.usage.model import BASE_SPREAD, UsageModel
from controller.policy.usage.seen import Seen, weigh
from controller.policy.view.costs import Floats

LEAST_NEW = 3  # processes without traffic that show a base
AGREE = 5.0  # standard deviations of a reading: so far apart they are at most
LARGEST_SHOWN = 0.3  # of their limit: more is hardly a base
NO_TRAFFIC = 0.05  # of what brokers have on average


def raise_bases(model: UsageModel, seen: Seen) -> UsageModel:
    """The model after new processes without traffic have shown the base of all others."""
    if model.drivers is None:
        return model
    shown = _shown_by_new(model, seen, weigh(seen.traffic, model.drivers.unit))
    rise = np.maximum(shown - np.nan_to_num(model.brokers.base, nan=np.inf), 0.0)
    drivers = shift_to_base(model.drivers, float(rise.sum()), seen.traffic.sum(axis=0))
    return replace(model, drivers=drivers, brokers=replace(model.brokers, base=model.brokers.base + rise))


def begin_bases(model: UsageModel, seen: Seen) -> UsageModel:
    """The model with the common base for new processes."""
    brokers, limit = model.brokers, np.where(np.isfinite(seen.limit), seen.limit, 0.0)
    new = np.isnan(brokers.base)
    states = replace(
        brokers,
        base=np.where(new, model.drivers.base if model.drivers is not None else 0.0, brokers.base),
        base_variance=np.where(new, (BASE_SPREAD * limit) ** 2, brokers.base_variance),
    )
    return replace(model, brokers=states)


def _shown_by_new(model: UsageModel, seen: Seen, load: Floats) -> float:
    """The base that new processes without traffic show for all brokers: what the least of them uses; 0 without any.
    `load`: [B] what brokers' traffic is thought to cost."""
    new = np.isnan(model.brokers.base) & np.isfinite(seen.usage) & (load <= NO_TRAFFIC * load.mean())
    usage = seen.usage[new]
    if len(usage) < LEAST_NEW:
        return 0.0
    least, most = float(usage.min()), float(usage.max())
    agree = most - least <= AGREE * model.noise * (least + most) / 2
    return least if agree and (usage <= LARGEST_SHOWN * seen.limit[new]).all() else 0.0
