"""Recorded load as arrays: what every bundle carried and what every broker used, step by step.

Made of load reports v1, whose figures are averages already: of several reports by one broker in a step the newest
counts, and so it does of two brokers that report one bundle. A broker without a report in a step is no member in it.
The same reports in any order give the same arrays and the same digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import BadRecord
from controller.domain.load import BUNDLE_FIELDS, RESOURCES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Recording:
    """S steps x B brokers x N bundles, names sorted. Steps without any report are left out of `at_ms`."""

    brokers: tuple[str, ...]
    bundles: tuple[str, ...]
    at_ms: Ints  # [S] the end of each step
    usage: Floats  # [S x B x R] NaN unknown
    limit: Floats  # [S x B x R] NaN unknown
    member: NDArray[np.bool_]  # [S x B]
    owner: Ints  # [S x N] who reported it, NOBODY
    fields: Floats  # [S x N x F] 0 where nobody reported it

    def digest(self) -> str:
        """SHA-256 of names and arrays: one key of stored results."""
        told = hashlib.sha256(repr((self.brokers, self.bundles)).encode())
        for array in (self.at_ms, self.usage, self.limit, self.member, self.owner, self.fields):
            told.update(repr((array.shape, array.dtype.str)).encode() + np.ascontiguousarray(array).tobytes())
        return told.hexdigest()


def from_reports(reports: Sequence[Mapping[str, Any]], step_ms: int) -> Recording:
    """The recording of load reports v1, in steps of `step_ms` (> 0). Raises BadRecord when there is no report."""
    if step_ms <= 0:
        raise BadRecord("recording", f"a step of {step_ms} ms: give one above 0")
    if not reports:
        raise BadRecord("recording", "no reports: nothing to run strategies on")
    ordered = sorted(reports, key=lambda r: (r["sent_ms"], r["broker"], r["incarnation"], r["sequence"]))
    brokers = tuple(sorted({r["broker"] for r in ordered}))
    bundles = tuple(sorted({b["bundle"] for r in ordered for b in r["bundles"]}))
    newest = {(r["sent_ms"] // step_ms, r["broker"]): r for r in ordered}
    steps = sorted({step for step, _ in newest})
    step_at, broker_at, bundle_at = ({key: at for at, key in enumerate(keys)} for keys in (steps, brokers, bundles))
    usage = np.full((len(steps), len(brokers), len(RESOURCES)), np.nan)
    limit = usage.copy()
    member = np.zeros(usage.shape[:2], bool)
    owner = np.full((len(steps), len(bundles)), NOBODY, np.int64)
    fields = np.zeros((len(steps), len(bundles), len(BUNDLE_FIELDS)))
    for (step, broker), report in sorted(newest.items(), key=lambda item: (item[1]["sent_ms"], item[0])):
        at = step_at[step], broker_at[broker]
        usage[at], limit[at] = _resources(report)
        member[at] = True
        held = np.array([bundle_at[b["bundle"]] for b in report["bundles"]], np.int64)
        owner[at[0], held] = at[1]
        fields[at[0], held] = np.array([[b[f] for f in BUNDLE_FIELDS] for b in report["bundles"]]).reshape(
            len(held), len(BUNDLE_FIELDS)
        )
    return Recording(
        brokers, bundles, (np.array(steps, np.int64) + 1) * step_ms, usage, limit, member, owner, fields
    )  # fmt: skip


def _resources(report: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """Usage and limit [R]; a usage below 0 or a limit of 0 or less is unknown."""
    told = np.array([[report["resources"][r][part] for r in RESOURCES] for part in ("usage", "limit")], np.float64)
    return np.where(told[0] < 0, np.nan, told[0]), np.where(told[1] <= 0, np.nan, told[1])
