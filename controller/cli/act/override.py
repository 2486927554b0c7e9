"""`ballast override pin|avoid|freeze|exclude-namespace|list|end`: rules of operators for single bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.options import AsJson, Conf, Profile, Sets, Timeout, Why, new_group, report_errors, settings_of
from controller.cli.send_command import ANSWER_S, carry_out
from controller.cli.show import emit_json, emit_table, time_text
from controller.domain.overrides import AVOID, EXCLUDE_NAMESPACE, FREEZE, PIN
from controller.ledger.projections import override_rows
from controller.operations.reading import Reader
from controller.process.clock import wall_ms

app = new_group("Rules for single bundles, kept by rounds and assignments: pin, avoid, freeze, exclude a namespace.")

Bundle = Annotated[str, typer.Argument(metavar="BUNDLE")]
Broker = Annotated[str, typer.Argument(metavar="BROKER")]
Minutes = Annotated[
    float | None, typer.Option("--minutes", help="End the override after this time.", min=0.01, show_default=False)
]


@app.command()
@report_errors
def pin(
    bundle: Bundle, broker: Broker,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S, minutes: Minutes = None,
) -> None:  # fmt: skip
    """Rounds move the bundle to the broker and keep it there; an orphan is assigned there."""
    _send(PIN, conf, profile, sets, as_json, why, timeout, minutes, bundle=bundle, broker=broker)


@app.command()
@report_errors
def avoid(
    what: Annotated[str, typer.Argument(metavar="BUNDLE|NAMESPACE")], broker: Broker,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S, minutes: Minutes = None,
) -> None:  # fmt: skip
    """Bundles are not sent to the broker, and those that it owns are moved away."""
    of = {"namespace": what} if what.count("/") == 1 else {"bundle": what}
    _send(AVOID, conf, profile, sets, as_json, why, timeout, minutes, broker=broker, **of)


@app.command()
@report_errors
def freeze(
    bundle: Bundle,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S, minutes: Minutes = None,
) -> None:  # fmt: skip
    """No round moves or splits the bundle."""
    _send(FREEZE, conf, profile, sets, as_json, why, timeout, minutes, bundle=bundle)


@app.command("exclude-namespace")
@report_errors
def exclude_namespace(
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE")],
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S, minutes: Minutes = None,
) -> None:  # fmt: skip
    """No round moves or splits any bundle of the namespace."""
    _send(EXCLUDE_NAMESPACE, conf, profile, sets, as_json, why, timeout, minutes, namespace=namespace)


@app.command()
@report_errors
def end(
    override: Annotated[str, typer.Argument(metavar="ID", help="As `ballast override list` prints it.")],
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """End an override."""
    carry_out(conf, profile, sets, as_json, "end_override", why, timeout, {"id": override})


@app.command("list")
@report_errors
def list_(conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False) -> None:
    """List the overrides in force, oldest first."""
    state = Reader(settings_of(conf, profile, sets)).outline().state
    rows = sorted(override_rows(state), key=lambda row: row["entry_seq"])
    if as_json:
        emit_json(rows)
        return
    emit_table(
        ["id", "kind", "of", "broker", "until (UTC)", "who", "why …"],
        [
            (
                row["override_id"], row["kind"], row["bundle"] or row["namespace"], row["broker"],
                time_text(row["until_ms"]) or "it is ended", row["who"], row["why"],
            )
            for row in rows
        ],
        empty="no override holds",
    )  # fmt: skip


def _send(
    kind: str, conf: Path | None, profile: str | None, sets: list[str] | None, as_json: bool, why: str,
    timeout_s: float, minutes: float | None, **of: str,
) -> None:  # fmt: skip
    until_ms = None if minutes is None else wall_ms() + round(minutes * 60_000)
    args = {"override": kind, "until_ms": until_ms, **of}
    carry_out(conf, profile, sets, as_json, "override", why, timeout_s, args)
