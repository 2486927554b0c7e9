"""Recorded load as arrays: the load of every bundle and the usage of every broker, step by step.

It is built from load reports v1, whose figures are averages. If a broker reports several times in a step, or two
brokers report the same bundle, the newest report counts. A broker without a report in a step is no member in it. The
same reports in any order give the same arrays and the same digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import BadRecord
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.policy.view.frame import LATENCIES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Singles = NDArray[np.float32]  # seven digits are enough and halve the memory of a long recording
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Recording:
    """S steps x B brokers x N bundles, names sorted. Steps without any report are left out of `at_ms`."""

    brokers: tuple[str, ...]
    bundles: tuple[str, ...]
    at_ms: Ints  # [S] the end of each step
    usage: Floats  # [S x B x R] NaN unknown
    limit: Floats  # [S x B x R] NaN unknown
    totals: Floats  # [S x B x F] of all its bundles, including those that no report lists
    latency: Floats  # [S x B x LATENCIES] ms, NaN if not reported
    member: NDArray[np.bool_]  # [S x B]
    owner: Ints  # [S x N] the broker that reported it, NOBODY
    fields: Singles  # [S x N x F] 0 if nobody reported it

    def digest(self) -> str:
        """SHA-256 of names and arrays; part of the key of stored results."""
        digest = hashlib.sha256(repr((self.brokers, self.bundles)).encode())
        for name in ARRAYS:
            array = np.ascontiguousarray(getattr(self, name))
            digest.update(repr((name, array.shape, array.dtype.str)).encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


ARRAYS = tuple(f.name for f in fields(Recording) if f.name not in ("brokers", "bundles"))


class Reported(NamedTuple):
    """The report of one broker in one step."""

    order: tuple[int, ...]  # the larger of two in one step counts
    usage: Floats  # [R] NaN unknown
    limit: Floats  # [R] NaN unknown
    totals: Floats  # [F]
    latency: Floats  # [LATENCIES] ms
    bundles: Ints  # [k] numbers in the order of their first appearance
    fields: Singles  # [k x F]


class Recorder:
    """Collects reports in any order, and only keeps what a recording needs."""

    def __init__(self, step_ms: int) -> None:
        """Raises BadRecord for a step that is not above 0."""
        if step_ms <= 0:
            raise BadRecord("recording", f"a step of {step_ms} ms: give one above 0")
        self._step_ms = step_ms
        self._bundles: dict[str, int] = {}
        self._reported: dict[tuple[int, str], Reported] = {}

    def add(self, report: Mapping[str, Any]) -> None:
        """Add a load report v1. Raises KeyError, TypeError or ValueError if it is malformed."""
        order = (int(report["sent_ms"]), int(report["incarnation"]), int(report["sequence"]))
        usage, limit = (
            np.array([report["resources"][r][part] for r in RESOURCES], np.float64) for part in ("usage", "limit")
        )
        totals = np.array([report["totals"][f] for f in BUNDLE_FIELDS], np.float64)
        latency = np.array([report[name] for name in LATENCIES], np.float64)
        rows = [[b[f] for f in BUNDLE_FIELDS] for b in report["bundles"]]
        names = [b["bundle"] for b in report["bundles"]]
        self.add_figures(report["broker"], order, usage, limit, totals, latency, names, np.array(rows, np.float32))

    def add_figures(
        self, broker: str, order: tuple[int, ...], usage: Floats, limit: Floats, totals: Floats, latency: Floats,
        names: Iterable[str], rows: Singles,
    ) -> None:  # fmt: skip
        """Add a report as arrays. `order`: ms since the epoch first; usage below 0 and limits up to 0 are unknown."""
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

    def drop(self, is_stray: Callable[[int], bool]) -> None:
        """Forget the reports of these times (ms since the epoch), and bundles that no other report names."""
        self._reported = {key: one for key, one in self._reported.items() if not is_stray(one.order[0])}
        named = {number for one in self._reported.values() for number in one.bundles.tolist()}
        # The numbers stay as they are: `finish` sorts the names, and those of dropped bundles are in no report.
        self._bundles = {name: number for name, number in self._bundles.items() if number in named}

    def finish(self) -> Recording:
        """The recording of all reports. Raises BadRecord without any."""
        if not self._reported:
            raise BadRecord("recording", "no reports: nothing to run strategies on")
        names = sorted(self._bundles)
        place = np.empty(1 + max(self._bundles.values(), default=-1), np.int64)
        place[[self._bundles[name] for name in names]] = np.arange(len(names))
        brokers = tuple(sorted({broker for _, broker in self._reported}))
        steps = sorted({step for step, _ in self._reported})
        step_at, broker_at = ({key: at for at, key in enumerate(keys)} for keys in (steps, brokers))
        result = _empty(brokers, tuple(names), (np.array(steps, np.int64) + 1) * self._step_ms)
        for (step, broker), one in sorted(self._reported.items(), key=lambda item: (item[1].order[0], item[0])):
            s, b = step_at[step], broker_at[broker]
            result.usage[s, b], result.limit[s, b], result.totals[s, b] = one.usage, one.limit, one.totals
            result.latency[s, b] = one.latency
            result.member[s, b] = True
            held = place[one.bundles]
            result.owner[s, held] = b
            result.fields[s, held] = one.fields
        return result


def from_reports(reports: Sequence[Mapping[str, Any]], step_ms: int) -> Recording:
    """The recording of load reports v1, in steps of `step_ms` (> 0). Raises BadRecord without a report."""
    recorder = Recorder(step_ms)
    for report in reports:
        recorder.add(report)
    return recorder.finish()


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
