"""Who plays the field: a plain greedy loop, the same loop told the truth, and every strategy of Ballast.

`greedy` is what anybody would write first, and no strategy of the product. `oracle` knows every bundle's true cost, so
the distance between the two is what not knowing costs. A strategy decides in this process as `ballast decide
--no-split` does, with its state kept between rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from controller.decide.session import DecideSession
from controller.domain.decision import DecisionKind
from controller.domain.settings.policy import PolicySettings
from controller.policy.usage.model import UsageModel
from controller.policy.view.frame import Ints
from controller.policy.view.snapshot import Snapshot
from controller.sim.field.cluster import CPU, MINUTE_MS, Cluster, Floats
from controller.sim.field.observation import Observation, Observer

GREEDY, ORACLE = "greedy", "oracle"
TOLERANCE = 0.06  # above the level
MARGIN = 0.01  # of a broker, besides the tolerance
LEAST_GAIN = 0.02  # of a broker
REST_MS = 30 * MINUTE_MS  # of a bundle that moved

Moves = list[tuple[int, int]]  # bundle, broker: indices in the cluster


class Player(Protocol):
    """Answers a round's observation with moves."""

    def decide(self, seen: Observation) -> Moves:
        """The moves of this round, in order."""
        ...


def relieve_worst(
    used: Floats, load: Floats, capacity: Floats, owner: Ints, movable: NDArray[np.bool_],
    enough: Callable[[Floats], float], tries: int, insist: bool,
) -> Moves:  # fmt: skip
    """Again and again the move that takes most off the worst broker, until it is no worse than `enough`.

    `used` [B x 3], `load` [N x 3] and `capacity` [B x 3] describe the cluster; `enough` of the brokers' worst
    utilisations [B] is what needs no relief. A broker that no move relieves ends the round, or with `insist` is left
    aside for the next worst.
    """
    used, owner, movable = used.copy(), owner.copy(), movable.copy()
    aside = np.zeros(len(used), bool)
    moves: Moves = []
    for _ in range(tries):
        worst = used.max(axis=1)
        source = int(np.where(aside, -1.0, worst).argmax())
        if aside[source] or worst[source] <= enough(worst):
            break
        mine = np.flatnonzero((owner == source) & movable)
        gain, at, target = _best_move(used, load[mine], capacity, source)
        if gain >= LEAST_GAIN:
            bundle = int(mine[at])
            used[source] -= load[bundle] / capacity[source]
            used[target] += load[bundle] / capacity[target]
            owner[bundle], movable[bundle] = target, False
            moves.append((bundle, target))
        elif insist:
            aside[source] = True
        else:
            break
    return moves


def _best_move(used: Floats, load: Floats, capacity: Floats, source: int) -> tuple[float, int, int]:
    """What the best move takes off the worse of its two ends, which of `load` [n x 3] it moves, and to which broker."""
    if not len(load):
        return 0.0, -1, -1
    left = (used[source] - load / capacity[source]).max(axis=1)
    there = (used + load[:, None] / capacity).max(axis=2)
    there[:, source] = np.inf
    targets = there.argmin(axis=1)
    gains = used[source].max() - np.maximum(left, there.min(axis=1))
    at = int(gains.argmax())
    return float(gains[at]), at, int(targets[at])


class Rest:
    """Which bundles have moved lately."""

    def __init__(self, bundles: int) -> None:
        self._moved_ms = np.full(bundles, -REST_MS)

    def over(self, now_ms: int) -> NDArray[np.bool_]:
        """[N] the bundles that may move."""
        return np.asarray(now_ms - self._moved_ms >= REST_MS)

    def begin(self, moves: Moves, now_ms: int) -> None:
        """These have moved now."""
        for bundle, _ in moves:
            self._moved_ms[bundle] = now_ms


class Greedy:
    """Takes every reading at face value: a bundle costs its share of the broker's bytes in."""

    def __init__(self, bundles: int) -> None:
        self._rest = Rest(bundles)

    def decide(self, seen: Observation) -> Moves:
        """See Player."""
        used, limit, owner = seen.utilisation, seen.limit, seen.owner
        load = np.column_stack([np.zeros(len(owner)), seen.rates])
        total = np.maximum(np.bincount(owner, seen.rates[:, 0], len(used)), 1e-9)
        load[:, CPU] = (used[:, CPU] * limit[:, CPU] / total)[owner] * seen.rates[:, 0]
        level = float((load.sum(axis=0) / limit.sum(axis=0)).max())
        moves = relieve_worst(
            used, load, limit, owner, self._rest.over(seen.line.now_ms)[seen.bundles],
            lambda worst: max(level, worst.mean()) * (1 + TOLERANCE) + MARGIN, max(4, len(used)), insist=False,
        )  # fmt: skip
        chosen = [(int(seen.bundles[bundle]), int(seen.brokers[broker])) for bundle, broker in moves]
        self._rest.begin(chosen, seen.line.now_ms)
        return chosen


class Oracle:
    """Knows what every bundle needs and every broker can carry, without noise."""

    def __init__(self, cluster: Cluster, tolerance: float = TOLERANCE) -> None:
        self._cluster = cluster
        self._tolerance = tolerance
        self._rest = Rest(len(cluster.traffic))

    def decide(self, seen: Observation) -> Moves:
        """See Player."""
        cluster, living = self._cluster, seen.brokers
        row = np.full(len(cluster.cores), -1)
        row[living] = np.arange(len(living))
        load, capacity, other = cluster.load(), cluster.capacity()[living], cluster.other()[living]
        level = float(((load.sum(axis=0) + (other * capacity).sum(axis=0)) / capacity.sum(axis=0)).max())
        moves = relieve_worst(
            cluster.utilisation()[living], load, capacity, row[cluster.owner], self._rest.over(seen.line.now_ms),
            lambda worst: level * (1 + self._tolerance) + MARGIN, 2 * len(living), insist=True,
        )  # fmt: skip
        chosen = [(bundle, int(living[broker])) for bundle, broker in moves]
        self._rest.begin(chosen, seen.line.now_ms)
        return chosen


class StrategyPlayer:
    """A strategy of Ballast. `tell`: changes what it goes by in a round, given what its usage model knows."""

    def __init__(
        self, strategy: str, settings: PolicySettings, observer: Observer,
        tell: Callable[[Snapshot, UsageModel], Snapshot] = lambda snapshot, _: snapshot,
    ) -> None:  # fmt: skip
        self._tell = tell
        settings = replace(settings, strategy=strategy, split=replace(settings.split, enabled=False))
        self._session = DecideSession(strategy, settings)
        self._bundle = {name: at for at, name in enumerate(observer.bundle_names)}
        self._broker = {name: at for at, name in enumerate(observer.broker_names)}

    @property
    def usage(self) -> UsageModel:
        """What its session has learned."""
        return self._session.usage

    def decide(self, seen: Observation) -> Moves:
        """See Player."""
        decisions = self._session.decide(self._tell(self._session.snapshot(seen.line), self.usage))
        return [
            (self._bundle[d.bundle], self._broker[d.target])
            for d in decisions
            if d.kind in (DecisionKind.TRANSFER, DecisionKind.UNLOAD) and d.bundle and d.target
        ]
