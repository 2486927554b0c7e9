"""`ballast override pin|avoid|freeze|exclude-namespace|list|end`: wishes that rounds and assignments keep to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.commanding import ANSWER_S, carry_out
from controller.cli.options import AsJson, Conf, Profile, Sets, Timeout, Why, new_group, settings_of, told
from controller.cli.show import emit_json, emit_table, time_text
from controller.domain.overrides import AVOID, EXCLUDE_NAMESPACE, FREEZE, PIN
from controller.ledger.projections import override_rows
from controller.operations.reading import Reader
from controller.process.clock import wall_ms

app = new_group("What operators want of single bundles: pin, avoid, freeze, exclude a namespace.")

Bundle = Annotated[str, typer.Argument(metavar="BUNDLE")]
Broker = Annotated[str, typer.Argument(metavar="BROKER")]
Minutes = Annotated[
    float | None, typer.Option("--minutes", help="Let it end by itself after so long.", min=0.01, show_default=False)
]


@app.command()
@told
def pin(
    bundle: Bundle, broker: Broker,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S, minutes: Minutes = None,
) -> None:  # fmt: skip
    """Rounds bring the bundle to the broker and leave it there; an orphan is assigned there."""
    _send(PIN, conf, profile, sets, as_json, why, timeout, minutes, bundle=bundle, broker=broker)


@app.command()
@told
def avoid(
    what: Annotated[str, typer.Argument(metavar="BUNDLE|NAMESPACE")], broker: Broker,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S, minutes: Minutes = None,
) -> None:  # fmt: skip
    """Nothing of it is sent to the broker, and what is there is moved away."""
    of = {"namespace": what} if what.count("/") == 1 else {"bundle": what}
    _send(AVOID, conf, profile, sets, as_json, why, timeout, minutes, broker=broker, **of)


@app.command()
@told
def freeze(
    bundle: Bundle,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S, minutes: Minutes = None,
) -> None:  # fmt: skip
    """No round moves or splits the bundle."""
    _send(FREEZE, conf, profile, sets, as_json, why, timeout, minutes, bundle=bundle)


@app.command("exclude-namespace")
@told
def exclude_namespace(
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE")],
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S, minutes: Minutes = None,
) -> None:  # fmt: skip
    """No round moves or splits any bundle of the namespace."""
    _send(EXCLUDE_NAMESPACE, conf, profile, sets, as_json, why, timeout, minutes, namespace=namespace)


@app.command()
@told
def end(
    override: Annotated[str, typer.Argument(metavar="ID", help="As `ballast override list` prints it.")],
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Let it hold no longer."""
    carry_out(conf, profile, sets, as_json, "end_override", why, timeout, {"id": override})


@app.command("list")
@told
def list_(conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False) -> None:
    """Those that hold, oldest first."""
    state = Reader(settings_of(conf, profile, sets)).state()
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
