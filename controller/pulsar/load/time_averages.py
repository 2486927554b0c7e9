"""The moving averages that Pulsar's modular leader keeps for every bundle, as arrays that fit into a round's memory.

The maths is that of `load_data.TimeAverageMessageData`. Messages and bytes are kept as in + out, which is all that
shedding and placement use. Surprise: Pulsar adds a sample whenever any broker's report changes, so the time that its
"short" and "long" averages cover depends on the size of the cluster and on how much it changes; here every round is
one sample.

As JSON the memory takes about 60 bytes per bundle, half of them its name: 1.2 MB for 20,000 bundles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.pulsar.load.arrays import Ints
from controller.pulsar.load.load_data import NUM_LONG_SAMPLES, NUM_SHORT_SAMPLES, Floats

_RATE_UNIT = 1000.0  # rates are kept in thousandths, which keeps the memory small and free of rounding errors


@dataclass(frozen=True, eq=False)
class TimeAverages:
    """N bundles. `samples` saturates at 1,000; rates in messages/s and bytes/s, quantised."""

    bundles: tuple[str, ...]
    samples: Ints
    short_msg_rate: Floats
    short_throughput: Floats
    long_msg_rate: Floats

    def to_memory(self) -> dict[str, Any]:
        """The averages as JSON: names and whole numbers, in thousandths of a message/s and in bytes/s."""
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
    """Add one sample for each bundle ([N]). `memory`: the previous round's `to_memory`, {} in the first round.

    A bundle that no broker reported in the previous round starts from scratch: Pulsar drops its data as well.
    """
    samples, short_rate, short_bytes, long_rate = _align(memory, bundles)
    short, long = np.minimum(samples + 1, NUM_SHORT_SAMPLES), np.minimum(samples + 1, NUM_LONG_SAMPLES)
    return TimeAverages(
        bundles,
        long,
        np.rint(((short - 1) * short_rate + msg_rate) / short * _RATE_UNIT) / _RATE_UNIT,
        np.rint(((short - 1) * short_bytes + throughput) / short),
        np.rint(((long - 1) * long_rate + msg_rate) / long * _RATE_UNIT) / _RATE_UNIT,
    )


def _align(memory: Mapping[str, Any], bundles: tuple[str, ...]) -> tuple[Ints, Floats, Floats, Floats]:
    """The remembered averages in the order of these bundles. A new bundle has 0 samples."""
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
