"""`ballast brokers`: the registered brokers, and their load in the last round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from controller.cli.options import AsJson, Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_json, emit_table, emit_text, percent_text, time_text
from controller.domain.load import RESOURCES
from controller.operations.overview import broker_rows
from controller.operations.reading import Reader
from controller.operations.stopped import last_stop

app = new_app()


@app.command()
@report_errors
def brokers(conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False) -> None:
    """List every broker: state, bundles, load in the last round, addresses."""
    settings = settings_of(conf, profile, sets)
    reader = Reader(settings, at_once=True)
    rows = broker_rows(reader)
    if as_json:
        emit_json(rows)
        return
    state = reader.outline().state
    if state.instance and not state.controller_running:
        at_ms, _ = last_stop(reader, state.seq)
        when = f" at {time_text(at_ms)} UTC" if at_ms else ""
        emit_text(f"no controller runs: it stopped{when}, and this is as it was then")
        typer.echo("")
    known = [r for r in RESOURCES if any(row["utilisations"].get(r) is not None for row in rows)]
    columns = ["broker", "state", "incarnation >", "bundles >", "load >", *(f"{r} >" for r in known)]
    emit_table(
        [*columns, "last round says", "lookup", "data"],
        [
            (
                row["broker"],
                _state_text(row),
                row["incarnation"],
                row["bundles"],
                percent_text(row["score"]),
                *(percent_text(row["utilisations"].get(r)) for r in known),
                _round_text(row),
                row["lookup_url"],
                row["data_address"],
            )
            for row in rows
        ],
        empty="no broker has registered",
    )


def _round_text(row: Mapping[str, Any]) -> str:
    if not row["reason"]:
        return ""
    words = f": {row['reason_words']}" if row["reason_words"] else ""
    return f"{'source: ' if row['is_source'] else ''}{row['reason']}{words}"


def _state_text(row: Mapping[str, Any]) -> str:
    """The state; for a broker that is gone, `drained` and `leaving` do not matter any more. One that was silent when
    the mass-failure breaker tripped is alive in name only."""
    state = "silent" if row["silent"] else row["state"]
    return ", ".join([state, *(w for w in ("drained", "leaving") if row[w] and state != "gone")])
