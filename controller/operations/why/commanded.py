"""Operators' commands as the journal has them: who sent each, why and when, what it was, and whether it was accepted.

The journal is not read as a whole: of most entries only the columns that find a command, and whole those of a few.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.decision import Reason
from controller.domain.entries import Entry, Kind
from controller.operations.reading import Reader
from schemas.journal import JOURNAL

COMMANDED = "commanded"  # the reason of what a command caused directly
ACCEPTED, REJECTED = "accepted", "rejected"
_OUTCOMES = {Kind.COMMAND_ACCEPTED: ACCEPTED, Kind.COMMAND_REJECTED: REJECTED}
_OF_ANSWER = ("seq", "kind", "at_ms", "command_id", "reason", "data")
MOST = 50  # entries that a command caused, or newest commands that are looked at
BY_ID = 10  # commands that are found by what they caused: they may lie anywhere in the journal
TAIL = 20_000  # newest entries, in which commands are searched for a name: a rejected one causes nothing
Row = dict[str, Any]


def command_row(answer: Mapping[str, Any]) -> Row:
    """A command by the row of the entry that answers it. `reason`: why it was rejected, or what it left as it is."""
    data = json.loads(answer["data"] or "{}")
    told = {name: data.get(name) or None for name in ("kind", "who", "why")}
    of_entry = {name: answer[name] for name in ("command_id", "seq", "at_ms")}
    outcome = {"outcome": _OUTCOMES[Kind(answer["kind"])], "reason": answer["reason"]}
    return {**of_entry, **told, "args": data.get("args") or {}, **outcome}


def commands_about(reader: Reader, names: Collection[str], ids: Collection[str]) -> list[Row]:
    """The newest commands with these ids, and of the journal's last ones those that name any of these; newest first."""
    tail = (reader.newest("journal", "seq") or 0) - TAIL
    newest = [seq for kind in _OUTCOMES for seq in _answers(reader, kind, tail)["seq"].to_pylist()]
    last = _commands_at(reader, sorted(newest)[-MOST:])
    found = [row for row in last if row["command_id"] in ids or any(arg in names for arg in _texts(row["args"]))]
    missing = set(ids) - {row["command_id"] for row in found}
    if missing:
        answers = _answers(reader, Kind.COMMAND_ACCEPTED)
        wanted = pa.array(missing, pa.string())
        known = answers.filter(pc.is_in(answers["command_id"].cast(pa.string()), value_set=wanted))
        found += _commands_at(reader, sorted(known["seq"].to_pylist())[-BY_ID:])
    return sorted(found, key=lambda row: -int(row["seq"]))


def find_command(reader: Reader, command_id: str) -> tuple[Row, list[Entry]] | None:
    """A command, the first entries that it caused and its newest alarms, which say what it could not do, oldest first;
    None if no command has this id."""
    named = reader.rows("journal", "seq", columns=["seq", "kind"], equal={"command_id": command_id}).to_pylist()
    alarms = sorted(row["seq"] for row in named if row["kind"] == Kind.ALARM.value)
    first = sorted(row["seq"] for row in named)[:MOST]
    rows = _rows_at(reader, sorted({*first, *alarms[-MOST:]}), JOURNAL.names)
    answer = next((row for row in rows if row["kind"] in _OUTCOMES), None)
    if answer is None:
        return None
    return command_row(answer), [Entry.from_row(row) for row in rows if row is not answer]


def ids_of(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """The commands that these rows of the journal name."""
    return {row["command_id"] for row in rows if row["command_id"] is not None}


def commands_about_broker(reader: Reader, broker: str) -> list[Row]:
    """As `commands_about`, with the newest commands that drained the broker or ended that."""
    only = {"kind": Kind.DRAIN.value, "broker": broker}
    rows = reader.rows("journal", "seq", columns=["seq", "command_id"], equal=only).sort_by("seq")
    drains = ids_of(rows.slice(max(0, rows.num_rows - BY_ID)).to_pylist())
    return commands_about(reader, {broker}, drains)


def drains_behind(reader: Reader, decisions: Sequence[Row]) -> dict[str, str]:
    """Decision id -> the command that drained the broker which the decision emptied; none where the broker left.

    Which came first is told by wall clocks: just after a take-over on a machine whose clock is behind it may be none.
    """
    emptied = [row for row in decisions if row["reason"] == Reason.DRAINED.value]
    if not emptied:
        return {}
    entries = [entry for entry in reader.entries_of(Kind.DRAIN) if "drained" in entry.data]
    found = {}
    for row in emptied:
        until = (entry for entry in entries if entry.broker == row["source"] and entry.at_ms <= row["at_ms"])
        newest = max(until, key=lambda entry: entry.seq, default=None)
        if newest is not None and newest.data["drained"] and newest.command_id:
            found[row["decision_id"]] = newest.command_id
    return found


def with_commanded(decisions: Sequence[Row], drains: Mapping[str, str], commands: Iterable[Row]) -> list[Row]:
    """Decisions, each with `commanded`: who drained the broker that it emptied, and why, of these commands; or None."""
    texts = commanded_texts(commands)
    return [{**row, "commanded": texts.get(drains.get(row["decision_id"], ""))} for row in decisions]


def commanded_texts(commands: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Command id -> `commanded by anna: the disk is full`, for entries with the reason `commanded`."""
    return {
        command["command_id"]: f"{COMMANDED} by {command['who'] or 'somebody'}{_because(command['why'])}"
        for command in commands
    }


def _because(why: str | None) -> str:
    return f": {why}" if why else ""


def _answers(reader: Reader, kind: Kind, above: int = -1) -> pa.Table:
    return reader.rows("journal", "seq", max(above, -1), columns=["seq", "command_id"], equal={"kind": kind.value})


def _commands_at(reader: Reader, seqs: Sequence[int]) -> list[Row]:
    return [command_row(row) for row in _rows_at(reader, seqs, _OF_ANSWER)]


def _rows_at(reader: Reader, seqs: Sequence[int], columns: Sequence[str]) -> list[Row]:
    """These entries, the oldest first. `seqs`: in order."""
    if not seqs:
        return []
    rows: list[Row] = (
        reader.rows("journal", "seq", seqs[0] - 1, seqs[-1], columns, among=seqs).sort_by("seq").to_pylist()
    )
    return rows


def _texts(args: Mapping[str, Any]) -> list[str]:
    return [value for value in args.values() if isinstance(value, str)]
