"""Loads as assignments see them between rounds: the newest round's, changed by every move since.

`collect_loads` packs the loads of a round's snapshot (`controller.domain.round_loads`); `ExpectedLoads` follows the
moves. A bundle that no report names costs the mean of those that are named; an idle one costs a part of it, since it
may not stay idle. A broker that registered after the round is empty; one that has not reported yet carries what its
bundles cost, and counts as an average broker where no bundle is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from controller.domain.holdings import Holdings
from controller.domain.round_loads import RoundLoads
from controller.domain.settings.policy import PolicySettings
from controller.policy.placement.constraints import list_capped
from controller.policy.view.costs import Floats
from controller.policy.view.frame import place_of
from controller.policy.view.snapshot import Snapshot

LEAST_SHARE = 0.1  # of the mean, with which an idle bundle counts
Cost = tuple[float, ...]


def collect_loads(
    snapshot: Snapshot, settings: PolicySettings, round_id: str, state_seq: int, holdings: Holdings
) -> RoundLoads | None:
    """What assignments need of a round; None when it knows no broker's load. `holdings`: of the journal, for brokers
    that have not reported yet."""
    weighted = np.asarray((snapshot.weights > 0) & np.isfinite(snapshot.utilisation).any(axis=0))
    if not weighted.any():
        return None
    limit = snapshot.limit[:, weighted] / snapshot.weights[weighted]
    usage = np.maximum(snapshot.usage[:, weighted], 0.0)
    known = np.isfinite(usage) & np.isfinite(limit)
    heard = np.asarray(known.any(axis=1))[:, None]
    costs = [snapshot.cost[:, weighted]]
    used = [np.where(known, usage, 0.0)]
    if not heard.all():
        used = [np.where(heard, used[0], _sum_costs(snapshot, costs[0], holdings))]
    limits = [np.where(heard, np.where(known, limit, np.inf), np.nan)]
    of_bundles = list_capped(snapshot.fields, settings.caps)
    for (total, cap), (own, _) in zip(list_capped(snapshot.totals, settings.caps), of_bundles, strict=True):
        used.append(total[:, None])
        limits.append(np.full((len(total), 1), float(cap)))
        costs.append(own[:, None])
    return RoundLoads(
        round_id=round_id,
        state_seq=state_seq,
        full=settings.shed.overloaded_threshold,
        scored=int(weighted.sum()),
        brokers=snapshot.brokers,
        used=np.hstack(used).astype(np.float64).tobytes(),
        limit=np.hstack(limits).astype(np.float64).tobytes(),
        bundles="\n".join(snapshot.bundles).encode(),
        costs=np.hstack(costs).astype(np.float32).tobytes(),
    )


def _sum_costs(snapshot: Snapshot, cost: Floats, holdings: Holdings) -> Floats:
    """[B x C] costs of every broker's bundles, at the mean where no report names them; NaN when none is named."""
    count = len(snapshot.brokers)
    if not len(cost):
        return np.full((count, cost.shape[1]), np.nan)
    owned = snapshot.owner >= 0
    at = snapshot.owner[owned]
    named = np.column_stack([np.bincount(at, column[owned], count) for column in cost.T])
    held = np.array([holdings.total(broker) for broker in snapshot.brokers])
    unnamed = np.maximum(0, held - np.bincount(at, minlength=count))
    return np.asarray(named + unnamed[:, None] * cost.mean(axis=0))


class BrokerStanding(NamedTuple):
    """How a broker stands without regard to any bundle. `typical`: its score with one mean bundle more."""

    score: float
    typical: float
    full: bool  # overloaded
    at_cap: bool


class ExpectedLoads:
    """The newest round's loads after the moves since. A cost is one number for each column of `RoundLoads`."""

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
        self._standings: dict[str, BrokerStanding] = {}

    def known(self, bundle: str) -> bool:
        """Whether the bundle's own load is known."""
        return self._find(bundle) is not None

    def cost(self, bundle: str) -> Cost:
        """The bundle's cost to its broker."""
        return self._find(bundle) or self._mean

    def weight(self, bundle: str) -> float:
        """How much the bundle would add to the score of an average broker."""
        return _score(self._empty, self.cost(bundle), self._usual)

    def standing(self, broker: str) -> BrokerStanding:
        """How the broker is expected to stand now."""
        standing = self._standings.get(broker)
        if standing is None:
            used, limit = self._row(broker), self._limit[broker]
            score = _score(self._empty, used, limit)
            at_cap = any(u >= cap for u, cap in zip(used[self._scored :], self._caps, strict=True))
            standing = BrokerStanding(score, _score(used, self._mean, limit), score >= self._full, at_cap)
            self._standings[broker] = standing
        return standing

    def after(self, broker: str, cost: Cost) -> float:
        """The broker's expected score with a bundle of this cost."""
        return _score(self._row(broker), cost, self._limit[broker])

    def would_exceed(self, broker: str, cost: Cost) -> bool:
        """Whether a bundle of this cost would put the broker over a cap."""
        if not self._caps:
            return False
        used = self._row(broker)[self._scored :]
        return any(u + c > cap for u, c, cap in zip(used, cost[self._scored :], self._caps, strict=True))

    def note_move(self, bundle: str, source: str | None, target: str | None) -> None:
        """Count the bundle for the target instead of the source."""
        cost = self.cost(bundle)
        if source is not None:
            self._change(source, [max(0.0, u - c) for u, c in zip(self._row(source), cost, strict=True)])
        if target is not None:
            self._change(target, [u + c for u, c in zip(self._row(target), cost, strict=True)])

    def note_split(self, parent: str, children: Iterable[str]) -> None:
        """Assume that each half of a split bundle carries half of its load."""
        half = tuple(c / 2 for c in self.cost(parent))
        self._found.update(dict.fromkeys(children, half))

    def note_restart(self, broker: str) -> None:
        """Empty a broker whose process is new."""
        self._limit.setdefault(broker, self._usual)
        self._change(broker, self._empty)

    def _change(self, broker: str, used: list[float]) -> None:
        self._used[broker] = used
        self._standings.pop(broker, None)

    def _row(self, broker: str) -> list[float]:
        row = self._used.get(broker)
        if row is None:  # it registered after the round
            self.note_restart(broker)
            row = self._used[broker]
        return row

    def _find(self, bundle: str) -> Cost | None:
        if bundle not in self._found:
            at = place_of(self._names, bundle.encode())
            row = None if at is None else map(max, self._costs[at].tolist(), self._least)
            self._found[bundle] = None if row is None else tuple(row)
        return self._found[bundle]


class _Names(Sequence[bytes]):
    """Sorted names in one text, one a line: no object for each of them."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        self._starts = np.concatenate([np.zeros(1 if text else 0, np.int64), ends + 1])

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, at: int) -> bytes:  # type: ignore[override]
        end = self._starts[at + 1] - 1 if at + 1 < len(self._starts) else len(self._text)
        return self._text[self._starts[at] : end]


def _score(used: Sequence[float], more: Sequence[float], limit: Sequence[float]) -> float:
    """The largest share of a limit, of the resources that have one."""
    return max([(u + m) / most for u, m, most in zip(used, more, limit, strict=False)])


def _usual(limit: Floats) -> Floats:
    """[C] mean of the known limits, infinite where none is known."""
    known = np.isfinite(limit)
    sums = np.where(known, limit, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), sums / np.maximum(known.sum(axis=0), 1), np.inf)


def _average(used: Floats, limit: Floats) -> Floats:
    """[C] mean utilisation of the brokers."""
    return np.asarray((used / limit).mean(axis=0)) if len(used) else np.zeros(used.shape[1])
