"""Where a bundle is cut: Pulsar's four NamespaceBundleSplitAlgorithms, and its way to cut a range into equal parts.

All positions are hashes on the ring. None means that the algorithm finds no place to cut.
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
    """What an algorithm may look at. `loads` by topic name; a topic without one counts as unknown and is left out.

    `hashes`: of the topics, where they are known without the names.
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
    """The middle between the two topics in the middle, by hash.

    Surprise: where the two are neighbours on the ring the boundary is the lower one's own hash, and since lower bounds
    are inclusive that topic goes to the right.
    """
    hashes = sorted(request.hashes or _hashes(request.topics).tolist())
    if len(hashes) <= 1:
        return None
    left, right = hashes[max(len(hashes) // 2 - 1, 0)], hashes[len(hashes) // 2]
    return [left + (right - left) // 2]


def specified_positions_divide(request: SplitRequest, force: bool = False) -> list[int] | None:
    """Those of the asked positions that lie strictly inside; without `force` two topics are needed as well."""
    if not request.positions:
        raise BadRecord("split_positions", "no positions given: specified_positions_divide needs at least one")
    if not force and max(len(request.topics), len(request.hashes)) <= 1:
        return None
    inside = [at for at in sorted(request.positions) if request.lower < at < request.upper]
    return inside or None


def flow_or_qps_equally_divide(request: SplitRequest) -> list[int] | None:
    """Cuts along the ring so that no part is above a limit; None unless the bundle is above one by the difference.

    Surprise: topics with the same hash collapse into one (the later one's load counts twice, the earlier one's not at
    all), while the bundle's totals, which open the gate, count both.
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
    return _cuts(hashes, [by_hash[at] for at in hashes], request.max_msg_rate, max_bytes)


def _cuts(hashes: Sequence[int], loads: Sequence[TopicLoad], max_rate: float, max_bytes: float) -> list[int]:
    cuts: list[int] = []
    rate, throughput = loads[0]
    for at in range(1, len(hashes)):
        load = loads[at]
        full = rate > max_rate or throughput > max_bytes
        if full or rate + load.msg_rate > max_rate or throughput + load.throughput > max_bytes:
            cuts.append(hashes[at - 1] + (hashes[at] - hashes[at - 1]) // 2 + 1)
            rate, throughput = load
        else:
            rate, throughput = rate + load.msg_rate, throughput + load.throughput
    return cuts


ALGORITHMS: Mapping[str, Callable[[SplitRequest], list[int] | None]] = {
    "range_equally_divide": range_equally_divide,
    "topic_count_equally_divide": topic_count_equally_divide,
    "specified_positions_divide": specified_positions_divide,
    "flow_or_qps_equally_divide": flow_or_qps_equally_divide,
}


def boundaries(name: str, request: SplitRequest, default: str = DEFAULT_ALGORITHM) -> list[int] | None:
    """What the named algorithm says; an unknown name falls back to the default, then to range_equally_divide."""
    algorithm = ALGORITHMS.get(name) or ALGORITHMS.get(default) or range_equally_divide
    return algorithm(request)


def equal_parts(lower: int, upper: int, parts: int) -> list[tuple[int, int]]:
    """The range in so many parts of (upper - lower) / parts; the remainder goes to the last. Raises ConfigError."""
    if parts < 2 or upper - lower < parts:
        raise ConfigError(f"0x{lower:08x}_0x{upper:08x} cannot be cut into {parts} parts")
    step = (upper - lower) // parts
    bounds = [lower + i * step for i in range(parts)] + [upper]
    return list(pairwise(bounds))


def children_at(lower: int, upper: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """The parts of a range that is cut at these positions."""
    bounds = [lower, *cuts, upper]
    return list(pairwise(bounds))


def _hashes(topics: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.fromiter(map(topic_hash, topics), np.int64, len(topics))
