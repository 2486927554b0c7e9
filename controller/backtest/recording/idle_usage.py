"""Estimates what a broker uses without any bundle: the part of its usage that stays when the replay moves its bundles.

For resources that are attributed to bundles by share (`controller.policy.view.costs`), the estimate is the first of:
- the median usage in steps in which the broker's bundles carried nothing;
- if usage follows traffic closely, the value of the regression line at no traffic;
- the same fraction of the limit as that of brokers that were idle at some time (their median);
- zero.
It never exceeds the broker's lowest usage. Bandwidth needs no estimate: bytes are known for every bundle.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.backtest.recording.recording import Floats, Recording
from controller.domain.load import BUNDLE_FIELDS, RESOURCES

ATTRIBUTED = tuple(RESOURCES.index(name) for name in ("cpu", "memory", "direct_memory", "disk_io"))
CLOSE = 0.8  # share of the variance that the regression line must explain
FEWEST = 8  # steps for a regression line
_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
_MESSAGES = [_F["msg_rate_in"], _F["msg_rate_out"]]
_BYTES = [_F["throughput_in"], _F["throughput_out"]]


def idle_usage(recording: Recording) -> Floats:
    """[B x R] in the units of the resources; 0 for resources that are known for every bundle."""
    traffic = _traffic(recording.totals)
    result = np.zeros(recording.usage.shape[1:])
    for resource in ATTRIBUTED:
        usage, limit = recording.usage[..., resource], recording.limit[..., resource]
        known = recording.member & np.isfinite(usage)
        idle = _columns(np.where(known & (traffic == 0), usage, np.nan), np.nanmedian)
        limits = _columns(np.where(known, limit, np.nan), np.nanmedian)
        share = idle / limits
        others = float(np.median(share[np.isfinite(share)])) if np.isfinite(share).any() else 0.0
        for broker in np.flatnonzero(~np.isfinite(idle)).tolist():
            at = known[:, broker]
            line = _at_no_traffic(traffic[at, broker], usage[at, broker])
            idle[broker] = line if line is not None else others * np.nan_to_num(limits[broker])
        lowest = _columns(np.where(known, usage, np.nan), np.nanmin)
        result[:, resource] = np.clip(idle, 0.0, np.nan_to_num(lowest))
    return result


def _traffic(totals: Floats) -> Floats:
    """[S x B] messages and bytes in + out, each divided by its overall mean, in equal parts."""
    parts = [totals[..., columns].sum(axis=-1) for columns in (_MESSAGES, _BYTES)]
    parts = [part / part.mean() for part in parts if part.any()]
    return np.asarray(sum(parts) / len(parts)) if parts else np.zeros(totals.shape[:2])


def _columns(values: Floats, figure: np.ufunc | object) -> Floats:
    """[B] a figure of each column, NaN for columns without a number."""
    some = np.isfinite(values).any(axis=0)
    result = np.full(values.shape[1], np.nan)
    if some.any():
        result[some] = figure(values[:, some], axis=0)  # type: ignore[operator]
    return result


def _at_no_traffic(traffic: NDArray[np.float64], usage: NDArray[np.float64]) -> float | None:
    """The least-squares line at no traffic; None if it explains too little."""
    if len(traffic) < FEWEST or np.ptp(traffic) == 0 or np.ptp(usage) == 0:
        return None
    deviation = traffic - traffic.mean()
    slope = float((deviation * usage).sum() / (deviation**2).sum())
    left = usage - usage.mean() - slope * deviation
    explained = 1.0 - float((left**2).sum() / ((usage - usage.mean()) ** 2).sum())
    return float(usage.mean() - slope * traffic.mean()) if slope > 0 and explained >= CLOSE else None
