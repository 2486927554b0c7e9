"""`ballast quarantine list|show`: records from outside that broke a rule, and what was wrong with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from controller.cli.options import AsJson, Conf, Limit, Profile, Sets, new_group, report_errors, settings_of
from controller.cli.show import emit_facts, emit_json, emit_table, time_text
from controller.cli.times import Since, moment_ms
from controller.operations.quarantine import check_filters, count_rules, quarantined, quarantined_record
from controller.operations.reading import Reader
from controller.process.clock import wall_ms

DAY = "1d"
app = new_group("Records from outside that broke a rule. They influence nothing; docs/records.md lists the rules.")
Rule = Annotated[str | None, typer.Option("--rule", help="Only records that broke this rule.", show_default=False)]
Topic = Annotated[str | None, typer.Option("--topic", help="Only records of this Kafka topic.", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="TOPIC-PARTITION@OFFSET", help="A record, as `list` prints it.")]


@app.command("list")
@report_errors
def list_(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False, since: Since = DAY,
    rule: Rule = None, topic: Topic = None, limit: Limit = 50,
) -> None:  # fmt: skip
    """List records in quarantine, newest first: of the last day unless --since says otherwise."""
    since_ms = moment_ms(since or DAY, wall_ms(), "--since")
    settings = settings_of(conf, profile, sets)
    reader = Reader(settings)
    rows = quarantined(reader, since_ms, rule, topic)
    if not rows:
        check_filters(reader, settings, rule, topic)
    rules = count_rules(rows)
    if as_json:
        emit_json({"since_ms": since_ms, "total": len(rows), "rules": rules, "records": rows[:limit]})
        return
    emit_table(
        ["found (UTC)", "record", "source", "rule", "what is wrong …"],
        [(time_text(r["detected_ms"]), r["record"], r["source"], r["rule"], r["text"]) for r in rows[:limit]],
        empty="" if rows else _nothing_text(reader, since_ms, {"rule": rule, "topic": topic}),
    )
    if rows:
        typer.echo(f"\n{len(rows)} since {time_text(since_ms)} UTC: {', '.join(f'{n} {r}' for r, n in rules.items())}")
    if len(rows) > limit:
        typer.echo(f"{len(rows) - limit} more; --limit shows them")


@app.command()
@report_errors
def show(name: Name, conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False) -> None:
    """Show a record with its content, and what is wrong with it."""
    row = quarantined_record(Reader(settings_of(conf, profile, sets)), name)
    if as_json:
        emit_json(row)
        return
    emit_facts(
        [
            ("record", row["record"]),
            ("found (UTC)", f"{time_text(row['detected_ms'])}, by the {row['source']} query"),
            ("written (UTC)", time_text(row["kafka_timestamp_ms"]) or None),
            ("rule", row["rule"]),
            ("what is wrong", row["text"]),
        ]
    )
    typer.echo(f"\n{_content_text(row)}")


def _nothing_text(reader: Reader, since_ms: int, asked: Mapping[str, str | None]) -> str:
    """That no such record is in quarantine, and which ones are."""
    since = f"in quarantine since {time_text(since_ms)} UTC"
    given = {column: value for column, value in asked.items() if value is not None}
    others = quarantined(reader, since_ms) if given else []
    if not others:
        return f"nothing is {since}"
    named = " and ".join(f"{column} {value}" for column, value in given.items())
    counted = "; ".join(
        f"{column} {', '.join(f'{value} ({n})' for value, n in count_rules(others, column).items())}"
        for column in given
    )
    return f"no record of {named} is {since}, but others are: {counted}"


def _content_text(row: Mapping[str, Any]) -> str:
    """The record as it was sent. Control characters are escaped, since whoever sent it chose them."""
    if row["raw"] is None:
        return "it was empty"
    if row["raw_base64"]:
        return f"not UTF-8, so as base64:\n{row['raw']}"
    printable = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in row["raw"])
    return f"content:\n{printable}"
