"""How much one round may do: budgets, and token buckets of brokers, namespaces and the cluster.

`pace` is a hard limit behind every strategy, whatever the strategy believes (invariant I7). The halves of a swap stand
or fall together: one alone would make the balance worse.

A bucket fills with time, up to `BURST_MIN` minutes' worth; a move takes one token of its source's, its target's, its
namespace's and the cluster's. A move *failed* when its bundle's epoch was burned for it and the bundle is owned by
another broker than its target afterwards. Each failure halves the *pace* of those four, at most once a round; a minute
without one gives back `GROWTH` of the full pace (additive increase, multiplicative decrease: Cruise Control's
concurrency adjuster, PD's store limits). From the bucket of a broker that is overloaded a move takes only half a token:
hardly anything moves to it, and its clients suffer more from the load than from the moves. Moves of a challenger and in
shadow mode cost nothing; those of a plan that waits for an approval cost as much as if they began. Full buckets are not
remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.load import SCORE_UNIT
from controller.domain.settings.policy import PacingSettings
from controller.policy.decisions import make_skip
from controller.policy.view.frame import namespace_of_bundle
from controller.policy.view.snapshot import FULL_PACE, UNLIMITED, Bools, MoveQuota, Snapshot

MAX_SPLITS_PER_ROUND = 10  # Pulsar: loadBalancerMaxNumberOfBundlesToSplitPerCycle
BURST_MIN = 2
LEAST_PACE = 125  # permille
GROWTH = 100  # permille of the full pace, a minute
TOKEN = 1000  # tokens are kept in thousandths
IF_OVERLOADED = TOKEN // 2  # what a move takes from the bucket of an overloaded broker
FORGET_MS = 180_000  # a move that has not begun by then never will
MINUTE_MS = 60_000
CLUSTER, OF_BROKER = "cluster", "broker "
_MOVES = (DecisionKind.TRANSFER, DecisionKind.UNLOAD)
_LIMITED = (*_MOVES, DecisionKind.SPLIT)


def pace(
    decisions: Iterable[Decision],
    max_moves: int,
    max_splits: int = MAX_SPLITS_PER_ROUND,
    rate_limits: RateLimits | None = None,
) -> list[Decision]:
    """The decisions in order; those beyond a budget, or naming a bundle twice, become skips with the reason.

    Every move that passes takes its tokens from `rate_limits`.
    """
    decisions = list(decisions)
    budgets = _Budgets({DecisionKind.TRANSFER: max_moves, DecisionKind.SPLIT: max_splits}, rate_limits)
    partners = _pair_halves(decisions)
    result: dict[int, Decision] = {}
    for at, decision in enumerate(decisions):
        if decision.kind not in _LIMITED:
            result[at] = decision
        elif at not in result:
            together = sorted({at, partners.get(at, at)})
            result |= zip(together, budgets.spend([decisions[one] for one in together]), strict=True)
    return [result[at] for at in range(len(decisions))]


def skip_lone_halves(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """The decisions; the half of a swap whose other half has become a skip becomes one, too, for the same reason."""
    lost = {d.bundle: d.reason for d in decisions if d.kind is DecisionKind.SKIP and d.swapped_with}
    return tuple(
        make_skip(d, lost[d.swapped_with]) if d.kind in _MOVES and d.swapped_with in lost else d for d in decisions
    )


@dataclass(slots=True)
class Bucket:
    """`per_min`: tokens a minute at full pace; None: no limit, only a pace. `milli`: thousandths of a token."""

    per_min: int | None
    milli: int
    pace: int = FULL_PACE

    @classmethod
    def full(cls, per_min: int | None) -> Bucket:
        """A bucket with all its tokens, at full pace."""
        return cls(per_min, _capacity(per_min, FULL_PACE))

    def moves_left(self, price: int = TOKEN) -> int:
        """How many moves it allows. `price`: thousandths of a token that one takes."""
        return UNLIMITED if self.per_min is None else self.milli // price

    @property
    def is_full(self) -> bool:
        """Whether nothing of it needs to be remembered."""
        return self.pace == FULL_PACE and self.milli >= _capacity(self.per_min, FULL_PACE)

    def refill(self, passed_ms: int) -> None:
        """Give back what time has earned: the pace first, then tokens at that pace."""
        self.pace = min(FULL_PACE, self.pace + GROWTH * passed_ms // MINUTE_MS)
        if self.per_min is not None:
            grown = self.milli + self.per_min * self.pace * passed_ms // MINUTE_MS
            self.milli = min(grown, _capacity(self.per_min, self.pace))

    def slow_down(self) -> None:
        """Halve the pace after a failure."""
        self.pace = max(LEAST_PACE, self.pace // 2)
        self.milli = min(self.milli, _capacity(self.per_min, self.pace))


class RateLimits:
    """All buckets of one strategy in one round; `remember` gives its memory for the next."""

    def __init__(
        self, snapshot: Snapshot, settings: PacingSettings, memory: Mapping[str, Any], overloaded: float
    ) -> None:
        """`overloaded`: the score from which a broker counts as overloaded, a fraction."""
        self._snapshot, self._settings = snapshot, settings
        over = np.flatnonzero(snapshot.score >= round(overloaded * SCORE_UNIT))
        self._overloaded = {_of_broker(snapshot.brokers[at]) for at in over.tolist()}
        self._buckets: dict[str, Bucket] = {}
        self._begun: dict[str, list[Any]] = dict(memory.get("begun", {}))  # bundle -> source, target, epoch, at_ms
        passed_ms = max(0, snapshot.at_ms - int(memory.get("at_ms", snapshot.at_ms)))
        for name, (milli, pace) in memory.get("buckets", {}).items():
            bucket = self._buckets[name] = Bucket(self._per_min(name), int(milli), int(pace))
            bucket.refill(passed_ms)
        for name in sorted(self._settle_moves()):
            self._bucket(name).slow_down()
        self._before = {name: replace(bucket) for name, bucket in self._buckets.items()}

    @property
    def quota(self) -> MoveQuota:
        """The moves that a strategy may choose in this round."""
        cluster = self._bucket(CLUSTER)
        full, names = Bucket.full(self._settings.broker_moves_per_min), map(_of_broker, self._snapshot.brokers)
        left = np.array([(self._buckets.get(n) or full).moves_left(self._price(n)) for n in names], np.int64)
        kind = bucket_of_namespace("")
        drawn = {name.removeprefix(kind): b.moves_left() for name, b in self._buckets.items() if name.startswith(kind)}
        other = Bucket.full(self._settings.namespace_moves_per_min).moves_left()
        return MoveQuota(left, cluster.moves_left(), cluster.pace, drawn, other)

    def count_by_bucket(self, moves: Iterable[Decision]) -> Mapping[str, int]:
        """How many of these moves each bucket has to allow."""
        asked: dict[str, int] = {}
        for move in moves:
            for name in self._names(move):
                asked[name] = asked.get(name, 0) + 1
        return asked

    def find_short(self, asked: Mapping[str, int]) -> str | None:
        """The first bucket with too little for so many moves, or None."""
        for name, wanted in asked.items():
            if self._bucket(name).moves_left(self._price(name)) < wanted:
                return name
        return None

    def take(self, asked: Mapping[str, int]) -> None:
        """Take what so many moves cost from each bucket."""
        for name, wanted in asked.items():
            bucket = self._bucket(name)
            if bucket.per_min is not None:
                bucket.milli -= wanted * self._price(name)

    def remember(self, moves: Iterable[Decision], carried_out: bool) -> dict[str, Any]:
        """The memory for the next round, after the round's moves; {} when there is nothing to remember.

        Moves that are not carried out (in shadow mode, by a challenger) leave the buckets as they were.
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

    def _settle_moves(self) -> set[str]:
        """The buckets of moves that have failed since. Forgets moves that have ended or will never begin."""
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
        """Where a move's bundle ended up; "": the move never began, or the bundle is gone; None: not known yet."""
        at = self._snapshot.place_of(bundle)
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

    def _price(self, name: str) -> int:
        return IF_OVERLOADED if name in self._overloaded else TOKEN

    def _bucket(self, name: str) -> Bucket:
        if name not in self._buckets:
            self._buckets[name] = Bucket.full(self._per_min(name))
        return self._buckets[name]

    def _per_min(self, name: str) -> int | None:
        if name == CLUSTER:
            return self._settings.cluster_moves_per_min
        of_broker = name.startswith(OF_BROKER)
        return self._settings.broker_moves_per_min if of_broker else self._settings.namespace_moves_per_min


def mark_pending_moves(snapshot: Snapshot, memory: Mapping[str, Any]) -> Bools:
    """[N] bundles whose moves of earlier rounds may be under way; their rows are stored for the replay."""
    result = np.zeros(len(snapshot.bundles), bool)
    for bundle in memory.get("begun", {}):
        at = snapshot.place_of(bundle)
        if at is not None:
            result[at] = True
    return result


class _Budgets:
    """What is left of the round's budgets, and the bundles named so far."""

    def __init__(self, left: dict[DecisionKind, int], rate_limits: RateLimits | None) -> None:
        self._left, self._rate_limits = left, rate_limits
        self._named: set[str] = set()

    def spend(self, together: list[Decision]) -> list[Decision]:
        """Let a decision, or both halves of a swap, pass and charge them; or skip all of them."""
        budget = DecisionKind.SPLIT if together[0].kind is DecisionKind.SPLIT else DecisionKind.TRANSFER
        charged = [d for d in together if d.kind in _MOVES and d.reason is not Reason.OVERRIDDEN]
        if any(d.bundle in self._named for d in together):
            return [make_skip(d, Reason.IN_FLIGHT) for d in together]
        if self._left[budget] < len(together):
            return [make_skip(d, Reason.BUDGET_SPENT) for d in together]
        asked = self._rate_limits.count_by_bucket(charged) if self._rate_limits is not None else {}
        short = self._rate_limits.find_short(asked) if self._rate_limits is not None else None
        if short is not None:
            return [make_skip(d, Reason.BUDGET_SPENT, paced_by=short) for d in together]
        self._left[budget] -= len(together)
        self._named.update(d.bundle or "" for d in together)
        if self._rate_limits is not None:
            self._rate_limits.take(asked)
        return together


def _pair_halves(decisions: Sequence[Decision]) -> dict[int, int]:
    """Index of each half of a swap -> index of the other."""
    at = {d.bundle: index for index, d in enumerate(decisions) if d.kind in _MOVES and d.swapped_with}
    return {index: at[decisions[index].swapped_with] for index in at.values() if decisions[index].swapped_with in at}


def _capacity(per_min: int | None, pace: int) -> int:
    """Thousandths of a token, at least one token: the slowest pace still moves something."""
    return 0 if per_min is None else max(TOKEN, BURST_MIN * per_min * pace * TOKEN // FULL_PACE)


def _of_broker(broker: str) -> str:
    return OF_BROKER + broker


def _of_namespace(bundle: str) -> tuple[str, ...]:
    """No bucket for a name without a namespace, as `ballast decide` may get."""
    namespace = namespace_of_bundle(bundle)
    return (bucket_of_namespace(namespace),) if namespace else ()


def bucket_of_namespace(namespace: str) -> str:
    """The name of its bucket, as evidence shows it."""
    return f"namespace {namespace}"
