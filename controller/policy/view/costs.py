"""What one bundle costs its broker on every resource, estimated from what the broker reported.

A broker reports its usage as a whole, and what each bundle carried. Usage that cannot be measured for one bundle is
attributed by the bundle's share of what drives that resource:

| resource | driver | attributed |
| --- | --- | --- |
| cpu | messages in + out and bytes in + out, half by each share (all by one when the other is 0) | share of usage |
| memory | storage + cache bytes | share of usage |
| direct_memory | bytes in + out (buffers in transit) | share of usage |
| bandwidth_in, bandwidth_out | bytes in, bytes out | the bytes themselves |
| disk_io | bytes in (what is stored) | share of usage |

Bundles of a broker that reports no usage (silent, restarted) are costed at the cluster-wide mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.domain.load import BUNDLE_FIELDS, RESOURCES

Floats = NDArray[np.float64]

_F = {name: i for i, name in enumerate(BUNDLE_FIELDS)}
_R = {name: i for i, name in enumerate(RESOURCES)}
_MESSAGES, _BYTES, _BYTES_IN, _BYTES_OUT, _STORED = range(5)
_DRIVEN_BY = (
    ("cpu", _MESSAGES), ("cpu", _BYTES), ("memory", _STORED), ("direct_memory", _BYTES), ("disk_io", _BYTES_IN),
)  # fmt: skip
_SHARED = ("cpu", "memory", "direct_memory", "disk_io")  # of what a broker used, no bundle gets more than all
_MEASURED = (("bandwidth_in", _BYTES_IN), ("bandwidth_out", _BYTES_OUT))


class UnitCosts(NamedTuple):
    """Usage per unit of each driver, by broker; the last row is for brokers that report no usage. None of what is
    measured."""

    per_unit: Floats  # [(B + 1) x D x R]
    ceiling: Floats  # [(B + 1) x R]: no bundle costs more than its broker used (infinite where unknown)


def unit_costs(usage: Floats, totals: Floats) -> UnitCosts:
    """Unit costs from brokers' usage [B x R] (NaN unknown) and the totals of their bundles [B x F]."""
    carried = _drivers(totals)
    per_unit = np.zeros((len(usage) + 1, len(carried), usage.shape[1]))
    for resource, driver in _DRIVEN_BY:
        used, units = usage[:, _R[resource]], carried[driver]
        weight = _cpu_weight(carried, driver) if resource == "cpu" else np.ones(len(units))
        known = np.isfinite(used) & (units > 0)
        per_unit[:-1, driver, _R[resource]][known] = weight[known] * used[known] / units[known]
        if known.any():
            everywhere = float((weight[known] * used[known]).sum() / units[known].sum())
            per_unit[:-1, driver, _R[resource]][~np.isfinite(used)] = everywhere
            per_unit[-1, driver, _R[resource]] = everywhere
    shared = [_R[resource] for resource in _SHARED]
    ceiling = np.full((len(usage) + 1, usage.shape[1]), np.inf)
    ceiling[:-1, shared] = np.where(np.isfinite(usage[:, shared]), usage[:, shared], np.inf)
    return UnitCosts(per_unit, ceiling)


def costs(unit: UnitCosts, reporter: NDArray[np.int64], share: Floats, fields: Floats) -> Floats:
    """[M x R] costs of M reports of a bundle by a broker. `reporter`: [M] index; -1 for one that reports no usage.

    `share`: [M] the part of the broker's reports in which the bundle appears; the ceiling applies to that part.
    """
    result = np.zeros((unit.ceiling.shape[1], len(fields))).T  # resource by resource in memory, as they are read
    drivers = _drivers(fields)
    for resource, driver in _DRIVEN_BY:
        per_unit = unit.per_unit[:, driver, _R[resource]]
        if per_unit.any():
            result[:, _R[resource]] += drivers[driver] * per_unit[reporter]
    for resource in _SHARED:
        ceiling = unit.ceiling[:, _R[resource]]
        if np.isfinite(ceiling).any():
            result[:, _R[resource]] = np.minimum(result[:, _R[resource]], ceiling[reporter] / share)
    for resource, driver in _MEASURED:
        result[:, _R[resource]] = drivers[driver]
    return result


def _drivers(fields: Floats) -> tuple[Floats, ...]:
    """[rows] each driver of resource usage, of bundles or of brokers' totals."""
    return (
        fields[:, _F["msg_rate_in"]] + fields[:, _F["msg_rate_out"]],
        fields[:, _F["throughput_in"]] + fields[:, _F["throughput_out"]],
        fields[:, _F["throughput_in"]],
        fields[:, _F["throughput_out"]],
        fields[:, _F["storage_bytes"]] + fields[:, _F["cache_bytes"]],
    )


def _cpu_weight(carried: Sequence[Floats], driver: int) -> Floats:
    """Half of the CPU is attributed by messages and half by bytes; all by one where the other is 0."""
    other = _BYTES if driver == _MESSAGES else _MESSAGES
    return np.where(carried[other] > 0, 0.5, 1.0)
