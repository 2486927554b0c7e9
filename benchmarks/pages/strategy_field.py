"""The parts of docs/strategies.md about the field, from benchmarks/results/strategy_field.json.

They say where `steady` loses as plainly as where it wins: the sentences are made from the figures, not written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchmarks.measure.figures import RESULTS
from benchmarks.measure.policy.strategy_field import GROUPS, PULSARS, STEADY
from benchmarks.pages.generated import table
from controller.sim.field.play import SCENARIOS
from controller.sim.field.players import GREEDY
from controller.sim.field.scenarios import QUIET, SEVEN
from controller.sim.field.surprises import SURPRISES

Row = Mapping[str, Mapping[str, float]]  # player -> figures
COUNTED = {"mean": "balances worse", "moves": "moves more", "overloaded_minutes": "is over 85 % for longer"}
TITLES = {"seven": "the seven", "quiet": "periodic and calm", "surprises": "the surprises"}


def played() -> str:
    """Which seeds the figures are of, when and where they were taken, and what `steady` made of `big`."""
    found = _result()
    figures, machine = found["figures"], found["machine"]
    text = (
        f"Mean of seeds {_listed(figures['seeds'])}, taken {found['taken_at'][:10]} on "
        f"{machine['threads']} × {machine['cpu']}.\n"
    )
    if "big" not in figures:
        return text
    big = figures["big"][STEADY]
    return (
        f"{text}`{STEADY}` alone played `big`, seeds {_listed(figures['big']['seeds'])}: {big['mean']:.3f}→"
        f"{big['end']:.3f}, {big['moves']:.0f} moves;\n"
        f"from the fourth round on {big['overloaded_later']:g} broker-minutes above 85 %, of all seeds together.\n"
    )


def _listed(seeds: list[int]) -> str:
    in_turn = seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if in_turn else ", ".join(map(str, seeds))


def purposes() -> str:
    """What happens in each scenario."""
    groups = {name: title for group, title in TITLES.items() for name in GROUPS[group]}
    rows = [[f"`{name}`", groups.get(name, "when named"), _purpose(made)] for name, made in SCENARIOS.items()]
    return table(["scenario", "counted among", "what happens"], rows)


def sums() -> str:
    """One row for each player: the seven together, the surprises together, and the quiet two."""
    figures = _result()["figures"]
    rows = []
    for player in figures["seven"]:
        seven, surprises = figures["seven"][player], figures["surprises"][player]
        quiet = (figures["scenarios"][name][player] for name in QUIET)
        rows.append(
            [
                f"`{player}`",
                f"{seven['mean']:.3f}→{seven['end']:.3f}, {seven['moves']:.0f}, {seven['overloaded_minutes']:.0f} min",
                f"{surprises['mean']:.3f}→{surprises['end']:.3f}, {surprises['moves']:.0f}, "
                f"{surprises['overloaded_minutes']:.0f} min",
                *(f"{found['mean']:.3f}, {found['moves']:.0f}" for found in quiet),
                f"{sum(figures[group][player]['twice'] for group in GROUPS):.0f}",
            ]
        )
    return table(["player", "the seven", "the surprises", *(f"`{name}`" for name in QUIET), "twice"], rows)


def each(names: Iterable[str]) -> str:
    """Balance and moves of every player in each of these scenarios."""
    found = {name: row for name, row in _result()["figures"]["scenarios"].items() if name in names}
    players = list(next(iter(found.values())))
    rows = [[name, *(f"{row[p]['mean']:.3f}, {row[p]['moves']:.0f}" for p in players)] for name, row in found.items()]
    return table(["scenario", *(f"`{player}`" for player in players)], rows)


def losses() -> str:
    """Where `steady` does worse than `greedy`, and than the one of Pulsar's strategies that balances best."""
    found = _result()["figures"]["scenarios"]
    against_pulsar = {
        name: min((row[p]["mean"], row[p]["moves"], p) for p in PULSARS)[2] for name, row in found.items()
    }
    return "".join(
        [
            _comparison(f"Than `{GREEDY}`", found, lambda name: GREEDY),
            _comparison(
                "Than the one of Pulsar's strategies that balances best there", found, against_pulsar.__getitem__
            ),
        ]
    )


def _comparison(title: str, found: Mapping[str, Row], rival: Callable[[str], str]) -> str:
    parts = []
    for key, verb in COUNTED.items():
        worse = [
            f"{name} ({_shown(key, row[STEADY][key])} against {_shown(key, row[rival(name)][key])})"
            for name, row in found.items()
            if row[STEADY][key] > row[rival(name)][key]
        ]
        parts.append(f"  - it {verb} in {len(worse)} of {len(found)}{': ' + ', '.join(worse) if worse else ''}\n")
    return f"- {title} (equal counts as not worse):\n{''.join(parts)}"


def _shown(key: str, value: float) -> str:
    return f"{value:.3f}" if key == "mean" else f"{value:.1f}"


def _purpose(made: object) -> str:
    return (made.__doc__ or "").strip().splitlines()[0]


def _result() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "strategy_field.json").read_text())
    return found


PARTS: dict[str, Callable[[], str]] = {
    "field_played": played,
    "field_purposes": purposes,
    "field_sums": sums,
    "field_each": lambda: each((*SEVEN, *QUIET)),
    "field_surprises": lambda: each(SURPRISES),
    "field_losses": losses,
}
