"""Where `steady` loses what it loses on the field: the same plays with parts of what it goes by replaced by the truth.

    python -m benchmarks.measure.policy.field_truths costs,usage [--seeds 1-3] [--scenarios skew,hot]

Prints the mean of worst / best achievable and the moves, of each scenario and of all. Parts:

- `costs`: what each bundle costs, without error; `prior` is the opposite: what its traffic costs on average;
- `usage`: what each broker uses, beyond its limit as well;
- `speeds`: how fast each broker is, and what it does besides serving bundles;
- `lasting`: all load lasts, and nothing is watched for the first rounds (true where loads only rise and fall slowly);
- `grace`: bundles may move again in the next round.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure.policy.strategy_field import SEEDS, seeds_of
from controller.domain.load import RESOURCE_SCALES, RESOURCES
from controller.domain.settings.policy import PolicySettings
from controller.policy.usage.model import FACTOR_SPREAD, UsageModel
from controller.policy.view.estimates import BROKER_ESTIMATES, BUNDLE_ESTIMATES, PERMILLE
from controller.policy.view.frame import Frame, Ints
from controller.policy.view.snapshot import Snapshot, from_frame
from controller.sim.field.cluster import CPU, Cluster
from controller.sim.field.observation import Observer
from controller.sim.field.play import play
from controller.sim.field.players import StrategyPlayer
from controller.sim.field.scenarios import SEVEN

PARTS = ("costs", "prior", "usage", "speeds", "lasting", "grace")
OF_BROKER = {name: at for at, name in enumerate(BROKER_ESTIMATES)}
OF_BUNDLE = {name: at for at, name in enumerate(BUNDLE_ESTIMATES)}
CPU_COLUMN = RESOURCES.index("cpu")
A_CORE = 100 * RESOURCE_SCALES[CPU_COLUMN]  # in units of estimates
LATER = 100  # rounds: those of a model that has long been at work


class Teller:
    """Tells `steady` the truth of some parts; of the others what it thinks itself."""

    def __init__(self, parts: Collection[str], cluster: Cluster, observer: Observer) -> None:
        self._parts, self._cluster = parts, cluster
        self._broker = {name: at for at, name in enumerate(observer.broker_names)}
        self._bundle = {name: at for at, name in enumerate(observer.bundle_names)}
        grace_ms = 0 if "grace" in parts else PolicySettings().shed.grace_period_ms
        settings = PolicySettings(strategy="steady")
        shed, split = replace(settings.shed, grace_period_ms=grace_ms), replace(settings.split, enabled=False)
        self.settings = replace(settings, shed=shed, split=split)

    def tell(self, snapshot: Snapshot, usage: UsageModel) -> Snapshot:
        """The snapshot with other estimates."""
        frame = snapshot.frame
        assert frame.estimates is not None
        of_brokers, of_bundles = frame.estimates.brokers.copy(), frame.estimates.bundles.copy()
        estimates = replace(frame.estimates, brokers=of_brokers, bundles=of_bundles)
        brokers = np.array([self._broker[name] for name in frame.brokers])
        cost, error = OF_BUNDLE["cpu_cost"], OF_BUNDLE["cpu_error"]
        if "costs" in self._parts:
            bundles = [self._bundle[name] for name in frame.bundles]
            of_bundles[:, cost], of_bundles[:, error] = _whole(self._cluster.load()[bundles, CPU] * A_CORE), 0
        if "prior" in self._parts:
            of_bundles[:, cost] = _whole(of_bundles[:, cost] / usage.bundles.factor)
            of_bundles[:, error] = _whole(of_bundles[:, cost] * FACTOR_SPREAD)
        if "usage" in self._parts:
            limit = frame.limit[:, CPU_COLUMN]
            used = _whole(self._cluster.utilisation()[brokers, CPU] * limit)
            of_brokers[:, OF_BROKER["cpu_used"]], of_brokers[:, OF_BROKER["cpu_error"]] = used, 0
            estimates = replace(estimates, cpu_read=np.minimum(used, limit))
        if "speeds" in self._parts:
            self._tell_speeds(of_brokers, brokers, frame)
        if "lasting" in self._parts:
            of_bundles[:, OF_BUNDLE["lasting_permille"]], of_bundles[:, OF_BUNDLE["burst_rounds"]] = PERMILLE, 0
            none = np.zeros_like(estimates.burst)
            estimates = replace(estimates, burst=none, cpu_spike=None, network_spike=None, rounds=LATER)
        return from_frame(replace(frame, estimates=estimates), self.settings)

    def _tell_speeds(self, of_brokers: Ints, brokers: Ints, frame: Frame) -> None:
        of_brokers[:, OF_BROKER["speed_permille"]] = _whole(PERMILLE * self._cluster.slow[brokers])
        base = self._cluster.other_cpu[brokers] * frame.limit[:, CPU_COLUMN]
        of_brokers[:, OF_BROKER["cpu_base"]] = _whole(base)


def _whole(values: NDArray[np.floating[Any]]) -> Ints:
    return np.asarray(np.rint(values), np.int64)


def told(parts: Collection[str], cluster: Cluster, observer: Observer) -> StrategyPlayer:
    """`steady`, told the truth of these parts."""
    teller = Teller(parts, cluster, observer)
    return StrategyPlayer("steady", teller.settings, observer, teller.tell)


def main(argv: Sequence[str]) -> int:
    """Play, and print a line for each scenario."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measure.policy.field_truths")
    parser.add_argument("parts", nargs="?", default="", help=f"some of {', '.join(PARTS)}; none: as it is")
    parser.add_argument("--seeds", type=seeds_of, default=SEEDS)
    parser.add_argument("--scenarios", default=",".join(SEVEN))
    given = parser.parse_args(argv)
    parts = [part for part in given.parts.split(",") if part]
    if unknown := sorted({*parts} - {*PARTS}):
        parser.error(f"there is no part {unknown[0]}: choose from {', '.join(PARTS)}")
    means, moves = [], []
    for scenario in given.scenarios.split(","):
        runs = [play(scenario, lambda cluster, seen: told(parts, cluster, seen), seed) for seed in given.seeds]
        means.append(float(np.mean([run.mean for run in runs])))
        moves.append(float(np.mean([run.moves for run in runs])))
        print(f"{scenario:10} {means[-1]:6.3f} {moves[-1]:7.1f} moves", flush=True)
    print(f"{'all':10} {np.mean(means):6.3f} {sum(moves):7.1f} moves", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
