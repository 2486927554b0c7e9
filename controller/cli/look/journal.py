"""`ballast journal`: the journal, entry by entry."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated

import pyarrow.compute as pc
import typer

from controller.cli.choices import entry_kinds
from controller.cli.entry_text import end_words, entry_cells, print_entries
from controller.cli.options import AsJson, Conf, Limit, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_json
from controller.cli.times import MOMENT, moment_ms
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BadRecord
from controller.domain.state import ClusterState
from controller.ledger.follower import Follower
from controller.operations.reading import Reader
from controller.process.clock import wall_ms
from schemas.journal import JOURNAL

app = new_app()
POLL_S = 0.25
SEQ = re.compile(r"\d{1,11}")  # longer numbers are times in ms
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar=f"SEQ|{MOMENT}", show_default=False,
        help="Entries above this seq, or from this time on: 90m or 2h ago; by default the newest ones.",
    ),
]  # fmt: skip
Follow = Annotated[bool, typer.Option("--follow", help="Keep printing new entries, one per line, until Ctrl-C.")]
OfKind = Annotated[str | None, typer.Option("--kind", help="Only entries of this kind.", autocompletion=entry_kinds)]
Offsets = Annotated[
    bool, typer.Option("--offsets", help="Also entries `offsets`: how far Kafka was read. --json has them.")
]
OfBundle = Annotated[str | None, typer.Option("--bundle", help="Only entries about this bundle.")]


@app.command()
@report_errors
def journal(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    since: Since = None, limit: Limit = 50, follow: Follow = False, kind: OfKind = None, bundle: OfBundle = None,
    offsets: Offsets = False,
) -> None:  # fmt: skip
    """List entries in order: the newest ones, or with --since the first ones above a seq or from a time on."""
    kinds = [k.value for k in Kind]
    if kind is not None and kind not in kinds:
        raise BadRecord("kind", f"--kind {kind} is none of {', '.join(kinds)}")
    settings = settings_of(conf, profile, sets)
    reader = Reader(settings)
    above, from_ms = _beginning(since)
    rows = reader.rows("journal", "seq", above=above, columns=JOURNAL.names)
    if from_ms is not None:
        rows = rows.filter(pc.greater_equal(rows["at_ms"], from_ms))
    for column, wanted in (("kind", kind), ("bundle", bundle)):
        if wanted is not None:
            rows = rows.filter(pc.equal(rows[column], wanted))
    hidden = {Kind.OFFSETS.value} - {kind} if not (offsets or as_json) else set()
    for name in hidden:
        rows = rows.filter(pc.not_equal(rows["kind"], name))
    rows = rows.sort_by("seq")
    chosen = rows.slice(0, limit) if since is not None else rows.slice(max(0, rows.num_rows - limit))
    entries = [Entry.from_row(row) for row in chosen.to_pylist()]
    if follow:
        _follow(settings, entries, lambda e: _matches(e, kind, bundle, hidden), as_json)
    elif as_json:
        emit_json([_document(entry) for entry in entries])
    else:
        has_ends = any(entry.kind is Kind.SESSION_ENDED for entry in entries)
        print_entries(entries, words=end_words(reader.outline().state) if has_ends else None)


def _matches(entry: Entry, kind: str | None, bundle: str | None, hidden: Collection[str]) -> bool:
    found = entry.kind.value
    return kind in (None, found) and bundle in (None, entry.bundle) and found not in hidden


def _beginning(since: str | None) -> tuple[int, int | None]:
    """The seq above which, and the time from which on entries are wanted; -1 and None for all."""
    if since is None or SEQ.fullmatch(since.strip()):
        return int(since or -1), None
    return -1, moment_ms(since, wall_ms(), "--since")


def _follow(settings: Settings, first: Sequence[Entry], wanted: Callable[[Entry], bool], as_json: bool) -> None:
    """Print the first entries, then every wanted entry as it arrives: one line each, JSON objects with --json."""
    follower = Follower(table_root(settings))
    follower.bootstrap()
    last = first[-1].seq if first else follower.seq
    try:
        for entry in first:
            _line(entry, as_json, follower.state)
        if follower.seq > last:  # committed between the two reads
            missed = Reader(settings).rows("journal", "seq", above=last, up_to=follower.seq).sort_by("seq")
            _lines((Entry.from_row(row) for row in missed.to_pylist()), wanted, as_json, follower.state)
        while True:
            _lines(follower.catch_up(), wanted, as_json, follower.state)
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        return


def _lines(entries: Iterable[Entry], wanted: Callable[[Entry], bool], as_json: bool, state: ClusterState) -> None:
    for entry in entries:
        if wanted(entry):
            _line(entry, as_json, state)


def _line(entry: Entry, as_json: bool, state: ClusterState) -> None:
    if as_json:
        emit_json(_document(entry))
    else:
        typer.echo("  ".join(str(cell) for cell in entry_cells(entry, end_words(state)) if cell not in (None, "")))


def _document(entry: Entry) -> dict[str, object]:
    return {**entry.to_row(), "data": dict(entry.data)}
