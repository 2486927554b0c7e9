"""The moving averages that Pulsar's modular leader keeps of every bundle, as arrays that a round's memory can hold.

The maths is `load_data.TimeAverageMessageData`'s; messages and bytes are kept as in + out, which is all that shedding
and placement look at. Surprise: Pulsar adds a sample whenever any broker's report changes, so that the time its
"short" and "long" cover depends on the cluster's size and unrest; here a sample is a round.

As JSON the memory takes some 60 bytes a bundle, half of them its name: 1.2 MB for 20,000 bundles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.pulsar.load.arrays import Ints
from controller.pulsar.load.load_data import NUM_LONG_SAMPLES, NUM_SHORT_SAMPLES, Floats

_RATE_UNIT = 1000.0  # rates are kept in thousandths, so that the memory is short and reads back as it was


@dataclass(frozen=True, eq=False)
class TimeAverages:
    """N bundles. `samples` saturates at 1,000; rates in messages/s and bytes/s, quantised."""

    bundles: tuple[str, ...]
    samples: Ints
    short_msg_rate: Floats
    short_throughput: Floats
    long_msg_rate: Floats

    def to_memory(self) -> dict[str, Any]:
        """Names and whole numbers: thousandths of a message/s, bytes/s."""
        return {
            "bundles": self.bundles,
            "samples": self.samples.tolist(),
            "short_msg_rate": _whole(self.short_msg_rate * _RATE_UNIT),
            "short_throughput": _whole(self.short_throughput),
            "long_msg_rate": _whole(self.long_msg_rate * _RATE_UNIT),
        }


def next_averages(
    memory: Mapping[str, Any], bundles: tuple[str, ...], msg_rate: Floats, throughput: Floats
) -> TimeAverages:
    """One sample for each bundle ([N]). `memory`: what `to_memory` gave in the round before, {} in the first.

    A bundle that nobody reported in the round before starts anew: Pulsar drops its data as well.
    """
    samples, short_rate, short_bytes, long_rate = _aligned(memory, bundles)
    short, long = np.minimum(samples + 1, NUM_SHORT_SAMPLES), np.minimum(samples + 1, NUM_LONG_SAMPLES)
    return TimeAverages(
        bundles,
        long,
        np.rint(((short - 1) * short_rate + msg_rate) / short * _RATE_UNIT) / _RATE_UNIT,
        np.rint(((short - 1) * short_bytes + throughput) / short),
        np.rint(((long - 1) * long_rate + msg_rate) / long * _RATE_UNIT) / _RATE_UNIT,
    )


def _aligned(memory: Mapping[str, Any], bundles: tuple[str, ...]) -> tuple[Ints, Floats, Floats, Floats]:
    """What is remembered of each of these bundles; 0 samples of one that is new."""
    known = memory.get("bundles", ())
    samples = np.array(memory.get("samples", ()), np.int64)
    columns = np.array(
        [memory.get(name, ()) for name in ("short_msg_rate", "short_throughput", "long_msg_rate")], np.float64
    ).reshape(3, len(samples))
    if known is not bundles and tuple(known) != bundles:
        place = {name: at for at, name in enumerate(known)}
        at = np.array([place.get(name, -1) for name in bundles], np.int64)
        samples = np.append(samples, 0)[at]  # -1 is the one appended
        columns = np.hstack([columns, np.zeros((3, 1))])[:, at]
    return samples, columns[0] / _RATE_UNIT, columns[1], columns[2] / _RATE_UNIT


def _whole(values: Floats) -> list[int]:
    result: list[int] = np.rint(values).astype(np.int64).tolist()
    return result
