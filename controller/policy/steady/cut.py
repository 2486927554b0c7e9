"""Split to balance: cut a bundle that nobody has room for, so that one part of it can move.

The boundary goes where the cumulative load of its topics comes closest to what should move; where the loads of single
topics are not known, it goes into the middle of the range. Whichever algorithm made them, of several possible
boundaries exactly one is taken (Pulsar's extensible manager refuses a split that has two).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from controller.domain.ids import Bundle


class Cut(NamedTuple):
    """A boundary strictly inside the bundle, the share of its load at or above it (None: not known), and how found."""

    boundary: int
    upper_share: float | None
    method: str


def middle(bundle: Bundle) -> Cut:
    """Where nothing is known of the topics."""
    return Cut(bundle.middle(), None, "middle")


def by_load(bundle: Bundle, topics: Mapping[int, float], wanted_share: float) -> Cut | None:
    """The boundary at which one part's load comes closest to `wanted_share` of the whole.

    `topics`: hash -> load of the bundle's topics (those of one hash added up). None when no boundary parts the load:
    fewer than two loaded hashes.
    """
    inside = sorted((at, load) for at, load in topics.items() if bundle.lower <= at <= bundle.upper and load > 0)
    whole = sum(load for _, load in inside)
    best: tuple[float, Cut] | None = None
    below = 0.0
    for (at, load), (following, _) in pairwise(inside):
        below += load
        upper = 1.0 - below / whole
        boundary = at + (following - at) // 2 + 1
        if boundary >= bundle.upper:  # the last hash of the ring belongs to the range below it
            continue
        distance = min(abs(upper - wanted_share), abs(1.0 - upper - wanted_share))
        if best is None or distance < best[0]:
            best = distance, Cut(boundary, upper, "cumulative_load")
    return None if best is None else best[1]


def choose(bundle: Bundle, boundaries: Sequence[int]) -> int | None:
    """Of several proposed boundaries the one nearest the middle that is strictly inside; None when there is none."""
    inside = [at for at in boundaries if bundle.lower < at < bundle.upper]
    return min(inside, key=lambda at: (abs(at - bundle.middle()), at), default=None)
