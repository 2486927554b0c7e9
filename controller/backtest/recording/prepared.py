"""Prepares a recording for all points of a backtest: costs by step, figures of the frames by round. Computed once.

Load follows the bundle: its cost on the recorded broker, by its share of that broker's messages and bytes
(`controller.policy.view.costs`), is its cost wherever the replay puts it. All other usage stays with the broker
(`idle_usage`, and bundles that reports do not list). Lost reports are bridged: a broker that is silent for fewer than
`missed_steps` consecutive steps is assumed to continue as last reported; during a longer silence it is absent from the
first step on. Rounds follow the time axis of the recording; each reads the average of the steps since the last round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.backtest.recording.idle_usage import idle_usage
from controller.backtest.recording.recording import NOBODY, Floats, Ints, Recording, Singles
from controller.domain.errors import BadRecord
from controller.domain.load import BUNDLE_FIELDS, FIELD_SCALES, MAKE_LOAD_KNOWN, RESOURCES, UNKNOWN
from controller.policy.view.costs import costs, unit_costs
from controller.policy.view.frame import LATENCIES
from controller.policy.view.tabulate import quantise

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Replay:
    """How a recording is replayed; the same for all points of a backtest.

    `gap_ms`: how long a bundle is not served when it moves. Measured unloads of Pulsar took 0.2 to 1 s.
    """

    round_interval_ms: int = 60_000
    missed_steps: int = 3
    gap_ms: int = 1_000

    def __post_init__(self) -> None:
        if self.round_interval_ms <= 0 or self.missed_steps <= 0 or self.gap_ms < 0:
            raise BadRecord("backtest", f"{self}: intervals and steps must be above 0, gaps not below")


@dataclass(frozen=True, eq=False)
class Prepared:
    """S steps, Q rounds, B brokers, N bundles, R resources of which C have a weight."""

    brokers: tuple[str, ...]
    bundles: tuple[str, ...]
    counted: Ints  # [C] indices into RESOURCES
    weight: Floats  # [C]
    at_ms: Ints  # [S]
    member: Mask  # [S x B]
    present: Mask  # [S x N] somebody reported it
    first_owner: Ints  # [N] in the first step, NOBODY
    base: Floats  # [C x S x B] usage that is not its bundles', NaN unknown
    limit: Floats  # [C x S x B] NaN unknown
    cost: Singles  # [C x S x N] what a bundle uses wherever it is
    best: Floats  # [S] lower bound of the highest load of any placement, even with bundles split at will
    round_step: Ints  # [Q] the last step that the round reads
    round_heard: Mask  # [Q x B] it reported in the round's steps
    round_base: Floats  # [Q x B x R] means of the round's steps, as `base`
    round_limit: Floats  # [Q x B x R]
    round_cost: Singles  # [Q x N x R]
    round_latency: Ints  # [Q x B x LATENCIES] quantised means, UNKNOWN where nobody told
    round_tail: Ints  # [Q x B x F] quantised: of bundles that no report lists
    round_fields: Ints  # [Q x N x F] quantised means of the steps in which it was there
    used_fields: Ints  # indices of the fields that any bundle ever had
    used_resources: Ints  # indices of the resources that any bundle ever cost

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays by name, to be stored."""
        return {name: getattr(self, name) for name in ARRAYS}


ARRAYS = tuple(f.name for f in fields(Prepared) if f.name not in ("brokers", "bundles"))
US_A_MS = 1000.0
FEWEST_REPORTS = 8  # of a broker, to know how often it reports
_SCALES = np.array(FIELD_SCALES, np.float64)


def prepare(recording: Recording, weights: tuple[float, ...], replay: Replay) -> Prepared:
    """Prepare a recording. `weights`: of the resources, in their order (`ResourceWeights.in_order`)."""
    steps = _Steps(recording, replay.missed_steps)
    counted = np.flatnonzero(np.array(weights) > 0)
    if not len(counted):
        raise BadRecord("backtest", "all resources have the weight 0: give one of them a weight above 0")
    count, brokers, bundles = len(recording.at_ms), len(recording.brokers), len(recording.bundles)
    base, limit = np.full((2, len(counted), count, brokers), np.nan)
    cost = np.zeros((len(counted), count, bundles), np.float32)
    present = np.zeros((count, bundles), bool)
    rounds = _Rounds(round_ends(recording.at_ms, replay.round_interval_ms), brokers, bundles)
    for at, step in enumerate(steps):
        base[:, at], limit[:, at] = step.base.T[counted], step.limit.T[counted]
        cost[:, at] = step.cost.T[counted]
        present[at] = step.owner != NOBODY
        rounds.add(at, step, recording.member[at], recording.latency[at])
        if at == 0:
            first_owner = step.owner.copy()
    if not (np.isfinite(base) & np.isfinite(limit)).any():
        names = ", ".join(RESOURCES[at] for at in counted.tolist())
        text = f"no report knows usage and limit of {names}, so nobody's load is known: {MAKE_LOAD_KNOWN}"
        raise BadRecord("backtest", text)
    weight = np.array(weights)[counted]
    return Prepared(
        brokers=recording.brokers,
        bundles=recording.bundles,
        counted=counted,
        weight=weight,
        at_ms=recording.at_ms,
        member=steps.member,
        present=present,
        first_owner=first_owner,
        base=base,
        limit=limit,
        cost=cost,
        best=_best_achievable(base, limit, cost, steps.member, weight),
        round_step=rounds.ends,
        used_fields=np.flatnonzero(rounds.used["round_fields"]),
        used_resources=np.flatnonzero(rounds.used["round_cost"]),
        **rounds.arrays,
    )


def round_ends(at_ms: Ints, interval_ms: int) -> Ints:
    """[Q] the last step of every interval that the recording fills; a round is due at its end."""
    interval = -(-at_ms // interval_ms)  # a round at T reads the steps that end by T
    last = np.flatnonzero(np.append(interval[1:] != interval[:-1], True))
    unfinished = len(last) > 1 and at_ms[last[-1]] < interval[-1] * interval_ms
    return last[:-1] if unfinished else last


def bridge_silences(member: Mask, missed_steps: int) -> Ints:
    """[S x B] the step whose report represents a broker: its own step, the last one before a short silence (the first
    one after a silence at the start), or -1 if the broker is absent.

    A silence is short if fewer than `missed_steps` reports are missing, by the broker's own interval: some brokers
    report rarely, like Pulsar's while nothing changes.
    """
    steps = np.arange(len(member))[:, None]
    last = np.maximum.accumulate(np.where(member, steps, -1), axis=0)
    following = np.minimum.accumulate(np.where(member, steps, len(member))[::-1], axis=0)[::-1]
    short = following - last - 1 < missed_steps * _usual_steps(member)
    stands = np.where(last >= 0, last, following)
    return np.asarray(np.where(member, steps, np.where(short, stands, -1)))


def _usual_steps(member: Mask) -> Ints:
    """[B] the median number of steps between two reports of a broker; 1 with too few reports."""
    result = np.ones(member.shape[1], np.int64)
    for broker in range(member.shape[1]):
        at = np.flatnonzero(member[:, broker])
        if len(at) >= FEWEST_REPORTS:
            result[broker] = int(np.median(np.diff(at)))
    return result


@dataclass(frozen=True, eq=False)
class _Step:
    """One step with lost reports bridged."""

    owner: Ints  # [N]
    fields: Singles  # [N x F]
    base: Floats  # [B x R] NaN unknown
    limit: Floats  # [B x R] NaN unknown
    tail: Floats  # [B x F]
    cost: Floats  # [N x R]


class _Steps:
    """The steps of a recording, one after the other."""

    def __init__(self, recording: Recording, missed_steps: int) -> None:
        self._recording = recording
        self._stands = bridge_silences(recording.member, missed_steps)
        self._idle = idle_usage(recording)
        self.member: Mask = self._stands >= 0

    def __iter__(self) -> Iterator[_Step]:
        return map(self._step, range(len(self._stands)))

    def _step(self, at: int) -> _Step:
        recording, stands = self._recording, self._stands[at]
        there = self.member[at]
        told = np.maximum(stands, 0), np.arange(len(stands))
        usage = np.where(there[:, None], recording.usage[told], np.nan)
        limit = np.where(there[:, None], recording.limit[told], np.nan)
        owner, fields = self._bundles(at)
        count = len(stands)
        held = owner != NOBODY
        listed = _by_broker(owner[held], fields[held], count)
        totals = np.maximum(np.where(there[:, None], recording.totals[told], 0.0), listed)
        caused = np.maximum(usage - self._idle, 0.0)  # by the bundles
        unit = unit_costs(caused, totals)
        cost = np.zeros((len(owner), usage.shape[1]))
        cost[held] = costs(unit, owner[held], np.ones(int(held.sum())), fields[held].astype(np.float64))
        base = np.maximum(usage - _by_broker(owner[held], cost[held], count), 0.0)
        return _Step(owner, fields, base, limit, totals - listed, cost)

    def _bundles(self, at: int) -> tuple[Ints, Singles]:
        """Owners and fields; bundles of a silent broker that nobody else reports keep their values."""
        recording = self._recording
        owner, fields = recording.owner[at], recording.fields[at]
        silent = np.flatnonzero(self.member[at] & ~recording.member[at])
        if not len(silent):
            return owner, fields
        owner, fields = owner.copy(), fields.copy()
        for broker in silent.tolist():
            told = int(self._stands[at, broker])
            kept = np.flatnonzero((recording.owner[told] == broker) & (owner == NOBODY))
            owner[kept], fields[kept] = broker, recording.fields[told, kept]
        return owner, fields


class _Rounds:
    """Means of the steps of each round."""

    def __init__(self, ends: Ints, brokers: int, bundles: int) -> None:
        self.ends = ends
        self._at = 0
        self._sums: dict[str, Floats] = {}
        shapes: Mapping[str, tuple[tuple[int, ...], type]] = {
            "round_heard": ((brokers,), np.bool_),
            "round_base": ((brokers, len(RESOURCES)), np.float64),
            "round_limit": ((brokers, len(RESOURCES)), np.float64),
            "round_cost": ((bundles, len(RESOURCES)), np.float32),
            "round_latency": ((brokers, len(LATENCIES)), np.int64),
            "round_tail": ((brokers, len(BUNDLE_FIELDS)), np.int64),
            "round_fields": ((bundles, len(BUNDLE_FIELDS)), np.int64),
        }
        self.arrays: dict[str, Any] = {
            name: np.zeros((len(ends), *shape), kind) for name, (shape, kind) in shapes.items()
        }
        self.used: dict[str, Mask] = {  # columns in which anything was
            name: np.zeros(shapes[name][0][-1], bool) for name in ("round_cost", "round_fields")
        }

    def add(self, at: int, step: _Step, heard: Mask, latency: Floats) -> None:
        """The next step; `heard` [B]: who really reported."""
        if self._at == len(self.ends):
            return
        held = step.owner != NOBODY
        known, timed = np.isfinite(step.base), np.isfinite(latency)
        for name, value in (
            ("heard", heard), ("held", held), ("known", known), ("base", np.where(known, step.base, 0.0)),
            ("cost", step.cost), ("tail", step.tail), ("fields", step.fields), ("steps", np.ones(1)),
            ("latency", np.where(timed, latency, 0.0)), ("timed", timed),
        ):  # fmt: skip
            self._sums[name] = self._sums[name] + value if name in self._sums else np.asarray(value, np.float64)
        if at == self.ends[self._at]:
            self._close(step)

    def _close(self, step: _Step) -> None:
        q, sums = self._at, self._sums
        shown = np.maximum(sums["held"], 1.0)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            base = sums["base"] / sums["known"]
            latency = sums["latency"] / sums["timed"]  # NaN where nobody told
        self.arrays["round_heard"][q] = sums["heard"] > 0
        self.arrays["round_base"][q] = np.where(sums["known"] > 0, base, np.nan)
        self.arrays["round_limit"][q] = step.limit
        self.arrays["round_cost"][q] = sums["cost"] / shown
        self.arrays["round_latency"][q] = quantise(latency, US_A_MS, UNKNOWN)
        self.arrays["round_tail"][q] = quantise(sums["tail"] / sums["steps"], _SCALES, 0)
        self.arrays["round_fields"][q] = quantise(sums["fields"] / shown, _SCALES, 0)
        for name, used in self.used.items():
            used |= self.arrays[name][q].any(axis=0)
        self._at, self._sums = q + 1, {}


def _by_broker(owner: Ints, values: NDArray[Any], brokers: int) -> Floats:
    """[B x columns] sums over the rows of each owner."""
    if not len(owner):
        return np.zeros((brokers, values.shape[1]))
    return np.column_stack([np.bincount(owner, column, brokers) for column in values.T])


def _best_achievable(base: Floats, limit: Floats, cost: Singles, member: Mask, weight: Floats) -> Floats:
    """[S] the larger of each resource's mean utilisation and what some broker uses besides its bundles.

    It assumes that bundles can be split at will, since strategies split them and none may be better than the best.
    """
    result = np.zeros(len(member))
    for c in range(len(weight)):
        known = member & np.isfinite(base[c]) & (limit[c] > 0)
        some = known.any(axis=1)
        if not some.any():
            continue
        able = np.where(known, limit[c], 0.0)[some]
        used = np.where(known, base[c], 0.0)[some].sum(axis=1) + cost[c][some].sum(axis=1, dtype=np.float64)
        besides = np.where(known, base[c] / np.where(known, limit[c], 1.0), 0.0)[some].max(axis=1)
        result[some] = np.maximum(result[some], weight[c] * np.maximum(used / able.sum(axis=1), besides))
    return result
