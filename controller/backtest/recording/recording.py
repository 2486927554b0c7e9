"""Recorded load as arrays: what every bundle carried and what every broker used, step by step.

Made of load reports v1, whose figures are averages already: of several reports by one broker in a step the newest
counts, and so it does of two brokers that report one bundle. A broker without a report in a step is no member in it.
The same reports in any order give the same arrays and the same digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import BadRecord
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.policy.view.frame import LATENCIES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Singles = NDArray[np.float32]  # seven digits: half the memory of a long recording
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Recording:
    """S steps x B brokers x N bundles, names sorted. Steps without any report are left out of `at_ms`."""

    brokers: tuple[str, ...]
    bundles: tuple[str, ...]
    at_ms: Ints  # [S] the end of each step
    usage: Floats  # [S x B x R] NaN unknown
    limit: Floats  # [S x B x R] NaN unknown
    totals: Floats  # [S x B x F] of all its bundles, those that no report lists among them
    latency: Floats  # [S x B x LATENCIES] ms, NaN where it was not told
    member: NDArray[np.bool_]  # [S x B]
    owner: Ints  # [S x N] who reported it, NOBODY
    fields: Singles  # [S x N x F] 0 where nobody reported it

    def digest(self) -> str:
        """SHA-256 of names and arrays: one key of stored results."""
        told = hashlib.sha256(repr((self.brokers, self.bundles)).encode())
        for name in ARRAYS:
            array = np.ascontiguousarray(getattr(self, name))
            told.update(repr((name, array.shape, array.dtype.str)).encode())
            told.update(array.reshape(-1).view(np.uint8).data)
        return told.hexdigest()


ARRAYS = tuple(f.name for f in fields(Recording) if f.name not in ("brokers", "bundles"))


class Reported(NamedTuple):
    """What one broker told of a step."""

    order: tuple[int, ...]  # of two by one broker in one step the larger counts
    usage: Floats  # [R] NaN unknown
    limit: Floats  # [R] NaN unknown
    totals: Floats  # [F]
    latency: Floats  # [LATENCIES] ms
    bundles: Ints  # [k] numbers in the order of their first appearance
    fields: Singles  # [k x F]


class Recorder:
    """Collects reports in any order, keeping no more of them than a recording needs."""

    def __init__(self, step_ms: int) -> None:
        """Raises BadRecord for a step that is not above 0."""
        if step_ms <= 0:
            raise BadRecord("recording", f"a step of {step_ms} ms: give one above 0")
        self._step_ms = step_ms
        self._bundles: dict[str, int] = {}
        self._reported: dict[tuple[int, str], Reported] = {}

    def add(self, report: Mapping[str, Any]) -> None:
        """A load report v1. Raises KeyError, TypeError or ValueError for one that is not in its form."""
        order = (int(report["sent_ms"]), int(report["incarnation"]), int(report["sequence"]))
        told = np.array([[report["resources"][r][part] for r in RESOURCES] for part in ("usage", "limit")], np.float64)
        totals = np.array([report["totals"][f] for f in BUNDLE_FIELDS], np.float64)
        latency = np.array([report[name] for name in LATENCIES], np.float64)
        rows = [[b[f] for f in BUNDLE_FIELDS] for b in report["bundles"]]
        names = [b["bundle"] for b in report["bundles"]]
        self.add_figures(report["broker"], order, told[0], told[1], totals, latency, names, np.array(rows, np.float32))

    def add_figures(
        self, broker: str, order: tuple[int, ...], usage: Floats, limit: Floats, totals: Floats, latency: Floats,
        names: Iterable[str], rows: Singles,
    ) -> None:  # fmt: skip
        """The same as arrays. `order`: ms since epoch first; usage below 0 and limits of 0 or less are unknown."""
        key = order[0] // self._step_ms, broker
        known = self._reported.get(key)
        if known is not None and known.order >= order:
            return
        numbers = [self._bundles.setdefault(name, len(self._bundles)) for name in names]
        self._reported[key] = Reported(
            order,
            np.where(usage < 0, np.nan, usage),
            np.where(limit <= 0, np.nan, limit),
            totals,
            latency,
            np.array(numbers, np.int64),
            rows.reshape(len(numbers), len(BUNDLE_FIELDS)),
        )

    def done(self) -> Recording:
        """All that was added. Raises BadRecord when nothing was."""
        if not self._reported:
            raise BadRecord("recording", "no reports: nothing to run strategies on")
        names = sorted(self._bundles)
        place = np.empty(len(names), np.int64)
        place[[self._bundles[name] for name in names]] = np.arange(len(names))
        brokers = tuple(sorted({broker for _, broker in self._reported}))
        steps = sorted({step for step, _ in self._reported})
        step_at, broker_at = ({key: at for at, key in enumerate(keys)} for keys in (steps, brokers))
        result = _empty(brokers, tuple(names), (np.array(steps, np.int64) + 1) * self._step_ms)
        for (step, broker), told in sorted(self._reported.items(), key=lambda item: (item[1].order[0], item[0])):
            s, b = step_at[step], broker_at[broker]
            result.usage[s, b], result.limit[s, b], result.totals[s, b] = told.usage, told.limit, told.totals
            result.latency[s, b] = told.latency
            result.member[s, b] = True
            held = place[told.bundles]
            result.owner[s, held] = b
            result.fields[s, held] = told.fields
        return result


def from_reports(reports: Sequence[Mapping[str, Any]], step_ms: int) -> Recording:
    """The recording of load reports v1, in steps of `step_ms` (> 0). Raises BadRecord when there is no report."""
    recorder = Recorder(step_ms)
    for report in reports:
        recorder.add(report)
    return recorder.done()


def _empty(brokers: tuple[str, ...], bundles: tuple[str, ...], at_ms: Ints) -> Recording:
    steps = len(at_ms)
    usage = np.full((steps, len(brokers), len(RESOURCES)), np.nan)
    return Recording(
        brokers=brokers,
        bundles=bundles,
        at_ms=at_ms,
        usage=usage,
        limit=usage.copy(),
        totals=np.zeros((steps, len(brokers), len(BUNDLE_FIELDS))),
        latency=np.full((steps, len(brokers), len(LATENCIES)), np.nan),
        member=np.zeros((steps, len(brokers)), bool),
        owner=np.full((steps, len(bundles)), NOBODY, np.int64),
        fields=np.zeros((steps, len(bundles), len(BUNDLE_FIELDS)), np.float32),
    )
