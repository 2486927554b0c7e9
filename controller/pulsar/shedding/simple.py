"""The shedding described in the documentation of Pulsar 2.5: the excess over 85 % usage, plus 5 %, of the traffic.

A broker at 95 % CPU sheds bundles with at least (95 % - 85 %) + 5 % = 15 % of its traffic, those with the most traffic
first, and none that was shed within 30 minutes. Usage is the highest of CPU, network and memory, unweighted and
including heap memory: that is the difference from OverloadShedder.
"""

from __future__ import annotations

from dataclasses import replace

from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.arrays import LoadArrays, Shedding, quantise
from controller.pulsar.load.load_data import Floats
from controller.pulsar.shedding.overload import shed_overload


def shed_simple(load: LoadArrays, highest_usage: Floats, knobs: PulsarKnobs) -> Shedding:
    """What each broker at or above the threshold sheds. `highest_usage`: [B] of all its resources, as fractions."""
    shedding = shed_overload(replace(load, usage=highest_usage), knobs)
    seen = {at: {**figures, "highest_usage": quantise(highest_usage[at])} for at, figures in shedding.evidence.items()}
    return replace(shedding, evidence=seen)
