"""A frame as the usage model reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.domain.load import FIELD_SCALES, IMPOSSIBLE_FACTOR, RESOURCE_SCALES, RESOURCES, UNKNOWN
from controller.policy.usage.drivers import DRIVER_COLUMNS, half_and_half
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Frame, Ints

CPU = RESOURCES.index("cpu")
FULL = 0.97  # of the limit: usage there is a lower bound
_FIELD_SCALES = np.array(FIELD_SCALES, np.float64)


@dataclass(frozen=True, eq=False)
class Seen:
    """A frame as the model reads it: B brokers, M rows "this broker reported that bundle"."""

    at_ms: int
    usage: Floats  # [B] CPU, NaN unknown
    limit: Floats  # [B] NaN unknown
    traffic: Floats  # [B x D] of all that the broker carried
    unnamed: Floats  # [B x D] of that, what no row names
    bundle: Ints  # [M]
    reporter: Ints  # [M]
    rows: Floats  # [M x D] traffic during the reporter's window
    full: Floats  # [N x D] traffic of each bundle
    unshown: Floats  # [B] CPU of a sudden change in this round, which its reading may not show; see `readings.py`
    minute_apart: NDArray[np.bool_]  # [B] whether this round is at least a minute after the last new reading

    @classmethod
    def of(cls, frame: Frame) -> Seen:
        """Of all reports of the frame."""
        reports, reporter, bundle = frame.broker("reports"), frame.row("reporter"), frame.row("bundle")
        of_row = frame.row("reports")
        share = np.minimum(1.0, of_row / np.maximum(reports[reporter], 1))
        fields = frame.row_fields.T[DRIVER_COLUMNS].T / _FIELD_SCALES[DRIVER_COLUMNS]  # column by column in memory
        rows = fields if (share == 1.0).all() else fields * share[:, None]
        count, size = len(frame.brokers), len(frame.bundles)
        named = sums_by(reporter, rows, count)
        totals = np.maximum((frame.totals / _FIELD_SCALES)[:, DRIVER_COLUMNS], named)
        if frame.one_row_each:
            full = fields * of_row[:, None] / np.maximum(of_row, 1.0)[:, None]
        else:
            weight = np.maximum(np.bincount(bundle, of_row, size), 1.0)
            full = sums_by(bundle, fields * of_row[:, None], size) / weight[:, None]
        known = (frame.usage[:, CPU] != UNKNOWN) & (frame.limit[:, CPU] != UNKNOWN) & (reports > 0)
        known &= frame.usage[:, CPU] <= IMPOSSIBLE_FACTOR * frame.limit[:, CPU]  # beyond, it is a misreading
        known &= (frame.usage[:, CPU] > 0) | ~totals.any(axis=1)  # nobody carries traffic without any CPU
        scale = RESOURCE_SCALES[CPU]
        return cls(
            at_ms=frame.at_ms,
            usage=np.where(known, frame.usage[:, CPU] / scale, np.nan),
            limit=np.where(known, frame.limit[:, CPU] / scale, np.nan),
            traffic=totals,
            unnamed=totals - named,
            bundle=bundle,
            reporter=reporter,
            rows=rows,
            full=full,
            unshown=np.zeros(count),
            minute_apart=np.zeros(count, bool),
        )


def weigh(traffic: Floats, unit: Floats) -> Floats:
    """[rows] CPU of traffic [rows x D], summed in order."""
    return np.asarray(
        traffic[:, 0] * unit[0] + traffic[:, 1] * unit[1] + traffic[:, 2] * unit[2] + traffic[:, 3] * unit[3]
    )


def shares_of_traffic(traffic: Floats) -> Floats:
    """[b] shares of the traffic [b x D], half by messages and half by bytes; all 0 if there is none."""
    totals = traffic.sum(axis=0)
    if not totals.any():
        return np.zeros(len(traffic))
    return weigh(traffic, half_and_half(totals) / np.where(totals > 0, totals, 1.0))


def sum_by(groups: Ints, values: Floats, count: int) -> Floats:
    """[count] sums of rows [M] by group."""
    return np.asarray(np.bincount(groups, values, count), np.float64)


def sums_by(groups: Ints, values: Floats, count: int) -> Floats:
    """[count x D] sums of rows [M x D] by group."""
    return np.column_stack([np.bincount(groups, values[:, at], count) for at in range(values.shape[1])])
