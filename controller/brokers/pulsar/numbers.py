"""Values in Pulsar's answers. JSON allows anything where a number is expected; what is none counts as not told."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

NoObject: TypeAlias = list[Any] | str | int | float | bool | None  # what may stand where an object is expected
LARGEST = 1e15
UNKNOWN = {"usage": -1.0, "limit": -1.0}


def number(value: Any) -> float | None:
    """A finite number that is not absurdly large; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and abs(found) <= LARGEST else None


def amount(value: Any) -> float:
    """A rate or a count: a number of at least 0; 0 for anything else."""
    if (type(value) is float or type(value) is int) and 0 <= value <= LARGEST:  # nearly always
        return float(value)
    found = number(value)
    return max(found, 0.0) if found is not None else 0.0


def usage_of(resource: Any) -> dict[str, float]:
    """`{"usage", "limit"}` of a resource; unknown (-1) where either is no number or the usage is negative.

    Pulsar's limit of -1000 for an unknown network card stays as it is.
    """
    if not isinstance(resource, dict):
        return dict(UNKNOWN)
    usage, limit = number(resource.get("usage")), number(resource.get("limit"))
    if usage is None or limit is None or (usage < 0 and limit > 0):
        return dict(UNKNOWN)
    return {"usage": usage, "limit": limit}
