"""Chooses split boundaries as Pulsar does: its four NamespaceBundleSplitAlgorithms, and ranges of equal size.

All positions are hashes on the ring. An algorithm returns None if it finds no boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from controller.domain.errors import BadRecord, ConfigError
from controller.domain.ids import topic_hash
from controller.pulsar.load.load_data import MIB

DEFAULT_ALGORITHM = "range_equally_divide"


class TopicLoad(NamedTuple):
    """One topic's traffic, in + out: messages/s and bytes/s."""

    msg_rate: float
    throughput: float


class SplitRequest(NamedTuple):
    """The input of an algorithm. `loads`: by topic name; topics without a load are ignored.

    `hashes`: hashes of the topics, if they are known without the names.
    """

    lower: int
    upper: int
    topics: Sequence[str] = ()
    hashes: Sequence[int] = ()
    positions: Sequence[int] = ()
    loads: Mapping[str, TopicLoad] = {}
    max_msg_rate: float = 30_000.0
    max_bandwidth_mbytes: float = 100.0
    difference_percentage: float = 10.0


def range_equally_divide(request: SplitRequest) -> list[int] | None:
    """The middle of the range. Of 0x00000000_0xffffffff that is 0x7fffffff: the upper bound is not 2^32."""
    return [request.lower + (request.upper - request.lower) // 2]


def topic_count_equally_divide(request: SplitRequest) -> list[int] | None:
    """The midpoint between the two median topics, by hash.

    Surprise: if the two are neighbours on the ring, the boundary is the lower one's own hash; since lower bounds are
    inclusive, that topic goes to the right.
    """
    hashes = sorted(request.hashes or _hashes(request.topics).tolist())
    if len(hashes) <= 1:
        return None
    left, right = hashes[max(len(hashes) // 2 - 1, 0)], hashes[len(hashes) // 2]
    return [left + (right - left) // 2]


def specified_positions_divide(request: SplitRequest, force: bool = False) -> list[int] | None:
    """The requested positions that lie strictly inside the range; without `force`, at least two topics are required."""
    if not request.positions:
        raise BadRecord("split_positions", "no positions given: specified_positions_divide needs at least one")
    if not force and max(len(request.topics), len(request.hashes)) <= 1:
        return None
    inside = [at for at in sorted(request.positions) if request.lower < at < request.upper]
    return inside or None


def flow_or_qps_equally_divide(request: SplitRequest) -> list[int] | None:
    """Boundaries that keep every part below the limits; None unless the bundle exceeds a limit by the difference.

    Surprise: topics with the same hash collapse into one (the later one's load counts twice, the earlier one's not at
    all), while the bundle's totals, which decide whether to split at all, count both.
    """
    if len(request.topics) <= 1:
        return None
    known = [topic for topic in request.topics if topic in request.loads]
    active = [t for t in known if request.loads[t].msg_rate > 0 or request.loads[t].throughput > 0]
    by_hash = dict(zip(_hashes(active).tolist(), (request.loads[topic] for topic in active), strict=True))
    max_bytes = request.max_bandwidth_mbytes * MIB
    slack = 1 + request.difference_percentage / 100.0
    rate = sum(request.loads[topic].msg_rate for topic in active)
    throughput = sum(request.loads[topic].throughput for topic in active)
    if len(by_hash) < 2 or (rate < request.max_msg_rate * slack and throughput < max_bytes * slack):
        return None
    hashes = np.sort(_hashes(active)).tolist()  # with the doubles, as in Pulsar
    return _boundaries_below(hashes, [by_hash[at] for at in hashes], request.max_msg_rate, max_bytes)


def _boundaries_below(
    hashes: Sequence[int], loads: Sequence[TopicLoad], max_rate: float, max_bytes: float
) -> list[int]:
    found: list[int] = []
    rate, throughput = loads[0]
    for at in range(1, len(hashes)):
        load = loads[at]
        full = rate > max_rate or throughput > max_bytes
        if full or rate + load.msg_rate > max_rate or throughput + load.throughput > max_bytes:
            found.append(hashes[at - 1] + (hashes[at] - hashes[at - 1]) // 2 + 1)
            rate, throughput = load
        else:
            rate, throughput = rate + load.msg_rate, throughput + load.throughput
    return found


ALGORITHMS: Mapping[str, Callable[[SplitRequest], list[int] | None]] = {
    "range_equally_divide": range_equally_divide,
    "topic_count_equally_divide": topic_count_equally_divide,
    "specified_positions_divide": specified_positions_divide,
    "flow_or_qps_equally_divide": flow_or_qps_equally_divide,
}


def boundaries(name: str, request: SplitRequest, default: str = DEFAULT_ALGORITHM) -> list[int] | None:
    """The boundaries of the named algorithm; unknown names fall back to the default, then to range_equally_divide."""
    algorithm = ALGORITHMS.get(name) or ALGORITHMS.get(default) or range_equally_divide
    return algorithm(request)


def equal_parts(lower: int, upper: int, parts: int) -> list[tuple[int, int]]:
    """`parts` ranges of (upper - lower) / parts hashes each; the last takes the remainder. Raises ConfigError."""
    if parts < 2 or upper - lower < parts:
        raise ConfigError(f"0x{lower:08x}_0x{upper:08x} cannot be cut into {parts} parts")
    step = (upper - lower) // parts
    bounds = [lower + i * step for i in range(parts)] + [upper]
    return list(pairwise(bounds))


def children_at(lower: int, upper: int, boundaries: Sequence[int]) -> list[tuple[int, int]]:
    """The parts of a range that is split at these boundaries."""
    bounds = [lower, *boundaries, upper]
    return list(pairwise(bounds))


def _hashes(topics: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.fromiter(map(topic_hash, topics), np.int64, len(topics))
