"""`ballast sim FILE…`: runs scenario files in the load simulator and prints differences from their results.

No cluster, no Kafka, no tables: the real step and the real strategies run on simulated brokers. Results that a file
does not contain yet are printed. Exit code 1 if an assertion fails or a result differs from that in the file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.choices import strategy_names
from controller.cli.options import PROBLEM, new_app, report_errors
from controller.config.sources import read_text
from controller.config.variables import ENV_CONF
from controller.domain.errors import ConfigError
from controller.process.plugins import use_installed_strategies
from controller.service.start_checks import check_folder
from controller.sim.scenario.file import Result, run_file

app = new_app()

Files = Annotated[list[Path], typer.Argument(help="Scenario files, or folders of them (*.txt).", show_default=False)]
Rewrite = Annotated[bool, typer.Option("--rewrite", help="Replace the results in the files.")]
Strategy = Annotated[
    str | None,
    typer.Option("--strategy", help="Use this strategy instead of those in the files.", autocompletion=strategy_names),
]
Plots = Annotated[Path | None, typer.Option("--plots", help="Folder for plots of every run.", show_default=False)]


@app.command()
@report_errors
def sim(files: Files, rewrite: Rewrite = False, strategy: Strategy = None, plots: Plots = None) -> None:
    """Run scenario files (docs/simulator.md); print results that are new or differ from those in the files."""
    if rewrite and strategy is not None:
        raise ConfigError(f"--rewrite would write the results of --strategy {strategy} into files of another strategy")
    if plots is not None:
        check_folder(str(plots), "--plots", "")
    use_installed_strategies()
    problems = 0
    for path in scenario_files(files):
        result = run_file(read_text(path, "scenario file"), str(path), strategy)
        if plots is not None:
            _draw(result, path, plots)
        if rewrite:
            path.write_text(result.text)
        problems += _print_result(result, rewrite, strategy)
    unread = f" ({ENV_CONF} is not read)" if os.environ.get(ENV_CONF) else ""
    typer.echo(f"ballast sim: configuration: defaults, and what each file says{unread}", err=True)
    if problems:
        raise typer.Exit(PROBLEM)


def scenario_files(paths: Sequence[Path]) -> list[Path]:
    """The files, and those in folders, sorted by name. Raises ConfigError for a missing path or an empty folder."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.glob("*.txt") if file.is_file())
            if not inside:
                raise ConfigError(f"{path} holds no scenario file (*.txt): name files, or a folder that has some")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            raise ConfigError(f"{path} does not exist: name scenario files or folders of them")
    return found


def _print_result(result: Result, rewrite: bool, strategy: str | None) -> int:
    """Print the result of a file; return how many problems it has."""
    if not result.outcomes:
        typer.echo(f"{result.name}: nothing was carried out: it has no eval")
        return 1
    if strategy is not None:  # another strategy gives other figures, which are the answer
        typer.echo(result.text, nl=False)
        return len(result.failures)
    differences = () if rewrite else result.differences
    new = () if rewrite else result.unrecorded
    if rewrite:
        standing = "rewritten" if result.differences or result.unrecorded else "unchanged"
    else:
        standing = "differs" if differences else "fails" if result.failures else "ok"
        standing += f", {len(new)} of its results not recorded yet (--rewrite records them)" if new else ""
    for line in (f"{result.name}: {standing}", *new, *differences, *result.failures):
        typer.echo(line)
    return len(differences) + len(result.failures)


def _draw(result: Result, path: Path, folder: Path) -> None:
    from controller.cli.sim_plots import draw  # matplotlib takes a second to import

    for number, outcome in enumerate(result.outcomes, start=1):
        typer.echo(f"drawn: {draw(outcome, folder / f'{path.stem}-{number}.png')}")
