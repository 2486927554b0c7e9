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


class UnitCosts(NamedTuple):
    """Usage per unit of each driver, by broker; the last row is for brokers that report no usage."""

    per_unit: Floats  # [(B + 1) x D x R]
    ceiling: Floats  # [(B + 1) x R]: no bundle costs more than its broker used (infinite where unknown)


def unit_costs(usage: Floats, totals: Floats) -> UnitCosts:
    """Unit costs from brokers' usage [B x R] (NaN unknown) and the totals of their bundles [B x F]."""
    carried = _drivers(totals)  # [B x D]
    per_unit = np.zeros((len(usage) + 1, carried.shape[1], usage.shape[1]))
    for resource, driver in _DRIVEN_BY:
        used, units = usage[:, _R[resource]], carried[:, driver]
        weight = _cpu_weight(carried, driver) if resource == "cpu" else np.ones(len(units))
        known = np.isfinite(used) & (units > 0)
        per_unit[:-1, driver, _R[resource]][known] = weight[known] * used[known] / units[known]
        if known.any():
            everywhere = float((weight[known] * used[known]).sum() / units[known].sum())
            per_unit[:-1, driver, _R[resource]][~np.isfinite(used)] = everywhere
            per_unit[-1, driver, _R[resource]] = everywhere
    per_unit[:, _BYTES_IN, _R["bandwidth_in"]] = 1.0
    per_unit[:, _BYTES_OUT, _R["bandwidth_out"]] = 1.0
    shared = [_R[r] for r in ("cpu", "memory", "direct_memory", "disk_io")]
    ceiling = np.full((len(usage) + 1, usage.shape[1]), np.inf)
    ceiling[:-1, shared] = np.where(np.isfinite(usage[:, shared]), usage[:, shared], np.inf)
    return UnitCosts(per_unit, ceiling)


def costs(unit: UnitCosts, reporter: NDArray[np.int64], share: Floats, fields: Floats) -> Floats:
    """[M x R] costs of M reports of a bundle by a broker. `reporter`: [M] index; -1 for one that reports no usage.

    `share`: [M] the part of the broker's reports in which the bundle appears; the ceiling applies to that part.
    """
    estimated = np.einsum("md,mdr->mr", _drivers(fields), unit.per_unit[reporter])
    return np.asarray(np.minimum(estimated, unit.ceiling[reporter] / share[:, None]))


def _drivers(fields: Floats) -> Floats:
    """[rows x D] drivers of resource usage, of bundles or of brokers' totals."""
    columns = (
        fields[:, _F["msg_rate_in"]] + fields[:, _F["msg_rate_out"]],
        fields[:, _F["throughput_in"]] + fields[:, _F["throughput_out"]],
        fields[:, _F["throughput_in"]],
        fields[:, _F["throughput_out"]],
        fields[:, _F["storage_bytes"]] + fields[:, _F["cache_bytes"]],
    )
    return np.column_stack(columns)


def _cpu_weight(carried: Floats, driver: int) -> Floats:
    """Half of the CPU is attributed by messages and half by bytes; all by one where the other is 0."""
    other = _BYTES if driver == _MESSAGES else _MESSAGES
    return np.where(carried[:, other] > 0, 0.5, 1.0)
