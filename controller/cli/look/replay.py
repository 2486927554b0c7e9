"""`ballast replay`: decides stored rounds again and compares the plans, n of n.

A round decided by former rules of its strategy is skipped, by name. Exit code 1 if a round results in another plan or
cannot be read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from controller.cli.options import PROBLEM, AsJson, Conf, Limit, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_json, emit_table, emit_text, time_text
from controller.cli.times import Since, moment_ms
from controller.domain.errors import BallastError, ConfigError
from controller.operations.evidence_view import EvidenceView, no_rounds_text
from controller.operations.reading import Reader
from controller.operations.rounds.again import Tally, is_broken, replay_rounds, tally
from controller.process.clock import wall_ms

NAMED = 5  # skipped rounds that are named for each strategy
TELL_EVERY_S = 2.0
app = new_app()
Rounds = Annotated[
    list[str] | None,
    typer.Argument(metavar="ROUND…", help="Ids of rounds; by default the newest rounds.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="All rounds that are kept, or all --since a time.")]
Row = dict[str, Any]


@app.command()
@report_errors
def replay(
    names: Rounds = None, conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    everything: All = False, since: Since = None, limit: Limit = 20,
) -> None:  # fmt: skip
    """Decide stored rounds again, newest first, including challengers, and compare the plans."""
    if names and (everything or since):
        raise ConfigError("rounds are named, and --all or --since is given: name rounds or choose them by time")
    settings = settings_of(conf, profile, sets)
    since_ms = moment_ms(since, wall_ms(), "--since") if since else None
    reader = Reader(settings)
    view = EvidenceView(reader)
    rounds = _chosen(view, names or [], since_ms)
    if not (names or everything or since):
        rounds = rounds[:limit]
    rows = list(_told(replay_rounds(view, rounds), len(rounds)))
    found = tally(rows)
    if as_json:
        emit_json({**found.to_json(), "rounds": rows})
    elif not rows:
        emit_text("no round has run in that time" if since else no_rounds_text(reader.outline().state))
    else:
        _print(rows, found, only_broken=everything or since is not None)
    if found.broken:
        raise typer.Exit(PROBLEM)


def _chosen(view: EvidenceView, names: Sequence[str], since_ms: int | None) -> list[Row]:
    """The named rounds, or all that were decided since, newest first. Raises BallastError for an unknown name."""
    rounds = view.rounds()
    unknown = sorted(set(names) - {row["round_id"] for row in rounds})
    if unknown:
        verb = "round is" if len(unknown) == 1 else "rounds are"
        raise BallastError(f"no {verb} named {', '.join(unknown)}: `ballast rounds` lists those that are kept")
    if names:
        return [row for row in rounds if row["round_id"] in names]
    return [row for row in rounds if since_ms is None or row["wall_ms"] >= since_ms]


def _told(rows: Iterator[Row], count: int) -> Iterator[Row]:
    """The same rows; the progress of a long replay goes to stderr."""
    told_s = time.monotonic()
    for number, row in enumerate(rows, start=1):
        if time.monotonic() - told_s > TELL_EVERY_S:
            told_s = time.monotonic()
            typer.echo(f"{number} of {count} rounds", err=True)
        yield row


def _print(rows: Sequence[Row], found: Tally, only_broken: bool) -> None:
    shown = [row for row in rows if is_broken(row)] if only_broken else rows
    if shown:
        _print_table(shown)
        typer.echo("")
    emit_text(f"{found.equal} of {found.compared} equal")
    for rules, names in found.skipped.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        emit_text(
            f"skipped: {len(names)} decided by former rules ({rules}), which only the version that decided them can "
            f"replay: {', '.join(names[:NAMED])}{more}"
        )


def _print_table(rows: Sequence[Row]) -> None:
    emit_table(
        ["at (UTC)", "round", "strategy", "rules >", "replay"],
        [
            (
                time_text(row["at_ms"]),
                row["round_id"],
                row["strategy"] + (" (challenger)" if row["challenger"] else ""),
                row["rules"],
                row["text"],
            )
            for row in rows
        ],
    )
