"""The order in which Java iterates over a HashMap with string keys. Where it decides a tie in Pulsar, it does here too.

Source: java.util.HashMap with its default capacity and load factor, String.hashCode.
"""

from __future__ import annotations

from collections.abc import Sequence

_CAPACITY = 16
_LOAD_FACTOR = 0.75
_MASK = 0xFFFFFFFF


def hash_code(text: str) -> int:
    """String.hashCode as an unsigned number. It runs over UTF-16 units, so some characters count as two."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & _MASK
    return code


def hash_map_order(keys: Sequence[str]) -> list[int]:
    """Indices of the keys in the iteration order of a HashMap that holds them all; within a bin, in the given order."""
    capacity = _CAPACITY
    while len(keys) > capacity * _LOAD_FACTOR:
        capacity *= 2
    bins = []
    for key in keys:
        code = hash_code(key)
        bins.append((code ^ code >> 16) & (capacity - 1))
    return sorted(range(len(keys)), key=bins.__getitem__)
