"""The method of Pulsar 2.5's documentation on shedding: what a broker is over 85 %, plus 5 %, of its traffic.

A broker at 95 % CPU sheds bundles with at least (95 % - 85 %) + 5 % = 15 % of its traffic, those with the highest
traffic first, and none that was shed within 30 minutes. "Usage" is CPU, network and memory, whichever is highest and
without weights: that, heap included, is where it differs from OverloadShedder.
"""

from __future__ import annotations

from dataclasses import replace

from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.arrays import LoadArrays, Shedding, quantised
from controller.pulsar.load.load_data import Floats
from controller.pulsar.shedding.overload import shed_overload


def shed_simple(load: LoadArrays, highest_usage: Floats, knobs: PulsarKnobs) -> Shedding:
    """What each broker at or above the threshold sheds. `highest_usage`: [B] of all its resources, as fractions."""
    shedding = shed_overload(replace(load, usage=highest_usage), knobs)
    seen = {at: {**figures, "highest_usage": quantised(highest_usage[at])} for at, figures in shedding.evidence.items()}
    return replace(shedding, evidence=seen)
