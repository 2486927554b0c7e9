"""Measures how well each strategy balances, and with how many moves.

    python -m benchmarks.measure.policy.strategy_field [--strategies a,b]

Every scenario of `controller/sim/field/scenarios.py`, some seeds each, sixty one-minute rounds. A figure is the mean
over the seeds: the ratio of the largest load to the best achievable as the mean of the hour and at its end, and moves.
`greedy` is no strategy of the product: the crudest thing that works, from the most to the least utilised broker.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure.figures import write
from benchmarks.measure.result import Result, Target
from benchmarks.pages import performance as page
from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.settings.policy import PolicySettings
from controller.policy.placement.constraints import assess, constrain
from controller.policy.plan import Plan
from controller.policy.strategies import STRATEGIES, StrategyOutcome, traits_of
from controller.policy.view.frame import Frame
from controller.policy.view.reason_codes import ALLOWED
from controller.policy.view.snapshot import from_frame
from controller.sim.field.field import Decide, Run, play, policy_path
from controller.sim.field.scenarios import SCENARIOS

PULSARS = tuple(name for name, strategy in STRATEGIES.items() if traits_of(strategy).from_pulsar)
GREEDY, STEADY = "greedy", "steady"
GREEDY_AT, GREEDY_A_ROUND = 1.10, 3
SEEDS = 3
ENDS_LEVEL = ("skew", "hot", "join", "leave", "hetero")
QUIET = ("periodic", "calm")


def greedy(frame: Frame, memory: Mapping[str, Any], settings: PolicySettings) -> Plan:
    """While somebody is a tenth above the mean: from the fullest to the emptiest, the bundle that halves their gap."""
    snapshot = constrain(assess(from_frame(frame, settings), settings), settings)
    limit = np.where(np.isfinite(snapshot.limit), snapshot.limit, np.inf)
    used = np.nan_to_num(snapshot.usage)
    decisions = []
    left = snapshot.bundle_block == ALLOWED
    owner = snapshot.owner.copy()
    for _ in range(GREEDY_A_ROUND):
        load = (used / limit).max(axis=1)
        source, target = int(np.argmax(load)), int(np.argmin(load))
        mine = np.flatnonzero((owner == source) & left)
        if load[source] < load.mean() * GREEDY_AT or not len(mine):
            break
        share = (snapshot.cost[mine] / limit[source]).max(axis=1)
        bundle = int(mine[np.argmin(np.abs(share - (load[source] - load[target]) / 2))])
        used[source] -= snapshot.cost[bundle]
        used[target] += snapshot.cost[bundle]
        owner[bundle], left[bundle] = target, False
        names = snapshot.brokers[source], snapshot.brokers[target]
        decisions.append(
            Decision("", DecisionKind.TRANSFER, Label.SUCCESS, Reason.ABOVE_MEAN, snapshot.bundles[bundle], *names)
        )
    outcome = StrategyOutcome(tuple(decisions), (), {}, np.zeros(len(owner), bool))
    return Plan(snapshot, outcome, tuple(decisions))


def generator_of(scenario: str, number: int) -> np.random.Generator:
    """The same draws for every strategy."""
    return np.random.default_rng([number, zlib.crc32(scenario.encode())])


def run_one(scenario: str, strategy: str, seed: int, settings: PolicySettings | None = None) -> Run:
    """One strategy in one scenario."""
    rng = generator_of(scenario, seed)
    world = SCENARIOS[scenario](rng)
    decide: Decide = greedy if strategy == GREEDY else policy_path(strategy)
    return play(world, decide, rng, replace(settings or PolicySettings(), strategy=strategy))


def figures(strategies: Sequence[str], seeds: int, scenarios: Sequence[str] = tuple(SCENARIOS)) -> dict[str, Any]:
    """Scenario -> strategy -> mean, end, moves, twice: means over the seeds, the worst end, all the doubles."""
    result: dict[str, Any] = {}
    for scenario in scenarios:
        result[scenario] = {}
        for strategy in strategies:
            runs = [run_one(scenario, strategy, seed) for seed in range(seeds)]
            result[scenario][strategy] = {
                "mean": round(float(np.mean([r.mean for r in runs])), 3),
                "end": round(float(np.mean([r.end for r in runs])), 3),
                "worst_end": round(max(r.end for r in runs), 3),
                "moves": round(float(np.mean([r.moves for r in runs])), 1),
                "most_moves": max(r.moves for r in runs),
                "twice": sum(r.twice for r in runs),
            }
    return result


def table(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
    """For the terminal: mean -> end, moves; a row a scenario."""
    names = list(next(iter(found.values())))
    lines = [" ".join([f"{'':9}", *[f"{name:>18}" for name in names]])]
    for scenario, cells in found.items():
        shown = [f"{c['mean']:.2f}→{c['end']:.2f}, {c['moves']:.0f}" for c in cells.values()]
        lines.append(" ".join([f"{scenario:9}", *[f"{text:>18}" for text in shown]]))
    return lines


def standing(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
    """What `steady` is held to against Pulsar's strategies; without them, or without it, nothing."""
    rivals = [name for name in PULSARS if name in next(iter(found.values()))]
    if not rivals or STEADY not in next(iter(found.values())):
        return {}
    result: dict[str, Any] = {}
    moves = best_moves = 0.0
    for scenario, cells in found.items():
        if scenario == "calm":
            continue
        best = min(rivals, key=lambda name: (cells[name]["mean"], name))
        moves, best_moves = moves + cells[STEADY]["moves"], best_moves + cells[best]["moves"]
        share = {"mean_of_best_rival": round(cells[STEADY]["mean"] / cells[best]["mean"], 3), "rival": best}
        if scenario not in QUIET:
            share["moves_of_that_rival"] = round(cells[STEADY]["moves"] / cells[best]["moves"], 3)
        result[scenario] = share
    return {**result, "moves_of_best_rivals": round(moves / best_moves, 3)}


def run(folder: Path, quick: bool) -> Result:
    """For `python -m benchmarks`: all strategies there are. Writes no files of its own into `folder`."""
    names = [*PULSARS, STEADY]
    return result_of(figures([*names, GREEDY], 1 if quick else SEEDS))


def result_of(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Result:
    """The figures with what they are held against."""
    return Result("strategy_field", {**found, "standing": standing(found)}, _targets(found))


def _targets(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[Target]:
    targets = [Target(f"{scenario}.{STEADY}.worst_end", 1.06, "x best") for scenario in ENDS_LEVEL]
    targets += [Target(f"{scenario}.{STEADY}.most_moves", 4, "moves") for scenario in QUIET]
    targets += [Target(f"{scenario}.{STEADY}.twice", 0, "bundles moved twice") for scenario in found]
    if standing(found):
        for scenario in found:
            if scenario not in QUIET:
                targets.append(Target(f"standing.{scenario}.mean_of_best_rival", 0.999, "of its mean"))
                targets.append(Target(f"standing.{scenario}.moves_of_that_rival", 0.999, "of its moves"))
        targets.append(Target("standing.moves_of_best_rivals", 0.5, "of their moves"))
    return targets


def main(argv: Sequence[str]) -> int:
    """Print the table; the figures are kept when all strategies ran on the usual seeds."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.measure.policy.strategy_field", description="Compare strategies."
    )
    parser.add_argument("--strategies", default="", help="names, comma-separated (default: all there are)")
    parser.add_argument("--scenarios", default="", help=f"of {', '.join(SCENARIOS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    given = parser.parse_args(argv)
    names = given.strategies.split(",") if given.strategies else [*PULSARS, STEADY]
    if not given.strategies:
        names.append(GREEDY)
    unknown = [n for n in names if n not in STRATEGIES and n != GREEDY]
    if unknown:
        parser.error(f"no strategy {', '.join(unknown)}: there are {', '.join([*STRATEGIES, GREEDY])}")
    scenarios = given.scenarios.split(",") if given.scenarios else list(SCENARIOS)
    if set(scenarios) - set(SCENARIOS):
        parser.error(f"no scenario {', '.join(set(scenarios) - set(SCENARIOS))}: there are {', '.join(SCENARIOS)}")
    found = figures(names, given.seeds, scenarios)
    print("\n".join(table(found)))
    for scenario, share in standing(found).items():
        print(f"{scenario}: {share}")
    if not given.strategies and not given.scenarios and given.seeds == SEEDS:
        print(f"written to {write('strategy_field', result_of(found).document())}")
        page.refresh()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
