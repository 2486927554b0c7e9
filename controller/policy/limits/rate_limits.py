"""Token buckets: how many moves a broker, a namespace and the cluster may take part in; failures slow them down.

A bucket fills with time, up to `BURST_MIN` minutes' worth; a move takes one token of its source's, its target's, its
namespace's and the cluster's. A move *failed* when its bundle's epoch was burned for it and the bundle is owned by
somebody else than its target afterwards. Each failure halves the *pace* of those four, at most once a round; a minute
without one gives back `GROWTH` of the full pace (additive increase, multiplicative decrease: Cruise Control's
concurrency adjuster, PD's store limits). What is not carried out costs nothing. Full buckets are not remembered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.settings.policy import PacingSettings
from controller.policy.view.frame import namespace_of_bundle
from controller.policy.view.quota import FULL_PACE, UNLIMITED, Room
from controller.policy.view.snapshot import Snapshot

BURST_MIN = 2
LEAST_PACE = 125  # permille
GROWTH = 100  # permille of the full pace, a minute
TOKEN = 1000  # tokens are kept in thousandths
FORGET_MS = 180_000  # a move that has not begun by then never will
MINUTE_MS = 60_000
CLUSTER = "cluster"


@dataclass(slots=True)
class Bucket:
    """`per_min`: tokens a minute at full pace; None: no limit, only a pace. `milli`: thousandths of a token."""

    per_min: int | None
    milli: int
    pace: int = FULL_PACE

    @classmethod
    def full(cls, per_min: int | None) -> Bucket:
        """One that nobody has drawn on."""
        return cls(per_min, _capacity(per_min, FULL_PACE))

    @property
    def left(self) -> int:
        """Whole tokens."""
        return UNLIMITED if self.per_min is None else self.milli // TOKEN

    @property
    def is_full(self) -> bool:
        """Whether it is as good as new."""
        return self.pace == FULL_PACE and self.milli >= _capacity(self.per_min, FULL_PACE)

    def refill(self, passed_ms: int) -> None:
        """Time heals: the pace first, then the tokens at that pace."""
        self.pace = min(FULL_PACE, self.pace + GROWTH * passed_ms // MINUTE_MS)
        if self.per_min is not None:
            grown = self.milli + self.per_min * self.pace * passed_ms // MINUTE_MS
            self.milli = min(grown, _capacity(self.per_min, self.pace))

    def slow_down(self) -> None:
        """One failure."""
        self.pace = max(LEAST_PACE, self.pace // 2)
        self.milli = min(self.milli, _capacity(self.per_min, self.pace))


class Purses:
    """All buckets of one strategy in one round; `to_json` is its memory for the next."""

    def __init__(self, snapshot: Snapshot, settings: PacingSettings, memory: Mapping[str, Any]) -> None:
        self._snapshot, self._settings = snapshot, settings
        self._buckets: dict[str, Bucket] = {}
        self._begun: dict[str, list[Any]] = dict(memory.get("begun", {}))  # bundle -> source, target, epoch, at_ms
        passed_ms = max(0, snapshot.at_ms - int(memory.get("at_ms", snapshot.at_ms)))
        for name, (milli, pace) in memory.get("buckets", {}).items():
            bucket = self._buckets[name] = Bucket(self._per_min(name), int(milli), int(pace))
            bucket.refill(passed_ms)
        for name in sorted(self._failed()):
            self._bucket(name).slow_down()
        self._before = {name: replace(bucket) for name, bucket in self._buckets.items()}

    def room(self) -> Room:
        """What a strategy may choose in this round."""
        full = Bucket.full(self._settings.broker_moves_per_min).left
        drawn = [self._buckets.get(_of_broker(name)) for name in self._snapshot.brokers]
        cluster = self._peek(CLUSTER)
        left = np.array([full if bucket is None else bucket.left for bucket in drawn], np.int64)
        return Room(left, cluster.left, cluster.pace)

    def empty(self, moves: Iterable[Decision]) -> str | None:
        """The bucket that has too little for these moves together, or None."""
        asked: dict[str, int] = {}
        for move in moves:
            for name in self._names(move):
                asked[name] = asked.get(name, 0) + 1
        return next((name for name, tokens in asked.items() if self._peek(name).left < tokens), None)

    def take(self, move: Decision) -> None:
        """One token of each of the move's buckets."""
        for name in self._names(move):
            bucket = self._bucket(name)
            if bucket.per_min is not None:
                bucket.milli -= TOKEN

    def after(self, moves: Iterable[Decision], carried_out: bool) -> dict[str, Any]:
        """The memory for the next round; {} when there is nothing to remember. `moves`: what the round decided.

        What is not carried out (in shadow, by a challenger) leaves the buckets as they were.
        """
        if not carried_out:
            self._buckets = self._before
        else:
            for move in moves:
                if move.kind is DecisionKind.TRANSFER and move.bundle and move.reason is not Reason.OVERRIDDEN:
                    self._begun[move.bundle] = [move.source, move.target, move.epoch or 0, self._snapshot.at_ms]
        drawn = {name: [b.milli, b.pace] for name, b in sorted(self._buckets.items()) if not b.is_full}
        if not drawn and not self._begun:
            return {}
        return {"at_ms": self._snapshot.at_ms, "buckets": drawn, "begun": dict(sorted(self._begun.items()))}

    def _failed(self) -> set[str]:
        """Buckets of moves that failed since; moves that have ended, or never begun, are forgotten."""
        failed: set[str] = set()
        for bundle, (source, target, epoch, at_ms) in list(self._begun.items()):
            ended = self._ended_at(bundle, int(epoch), self._snapshot.at_ms - int(at_ms) >= FORGET_MS)
            if ended is None:
                continue
            del self._begun[bundle]
            if ended not in ("", target):
                failed |= {_of_broker(source), _of_broker(target), CLUSTER, *_of_namespace(bundle)}
        return failed

    def _ended_at(self, bundle: str, epoch: int, late: bool) -> str | None:
        """The broker that a move's bundle ended at; "": it never began, or the bundle is gone; None: not known yet."""
        at = _place(self._snapshot, bundle)
        if at is None:
            return ""
        if self._snapshot.in_flight[at]:
            return None
        if int(self._snapshot.epoch[at]) <= epoch:
            return "" if late else None
        owner = int(self._snapshot.owner[at])
        return self._snapshot.brokers[owner] if owner >= 0 else "nobody"

    def _names(self, move: Decision) -> list[str]:
        brokers = (broker for broker in (move.source, move.target) if broker is not None)
        return [*map(_of_broker, brokers), *_of_namespace(move.bundle or ""), CLUSTER]

    def _peek(self, name: str) -> Bucket:
        return self._buckets.get(name) or Bucket.full(self._per_min(name))

    def _bucket(self, name: str) -> Bucket:
        if name not in self._buckets:
            self._buckets[name] = Bucket.full(self._per_min(name))
        return self._buckets[name]

    def _per_min(self, name: str) -> int | None:
        kind = name.partition(" ")[0]
        return {
            "broker": self._settings.broker_moves_per_min,
            "namespace": self._settings.namespace_moves_per_min,
            CLUSTER: self._settings.cluster_moves_per_min,
        }[kind]


def begun_bundles(snapshot: Snapshot, memory: Mapping[str, Any]) -> NDArray[np.bool_]:
    """[N] whose rows told how earlier moves ended; they are stored for the replay."""
    result = np.zeros(len(snapshot.bundles), bool)
    for bundle in memory.get("begun", {}):
        at = _place(snapshot, bundle)
        if at is not None:
            result[at] = True
    return result


def _place(snapshot: Snapshot, bundle: str) -> int | None:
    """The bundle's index."""
    at = bisect_left(snapshot.bundles, bundle)
    return at if at < len(snapshot.bundles) and snapshot.bundles[at] == bundle else None


def _capacity(per_min: int | None, pace: int) -> int:
    """Thousandths of a token, never less than one: the slowest still moves."""
    return 0 if per_min is None else max(TOKEN, BURST_MIN * per_min * pace * TOKEN // FULL_PACE)


def _of_broker(broker: str) -> str:
    return f"broker {broker}"


def _of_namespace(bundle: str) -> tuple[str, ...]:
    """None for a name without a namespace, as `ballast decide` may get."""
    namespace = namespace_of_bundle(bundle)
    return (f"namespace {namespace}",) if namespace else ()
