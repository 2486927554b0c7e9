"""Runs scenario files, which describe what happens to a cluster and what must result, in the manner of CockroachDB's
allocator simulator (asim).

Commands run in order. Most add to the scenario and print nothing; `eval` runs it and prints figures and verdicts,
`plot` prints a series of the last run. Printed results are compared with those in the file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from controller.sim.scenario.commands import Script
from controller.sim.scenario.parser import parse, with_results
from controller.sim.simulation import Outcome


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a file: its text with the current results, and what differs or failed."""

    name: str
    text: str
    differences: tuple[str, ...]  # results that differ from those in the file
    unrecorded: tuple[str, ...]  # results that the file does not contain yet
    failures: tuple[str, ...]  # assertions that do not hold
    outcomes: tuple[Outcome, ...]  # of each `eval`, for plots


def run_file(text: str, name: str, strategy: str | None = None) -> Result:
    """Run all commands of the text. `strategy`: instead of those in the file.

    Raises ConfigError for errors in the file, InvariantBroken if a run breaks an invariant.
    """
    commands = parse(text, name)
    script = Script()
    results = []
    for command in commands:
        if strategy is not None:
            script.scenario = replace(script.scenario, policy=replace(script.scenario.policy, strategy=strategy))
        results.append(script.carry_out(command))
    differences, unrecorded = [], []
    for command, result in zip(commands, results, strict=True):
        found = f"{command.place}: {command.name} gives\n{result}"
        if command.expected is None and result is not None:
            unrecorded.append(found)
        elif result != command.expected:
            differences.append(f"{found}\nand the file says\n{command.expected}")
    newest = with_results(text, commands, results)
    outcomes = tuple(script.outcomes)
    return Result(name, newest, tuple(differences), tuple(unrecorded), tuple(script.failures), outcomes)
