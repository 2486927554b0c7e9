"""Loads as placements see them: a round's, changed by every bundle that has come or gone since.

`loads_of` packs what a round's snapshot knows (`controller.domain.round_loads`); `WhatIf` is the model that is asked
and changed between rounds. A bundle that no report names counts with the mean of those that are named, one that idles
with a part of it, as it may not idle tomorrow. A broker that registered after the round is empty; one that has not
reported yet has what its bundles cost; where no bundle is known it is taken for an average one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from controller.domain.holdings import Holdings
from controller.domain.round_loads import RoundLoads
from controller.domain.settings.policy import PolicySettings
from controller.policy.placement.constraints import capped
from controller.policy.view.costs import Floats
from controller.policy.view.snapshot import Snapshot

LEAST_SHARE = 0.1  # of the mean, with which an idle bundle counts
Cost = tuple[float, ...]


def loads_of(
    snapshot: Snapshot, settings: PolicySettings, round_id: str, state_seq: int, holdings: Holdings
) -> RoundLoads | None:
    """What placements need of a round; None when it knows no broker's load. `holdings`: of the journal, for brokers
    that have not said what they have."""
    weighed = np.asarray((snapshot.weights > 0) & np.isfinite(snapshot.utilisation).any(axis=0))
    if not weighed.any():
        return None
    limit = snapshot.limit[:, weighed] / snapshot.weights[weighed]
    usage = np.maximum(snapshot.usage[:, weighed], 0.0)
    known = np.isfinite(usage) & np.isfinite(limit)
    told = np.asarray(known.any(axis=1))[:, None]
    costs = [snapshot.cost[:, weighed]]
    used = [np.where(known, usage, 0.0)]
    if not told.all():
        used = [np.where(told, used[0], _by_bundles(snapshot, costs[0], holdings))]
    limits = [np.where(told, np.where(known, limit, np.inf), np.nan)]
    of_bundles = capped(snapshot.fields, settings.caps)
    for (total, cap), (own, _) in zip(capped(snapshot.totals, settings.caps), of_bundles, strict=True):
        used.append(total[:, None])
        limits.append(np.full((len(total), 1), float(cap)))
        costs.append(own[:, None])
    return RoundLoads(
        round_id=round_id,
        state_seq=state_seq,
        full=settings.shed.overloaded_threshold,
        scored=int(weighed.sum()),
        brokers=snapshot.brokers,
        used=np.hstack(used).astype(np.float64).tobytes(),
        limit=np.hstack(limits).astype(np.float64).tobytes(),
        bundles="\n".join(snapshot.bundles).encode(),
        costs=np.hstack(costs).astype(np.float32).tobytes(),
    )


def _by_bundles(snapshot: Snapshot, cost: Floats, holdings: Holdings) -> Floats:
    """[B x C] what every broker's bundles cost, those that no report names with the mean; NaN when none is named."""
    count = len(snapshot.brokers)
    if not len(cost):
        return np.full((count, cost.shape[1]), np.nan)
    owned = snapshot.owner >= 0
    at = snapshot.owner[owned]
    named = np.column_stack([np.bincount(at, column[owned], count) for column in cost.T])
    held = np.array([holdings.total(broker) for broker in snapshot.brokers])
    unnamed = np.maximum(0, held - np.bincount(at, minlength=count))
    return np.asarray(named + unnamed[:, None] * cost.mean(axis=0))


class Standing(NamedTuple):
    """How a broker stands without regard to any bundle. `typical`: its score with one mean bundle more."""

    score: float
    typical: float
    full: bool  # overloaded
    at_cap: bool


class WhatIf:
    """The newest loads with what has happened since. Costs are one number a column of `RoundLoads`."""

    def __init__(self, loads: RoundLoads) -> None:
        self.round_id, self._full, self._scored = loads.round_id, loads.full, loads.scored
        count = len(loads.brokers)
        used = np.frombuffer(loads.used).reshape(count, -1)
        limit = np.frombuffer(loads.limit).reshape(count, -1)
        columns = used.shape[1]
        self._names = _Names(loads.bundles)
        self._costs = np.frombuffer(loads.costs, np.float32).reshape(-1, columns)
        self._found: dict[str, Cost | None] = {}
        mean = self._costs.mean(axis=0, dtype=np.float64) if len(self._costs) else np.zeros(columns)
        self._mean: Cost = tuple(mean.tolist())
        self._least: Cost = tuple((LEAST_SHARE * mean).tolist())
        usual = _usual(limit)
        silent = (np.isnan(used[:, 0]) | np.isnan(limit[:, 0]))[:, None]
        average = _average(used[~silent[:, 0]], limit[~silent[:, 0]]) * np.where(np.isfinite(usual), usual, 0.0)
        used, limit = np.where(np.isnan(used), average, used), np.where(silent, usual, limit)
        self._caps: list[float] = usual[self._scored :].tolist()
        self._usual: list[float] = usual[: self._scored].tolist()
        self._empty = [0.0] * columns
        self._used: dict[str, list[float]] = dict(zip(loads.brokers, used.tolist(), strict=True))
        self._limit: dict[str, list[float]] = dict(zip(loads.brokers, limit[:, : self._scored].tolist(), strict=True))
        self._standings: dict[str, Standing] = {}

    def known(self, bundle: str) -> bool:
        """Whether the bundle's own load is known."""
        return self._find(bundle) is not None

    def cost(self, bundle: str) -> Cost:
        """What the bundle would cost its broker."""
        return self._find(bundle) or self._mean

    def weight(self, bundle: str) -> float:
        """How much the bundle would add to the score of a usual broker."""
        return _score(self._empty, self.cost(bundle), self._usual)

    def standing(self, broker: str) -> Standing:
        """How it stands now, as far as anybody can tell."""
        standing = self._standings.get(broker)
        if standing is None:
            used, limit = self._row(broker), self._limit[broker]
            score = _score(self._empty, used, limit)
            at_cap = any(u >= cap for u, cap in zip(used[self._scored :], self._caps, strict=True))
            standing = Standing(score, _score(used, self._mean, limit), score >= self._full, at_cap)
            self._standings[broker] = standing
        return standing

    def after(self, broker: str, cost: Cost) -> float:
        """Its score with something that costs so much."""
        return _score(self._row(broker), cost, self._limit[broker])

    def would_exceed(self, broker: str, cost: Cost) -> bool:
        """Whether something that costs so much would be more than a cap allows the broker."""
        if not self._caps:
            return False
        used = self._row(broker)[self._scored :]
        return any(u + c > cap for u, c, cap in zip(used, cost[self._scored :], self._caps, strict=True))

    def moved(self, bundle: str, source: str | None, target: str | None) -> None:
        """The bundle counts for another broker than before."""
        cost = self.cost(bundle)
        if source is not None:
            self._change(source, [max(0.0, u - c) for u, c in zip(self._row(source), cost, strict=True)])
        if target is not None:
            self._change(target, [u + c for u, c in zip(self._row(target), cost, strict=True)])

    def split(self, parent: str, children: Iterable[str]) -> None:
        """The halves of a bundle carry half of it each, as far as anybody knows."""
        half = tuple(c / 2 for c in self.cost(parent))
        self._found.update(dict.fromkeys(children, half))

    def emptied(self, broker: str) -> None:
        """A new process, which has nothing yet."""
        self._limit.setdefault(broker, self._usual)
        self._change(broker, self._empty)

    def _change(self, broker: str, used: list[float]) -> None:
        self._used[broker] = used
        self._standings.pop(broker, None)

    def _row(self, broker: str) -> list[float]:
        row = self._used.get(broker)
        if row is None:  # it came after the round
            self.emptied(broker)
            row = self._used[broker]
        return row

    def _find(self, bundle: str) -> Cost | None:
        if bundle not in self._found:
            at = self._names.place_of(bundle)
            row = None if at is None else map(max, self._costs[at].tolist(), self._least)
            self._found[bundle] = None if row is None else tuple(row)
        return self._found[bundle]


class _Names(Sequence[bytes]):
    """Sorted names as they came, one a line: no object for each of them."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        self._starts = np.concatenate([np.zeros(1 if text else 0, np.int64), ends + 1])

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, at: int) -> bytes:  # type: ignore[override]
        end = self._starts[at + 1] - 1 if at + 1 < len(self._starts) else len(self._text)
        return self._text[self._starts[at] : end]

    def place_of(self, name: str) -> int | None:
        """Its line, or None."""
        wanted = name.encode()
        at = bisect_left(self, wanted)
        return at if at < len(self) and self[at] == wanted else None


def _score(used: Sequence[float], more: Sequence[float], limit: Sequence[float]) -> float:
    """The largest share of a limit, of the resources that have one."""
    return max([(u + m) / most for u, m, most in zip(used, more, limit, strict=False)])


def _usual(limit: Floats) -> Floats:
    """[C] mean of the known limits, infinite where none is."""
    known = np.isfinite(limit)
    sums = np.where(known, limit, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), sums / np.maximum(known.sum(axis=0), 1), np.inf)


def _average(used: Floats, limit: Floats) -> Floats:
    """[C] mean utilisation of the brokers."""
    return np.asarray((used / limit).mean(axis=0)) if len(used) else np.zeros(used.shape[1])
