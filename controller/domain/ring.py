"""The hash ring of one namespace: creation, lookup and the coverage check (invariant I2).

Creation follows Pulsar: step = 2^32 // n, the last boundary forced to 0xffffffff.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from controller.domain.errors import BadRecord, InvariantBroken
from controller.domain.ids import RING_END, Bundle

MAX_BUNDLES_AT_CREATION = 65_536


def initial_bundles(namespace: str, count: int) -> list[Bundle]:
    """The bundles of a new namespace, in ring order. Raises BadRecord for a count outside 1..65536."""
    if not 1 <= count <= MAX_BUNDLES_AT_CREATION:
        raise BadRecord("bundle_count", f"{count} is not in 1..{MAX_BUNDLES_AT_CREATION}")
    step = 2**32 // count
    bounds = [i * step for i in range(count)] + [RING_END]
    return [Bundle(namespace, a, b) for a, b in pairwise(bounds)]


def locate(bundles: Sequence[Bundle], hash_: int) -> Bundle:
    """The bundle of a ring-ordered, covering sequence that holds the hash.

    A hash on a boundary belongs to the bundle that starts there; 0xffffffff belongs to the last one, where Pulsar's own
    search would run past the list.
    """
    return bundles[min(bisect_right(bundles, hash_, key=lambda b: b.lower) - 1, len(bundles) - 1)]


def check_cover(namespace: str, bundles: Iterable[Bundle]) -> None:
    """Raise InvariantBroken unless the bundles cover the ring exactly, without overlap (I2)."""
    at = 0
    for bundle in sorted(bundles):
        if bundle.namespace != namespace or bundle.lower != at:
            raise InvariantBroken(f"I2: ring of {namespace} has a gap or overlap at 0x{at:08x}: next is {bundle}")
        at = bundle.upper
    if at != RING_END:
        raise InvariantBroken(f"I2: ring of {namespace} ends at 0x{at:08x}")
