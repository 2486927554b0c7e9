"""Records of the journal feed, as an agent parses them: strictly, since whoever may write to the topic can send one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from controller.bus.topics import MAX_RECORD_BYTES
from controller.domain.entries import Entry
from controller.domain.errors import BadRecord, shown
from controller.domain.events import VERSION
from controller.domain.strict_json import is_whole, parse_strictly
from controller.process.failpoints import reach

MAX_NAME_CHARS = 64  # of a controller, a journal, a kind
_NUMBERS = ("seq", "batch", "at_ms", "epoch")
_NEEDED = ("seq", "kind", "instance", "batch", "at_ms")
_TEXTS = (
    "kind", "instance", "bundle", "state", "by", "to", "broker", "session", "reason", "command_id", "decision_id",
    "attempt_id",
)  # fmt: skip


class Feed(NamedTuple):
    """A record of the journal feed. `instance`: the controller that sent it; `journal_id` None: an older version."""

    entries: tuple[Entry, ...]
    seq: int
    instance: str = ""
    journal_id: str | None = None


def parse_feed(raw: bytes) -> Feed:
    """Parse a commit's entries, or the newest seq alone. Raises BadRecord."""
    doc = parse_strictly(raw, MAX_RECORD_BYTES)
    if not isinstance(doc, dict) or doc.get("v") is True or doc.get("v") != VERSION:
        raise BadRecord("version", f"journal feed: {shown(doc)} is no record of version {VERSION}")
    rows = doc.get("entries") or ()
    if not isinstance(rows, list | tuple):
        raise BadRecord("journal_feed", f"entries is {shown(rows)}, not a list")
    entries = tuple(map(parse_entry, rows))
    newest = entries[-1].seq if entries else 0
    seq = newest if doc.get("seq") is None else check_number("seq", doc["seq"])
    return Feed(entries, seq, _name(doc, "instance"), _name(doc, "journal_id") or None)


def parse_entry(row: object) -> Entry:
    """The entry in a row of the feed, with the types that the journal's table has. Raises BadRecord."""
    if not isinstance(row, dict):
        raise BadRecord("journal_feed", f"entry {shown(row)} is no object")
    for name in (*_NUMBERS, *_TEXTS):
        value = row.get(name)
        if value is None and name not in _NEEDED:
            continue
        if name in _NUMBERS:
            check_number(name, value, least=-1 if name == "batch" else 0)  # what precedes all batches is in batch -1
        elif not isinstance(value, str):
            raise BadRecord("journal_feed", f"{name} is {shown(value)}, wanted text")
    if not 0 < len(row["kind"]) <= MAX_NAME_CHARS:
        raise BadRecord("journal_feed", f"kind is {shown(row['kind'])}, wanted 1 to {MAX_NAME_CHARS} characters")
    return Entry.from_row({**row, "data": _data(row)})


def check_number(name: str, value: object, least: int = 0) -> int:
    """The value, which must be a whole number that JSON and the tables hold. Raises BadRecord."""
    if not is_whole(value, least):
        raise BadRecord("journal_feed", f"{name} is {shown(value)}, wanted a whole number")
    return value


def _data(row: Mapping[str, Any]) -> dict[str, Any]:
    data = row.get("data")
    if isinstance(data, str) and data:
        data = parse_strictly(data.encode(), MAX_RECORD_BYTES)
    if data and not isinstance(data, dict):
        raise BadRecord("journal_feed", f"data is {shown(data)}, not an object")
    return data or {}


def _name(doc: Mapping[str, Any], key: str) -> str:
    value = doc.get(key) or ""
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARS or not value.isprintable():
        raise BadRecord("journal_feed", f"{key} is {shown(value)}, wanted printable text")
    return value


def read_feed(raw: bytes) -> Feed:
    """As `parse_feed`; a failpoint can drop the entries, as if the record had been lost."""
    feed = parse_feed(raw)
    try:
        reach("agent.feed_entries")
    except OSError:
        return feed._replace(entries=())
    return feed
