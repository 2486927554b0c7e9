"""Names of the field's brokers and bundles; sorted by name is sorted by number."""

from __future__ import annotations

BUNDLES_A_NAMESPACE = 16


def broker_name(number: int) -> str:
    """`broker-007:8080`."""
    return f"broker-{number:03d}:8080"


def bundle_names(count: int, a_namespace: int = BUNDLES_A_NAMESPACE) -> tuple[str, ...]:
    """Names of so many bundles, `a_namespace` of them (the last has the rest) in equal ranges of a namespace."""
    width = 2**32 // a_namespace
    ranges = [f"0x{at * width:08x}_0x{min((at + 1) * width, 2**32 - 1):08x}" for at in range(a_namespace)]
    return tuple(f"field/ns{at // a_namespace:04d}/{ranges[at % a_namespace]}" for at in range(count))
