"""Sizes and rates as people write them: `100MB/s`, `1GiB`, `512kB`, or a plain number of bytes.

As in Pulsar, MB is MiB: k, M, G and T are powers of 1024 with or without the i. Lower-case b would be bits and is
refused rather than guessed.
"""

from __future__ import annotations

import re

_FACTORS = {"": 1, "k": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?:(?P<scale>[kKMGT]?)i?B)?(?P<rate>/s)?")


def parse_size_bytes(value: object) -> int:
    """A size in bytes; raises ValueError for anything else, also for a rate."""
    return _parse(value, rate=False)


def parse_rate_bytes_per_s(value: object) -> int:
    """A rate in bytes/s; text with a unit must end in `/s`. Raises ValueError for anything else."""
    return _parse(value, rate=True)


def _parse(value: object, *, rate: bool) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is no size")
    if isinstance(value, (int, float)):
        return _whole(float(value), value)
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is no size")
    has_unit = match["scale"] is not None
    if bool(match["rate"]) != (rate and has_unit):
        raise ValueError(f"{value!r} is {'no rate' if rate else 'no size'}")
    return _whole(float(match["number"]) * _FACTORS[match["scale"] or ""], value)


def _whole(number: float, value: object) -> int:
    if not 0 <= number < 2**63:  # also refuses NaN
        raise ValueError(f"{value!r} is out of range")
    return round(number)
