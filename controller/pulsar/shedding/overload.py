"""OverloadShedder: brokers at or above a fixed usage shed traffic in proportion to the excess."""

from __future__ import annotations

from controller.domain.decision import Reason
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.arrays import Ints, LoadArrays, Shedding, enough, nothing_movable, quantise

ADDITIONAL_THRESHOLD_PERCENT_MARGIN = 0.05  # of the traffic, on top of the excess over the threshold


def shed_overload(load: LoadArrays, knobs: PulsarKnobs) -> Shedding:
    """What each overloaded broker sheds. There is no state between cycles, and no destination is considered.

    Surprise: the share of the traffic to shed is usage - threshold + 5 %, a difference of usages, rather than
    (usage - threshold) / usage. So a broker far above the threshold sheds too little.
    """
    threshold = knobs.load_balancer_broker_overloaded_threshold_percentage / 100.0
    chosen: dict[int, Ints] = {}
    reasons: dict[int, Reason] = {}
    hot = [at for at, usage in enumerate(load.usage.tolist()) if not usage < threshold]  # equality sheds
    evidence = {}
    for at in hot:
        needed = load.throughput[at] * (load.usage[at] - threshold + ADDITIONAL_THRESHOLD_PERCENT_MARGIN)
        evidence[at] = {"threshold": quantise(threshold), "throughput_to_shed": round(float(min(needed, 2.0**62)))}
        rows = enough(*load.heaviest_first(at, load.short_throughput), needed)
        if load.bundle_count[at] <= 1:  # moving a sole bundle would only move the overload
            reasons[at] = Reason.NO_BUNDLES
        elif len(rows):
            chosen[at] = rows
        else:
            reasons[at] = nothing_movable(load, at)
    return Shedding(Reason.OVERLOADED, chosen, reasons, evidence, frozenset(hot))
