"""Records of the journal feed, as an agent parses them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from controller.domain.entries import Entry
from controller.domain.errors import BadRecord
from controller.domain.events import VERSION
from controller.process.failpoints import reach


class Feed(NamedTuple):
    """A record of the journal feed. `instance`: the controller that sent it; `journal_id` None: an older version."""

    entries: tuple[Entry, ...]
    seq: int
    instance: str = ""
    journal_id: str | None = None


def parse_feed(raw: bytes) -> Feed:
    """Parse a commit's entries, or the newest seq alone. Raises BadRecord."""
    try:
        doc: Any = json.loads(raw)
        if not isinstance(doc, dict) or doc.get("v") != VERSION:
            raise BadRecord("version", f"journal feed: {raw[:80]!s} is no record of version {VERSION}")
        entries = tuple(Entry.from_row(row) for row in doc.get("entries") or ())
        seq = int(doc.get("seq") or (entries[-1].seq if entries else 0))
        return Feed(entries, seq, str(doc.get("instance") or ""), str(doc.get("journal_id") or "") or None)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadRecord("journal_feed", f"{type(error).__name__}: {error}") from None


def read_feed(raw: bytes) -> Feed:
    """As `parse_feed`; a failpoint can drop the entries, as if the record had been lost."""
    feed = parse_feed(raw)
    try:
        reach("agent.feed_entries")
    except OSError:
        return feed._replace(entries=())
    return feed
