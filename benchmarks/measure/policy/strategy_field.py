"""Measures how well each strategy balances clusters whose bundles' costs nobody knows, and with how many moves.

    python -m benchmarks strategy_field [--seeds 1-3] [--scenarios seven,surge] [--players greedy,steady] [--merge]

Every scenario of `controller/sim/field/`, sixty rounds each. A figure is the mean over the seeds: the worst broker's
utilisation divided by the best achievable, over all rounds and over the last ten; broker-minutes above 85 %; moves; and
bundles that moved twice within half an hour. `greedy` and `oracle` are no strategies of the product; `oracle:0.04` is
the oracle with another tolerance. The same code gives the same figures on every machine, so `--merge` may play only
what has changed and keep the rest of the stored figures. `big` takes too long for everybody: `steady` alone plays it,
on three seeds, and is held to nobody over 85 % from the fourth round on; `--scenarios big --merge` stores that anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure.figures import RESULTS, write
from benchmarks.measure.result import Result, Target
from benchmarks.pages import performance as page
from controller.policy.strategies import STRATEGIES, has, traits_of
from controller.sim.field.play import SCENARIOS, Run, play, player_of
from controller.sim.field.players import GREEDY, ORACLE
from controller.sim.field.scenarios import BIG, QUIET, SEVEN
from controller.sim.field.surprises import SURPRISES

NAME = "strategy_field"
PULSARS = tuple(name for name, strategy in STRATEGIES.items() if traits_of(strategy).from_pulsar)
STEADY = "steady"
PLAYERS = (GREEDY, ORACLE, *STRATEGIES)
GROUPS = {"seven": SEVEN, "quiet": QUIET, "surprises": SURPRISES}
USUAL = (*SEVEN, *QUIET, *SURPRISES)  # played by everybody
SEEDS = tuple(range(1, 11))
BIG_SEEDS = SEEDS[:3]
QUICK_PLAYERS = (GREEDY, ORACLE, STEADY)
TOLERANCES_PCT = (2, 4, 6, 8, 10)
MOVES_LIMIT = {"diurnal": 1.15}  # of greedy's: what rises and falls must be followed

Cell = dict[str, float]
Found = dict[str, dict[str, Cell]]  # scenario -> player -> figures


def cell(runs: Sequence[Run]) -> Cell:
    """The figures of one player in one scenario: means over the seeds, but all bundles that moved twice."""
    return {
        "mean": round(float(np.mean([r.mean for r in runs])), 3),
        "end": round(float(np.mean([r.end for r in runs])), 3),
        "overloaded_minutes": round(float(np.mean([r.overloaded_minutes for r in runs])), 1),
        "moves": round(float(np.mean([r.moves for r in runs])), 1),
        "twice": sum(r.twice for r in runs),
    }


def play_all(
    seeds: Sequence[int], scenarios: Iterable[str], players: Sequence[str], say: Callable[[str], None] = lambda _: None
) -> Found:
    """Play everything, and `say` a line for each scenario and player."""
    found: Found = {}
    for scenario in scenarios:
        found[scenario] = {}
        for player in players:
            runs = [play(scenario, player_of(player), seed) for seed in seeds]
            figures = cell(runs)
            if scenario in BIG:
                figures["overloaded_later"] = round(sum(run.overloaded_later for run in runs), 1)
            found[scenario][player] = figures
            say(line_of(scenario, player, figures))
    return found


def play_big(say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """What `steady` makes of `big`, and on which seeds."""
    (found,) = play_all(BIG_SEEDS, BIG, [STEADY], say).values()
    return {"seeds": list(BIG_SEEDS), **found}


def read_stored() -> Found:
    """The figures of the stored result."""
    found: Found = _stored_figures()["scenarios"]
    return found


def _stored_figures() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((RESULTS / f"{NAME}.json").read_text())["figures"]
    return stored


def merge(stored: Found, played: Found) -> Found:
    """The stored figures with those played now in their place, in the order of scenarios and players."""
    both = {name: {**stored.get(name, {}), **played.get(name, {})} for name in (*stored, *played)}
    order = [name for name in USUAL if name in both] + [name for name in both if name not in USUAL]
    return {name: {player: both[name][player] for player in PLAYERS if player in both[name]} for name in order}


def line_of(scenario: str, player: str, figures: Cell) -> str:
    """For the terminal."""
    later = f" {figures['overloaded_later']:g} of all after the fourth round" if "overloaded_later" in figures else ""
    return (
        f"{scenario:10} {player:12} {figures['mean']:6.3f} → {figures['end']:5.3f} {figures['moves']:7.1f} moves "
        f"{figures['overloaded_minutes']:6.1f} min over 85 %{later} {figures['twice']} twice"
    )


def totals(found: Found, scenarios: Iterable[str]) -> dict[str, Cell]:
    """Player -> the mean of the scenarios' ratios, and the sums of what they count."""
    rows = [found[name] for name in scenarios if name in found]
    players = list(rows[0]) if rows else []
    return {
        player: {
            **{key: round(float(np.mean([row[player][key] for row in rows])), 3) for key in ("mean", "end")},
            **{
                key: round(sum(row[player][key] for row in rows), 1) for key in ("overloaded_minutes", "moves", "twice")
            },
        }
        for player in players
    }


def frontier(seeds: Sequence[int]) -> dict[str, Cell]:
    """The oracle's totals over the seven by tolerance: what balance costs in moves if costs are known."""
    names = {f"{pct}_pct": f"{ORACLE}:{pct / 100}" for pct in TOLERANCES_PCT}
    found = totals(play_all(seeds, SEVEN, list(names.values())), SEVEN)
    return {key: found[player] for key, player in names.items()}


def standing(found: Found) -> dict[str, Cell]:
    """Scenario -> what `steady` makes of the figures of `greedy`; nothing without both."""
    result: dict[str, Cell] = {}
    for name, row in found.items():
        if name in SEVEN and {STEADY, GREEDY} <= set(row):
            steady, greedy = row[STEADY], row[GREEDY]
            result[name] = {
                "mean_of_greedy": round(steady["mean"] / greedy["mean"], 3),
                "moves_of_greedy": round(steady["moves"] / max(greedy["moves"], 1.0), 3),
                "more_overloaded_minutes": round(steady["overloaded_minutes"] - greedy["overloaded_minutes"], 1),
            }
    return result


def result_of(found: Found, seeds: Sequence[int], big: Mapping[str, Any] | None = None) -> Result:
    """The figures with what `steady` is held to. `big`: see `play_big`."""
    figures: dict[str, Any] = {"seeds": list(seeds), "scenarios": found}
    figures |= {group: totals(found, names) for group, names in GROUPS.items() if set(names) <= set(found)}
    figures["standing"] = standing(found)
    if "seven" in figures:
        figures["frontier"] = frontier(seeds)
    if big is not None:
        figures["big"] = big
    return Result(NAME, figures, _targets(figures))


def _targets(figures: Mapping[str, Any]) -> list[Target]:
    targets = []
    for name in figures["standing"]:
        targets += [
            Target(f"standing.{name}.mean_of_greedy", 1.0, "of its mean"),
            Target(f"standing.{name}.moves_of_greedy", MOVES_LIMIT.get(name, 1.0), "of its moves"),
            Target(f"standing.{name}.more_overloaded_minutes", 0, "broker-minutes"),
        ]
    held = {group for group in GROUPS if STEADY in figures.get(group, {})}
    targets += [Target(f"{group}.{STEADY}.twice", 0, "bundles moved twice") for group in GROUPS if group in held]
    if "seven" in held:
        targets += [Target(f"seven.{STEADY}.mean", 1.12, "x best"), Target(f"seven.{STEADY}.moves", 450, "moves")]
    if "quiet" in held:
        targets += [
            Target(f"scenarios.periodic.{STEADY}.moves", 5, "moves"),
            Target(f"scenarios.periodic.{STEADY}.mean", 1.08, "x best"),
            Target(f"scenarios.calm.{STEADY}.moves", 0, "moves"),
        ]
    if "big" in figures:
        targets.append(Target(f"big.{STEADY}.overloaded_later", 0, "broker-minutes"))
    return targets


def run(folder: Path, quick: bool) -> Result:
    """For `python -m benchmarks`: all players there are. Writes no files of its own into `folder`."""
    if quick:
        return result_of(play_all(SEEDS[:1], (*SEVEN, *QUIET), QUICK_PLAYERS), SEEDS[:1])
    return result_of(play_all(SEEDS, USUAL, PLAYERS, _say), SEEDS, play_big(_say))


def _say(text: str) -> None:
    print(text, flush=True)


def main(argv: Sequence[str]) -> int:
    """Play what was asked for. Returns 1 with `--strict` if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks strategy_field", description="Compare strategies.")
    parser.add_argument("--seeds", type=seeds_of, default=SEEDS, help="as 1,2,5 or 1-3 (default: 1-10)")
    groups = f"{', '.join(GROUPS)} for groups of them"
    parser.add_argument("--scenarios", type=_scenarios, help=f"of {', '.join(SCENARIOS)}; {groups} (default: no big)")
    parser.add_argument("--players", type=_players, help=f"of {', '.join(PLAYERS)}, oracle:TOLERANCE (default: all)")
    parser.add_argument("--quick", action="store_true", help="one seed, three players, nine scenarios")
    parser.add_argument("--store", action="store_true", help="store the figures of fewer seeds than usual, too")
    parser.add_argument("--merge", action="store_true", help="store the figures beside those that are stored already")
    parser.add_argument("--strict", action="store_true", help="exit code 1 if a target is missed")
    given = parser.parse_args(argv)
    narrowed = bool(given.scenarios or given.players or given.quick)
    if given.store and narrowed:
        parser.error("--store keeps the figures of all scenarios and players: leave out what chooses some of them")
    if given.merge and (given.quick or tuple(given.seeds) != SEEDS):
        parser.error("--merge needs all seeds: the stored figures are means over them")
    seeds = SEEDS[:1] if given.quick else given.seeds
    scenarios = given.scenarios or ((*SEVEN, *QUIET) if given.quick else USUAL)
    players = given.players or (QUICK_PLAYERS if given.quick else PLAYERS)
    keeps = given.store or given.merge or not (narrowed or tuple(seeds) != SEEDS)
    found = play_all(seeds, [name for name in scenarios if not (given.merge and name in BIG)], players, _say)
    big = _stored_figures().get("big") if given.merge and not set(scenarios) & set(BIG) else None
    if keeps and big is None:
        big = play_big(_say)
    if given.merge:
        found = merge(read_stored(), found)
        if missing := [name for name, row in found.items() if set(row) != set(PLAYERS)]:
            parser.error(f"--merge: not everybody has played {', '.join(missing)}: name these with --scenarios first")
    for group, names in GROUPS.items():
        for player, figures in totals(found, names).items() if set(names) <= set(found) else ():
            _say(line_of(f"{group}:", player, figures))
    result = result_of(found, seeds, big)
    for line in result.lines():
        if line.endswith(("MISSED", "reached")):
            _say(line)
    if keeps:
        _say(f"written to {write(NAME, result.document())}")
        page.refresh()
        _say("docs/strategies.md shows them after `python -m benchmarks.pages.strategies --write`, and after `….plots`")
    return 1 if given.strict and not result.reached else 0


def seeds_of(text: str) -> tuple[int, ...]:
    """`1,2,5`, `1-3`. Raises ArgumentTypeError."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            raise argparse.ArgumentTypeError(f"{part!r} is no seed: give whole numbers, as 1,2,5 or 1-3")
        seeds += range(int(first), int(last or first) + 1)
    return tuple(seeds)


def _scenarios(text: str) -> tuple[str, ...]:
    """Names of scenarios and of groups. Raises ArgumentTypeError."""
    chosen = [name for part in text.split(",") for name in GROUPS.get(part, [part])]
    unknown = [name for name in chosen if name not in SCENARIOS]
    if unknown:
        there_are = ", ".join((*GROUPS, *SCENARIOS))
        raise argparse.ArgumentTypeError(f"no scenario {', '.join(unknown)}: there are {there_are}")
    return tuple(dict.fromkeys(chosen))


def _players(text: str) -> tuple[str, ...]:
    """Names of players. Raises ArgumentTypeError."""
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in PLAYERS and not _is_oracle(name) and not has(name)]
    if unknown:
        raise argparse.ArgumentTypeError(f"no player {', '.join(unknown)}: there are {', '.join(PLAYERS)}")
    return names


def _is_oracle(name: str) -> bool:
    kind, _, tolerance = name.partition(":")
    return kind == ORACLE and tolerance.replace(".", "", 1).isdigit()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
