"""Which journal owns the topics: one record in a compacted topic, written by compare-and-set.

A record states the offset it was written for, which is the end of the topic that its writer had read. It is valid only
if it lies at that offset; with any other record in between it is void for every reader, for good. So of two concurrent
claims the first one wins, and each claimant can tell from its own record alone, whatever compaction has removed. All
records have the same key: compaction keeps the last one, so the loser writes the valid record again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from controller.bus.cluster import NO_SETTINGS
from controller.bus.failures import WRITE, NoRight, TopicUnreadable, describe_refusal
from controller.bus.producer import JsonProducer
from controller.bus.scan import read_newest, scan
from controller.bus.security import check_client_settings
from controller.domain.errors import BadRecord, ConfigError, shown, without_login
from controller.domain.strict_json import is_whole, parse_strictly
from controller.process.paths import resolve_location

VERSION = 1
KEY = "owner"
RUNNING, STOPPED = "running", "stopped"
MOST_BYTES, MOST_CHARS = 65_536, 4_096  # of a record, of a text in it
ATTEMPTS = 8  # to write a record at the offset it states


@dataclass(frozen=True, slots=True)
class TopicOwner:
    """The owner record: the journal, its newest controller instance, and the location of its tables.

    `seq` is the journal's newest entry when it was written; `host` and `pid` are for people.
    """

    journal_id: str
    instance: str
    tables: str
    state: str
    seq: int
    host: str = ""
    pid: int = 0
    version: str = ""
    sent_ms: int = 0

    @property
    def text(self) -> str:
        """The owner in words, for messages."""
        where = f", pid {self.pid} on {self.host}" if self.pid else ""
        return f"journal {self.journal_id} (tables {self.tables}; controller {self.instance}{where}, {self.state})"


def is_at(owner: TopicOwner, tables: str) -> bool:
    """Whether the owner's tables are those at this location."""
    return resolve_location(without_login(owner.tables), Path("/")) == tables  # older versions wrote both


class Seen(NamedTuple):
    """The topic as read: the valid owner if any, whether the last record is the valid one, and the end offset."""

    owner: TopicOwner | None
    settled: bool
    end: int


def resolve(records: Iterable[tuple[int, bytes | None]], end: int) -> Seen:
    """The valid owner among (offset, value) pairs in order. Raises ConfigError for a record of a newer version."""
    owner, settled = None, True
    for offset, value in records:
        doc = _document(offset, value)
        settled = doc.get("at") == offset
        if settled:
            owner = _owner_in(offset, doc)
    return Seen(owner, settled, end)


def _owner_in(offset: int, doc: Mapping[str, Any]) -> TopicOwner:
    """The owner that a record names. Raises ConfigError."""
    known = {f.name: doc[f.name] for f in fields(TopicOwner) if f.name in doc}
    for f in fields(TopicOwner):
        value = known.get(f.name, f.default)
        text = isinstance(value, str) and len(value) <= MOST_CHARS and value.isprintable()
        if not (is_whole(value) if f.type == "int" else text):
            missing = "missing" if value is MISSING else shown(value)
            raise _not_understood(offset, f"{f.name} is {missing}")
    return TopicOwner(**known)


def _document(offset: int, value: bytes | None) -> dict[str, Any]:
    """The parsed record, empty for one without a value. Raises ConfigError for anything else: never guess an owner."""
    if not value:
        return {}
    try:
        doc = parse_strictly(value, MOST_BYTES)
    except BadRecord as error:
        raise _not_understood(offset, error.text) from None
    if not isinstance(doc, dict) or doc.get("v") is True or doc.get("v") != VERSION:
        raise _not_understood(offset, f"{shown(doc)} is no record of version {VERSION}")
    return doc


def _not_understood(offset: int, why: str) -> ConfigError:
    return ConfigError(
        f"the topic that names the owner of these topics has a record at offset {offset} that this version does not "
        f"understand ({why}): start the version that wrote it, or delete that topic if no controller runs"
    )


def newest_owner(bootstrap: str, topic: str, client: Mapping[str, object], timeout_ms: int) -> TopicOwner | None:
    """The owner in the newest record; None without one, and where only the whole topic can tell.

    Raises KafkaUnavailable, ConfigError.
    """
    newest = read_newest(bootstrap, topic, client, timeout_ms=timeout_ms)
    return resolve([(newest.offset, newest.value)], newest.offset + 1).owner if newest else None


class OwnerTopic:
    """Reads and writes the owner record. Opens a connection for each call, as both are rare. Not thread-safe."""

    def __init__(
        self, bootstrap: str, topic: str, client: Mapping[str, object] = NO_SETTINGS, timeout_ms: int = 30_000
    ) -> None:
        """`timeout_ms`: the longest wait for Kafka to answer, and for each read or write."""
        check_client_settings(client)
        self._bootstrap, self._topic, self._client, self._timeout_ms = bootstrap, topic, client, timeout_ms

    def read(self) -> Seen:
        """Read up to the topic's current end. Raises KafkaUnavailable, TopicUnreadable, ConfigError."""
        records: list[tuple[int, bytes | None]] = []
        end = scan(
            self._bootstrap,
            self._topic,
            lambda offset, value: records.append((offset, value)),
            self._client,
            timeout_ms=self._timeout_ms,
        )
        return resolve(records, end)

    def write(
        self, owner: TopicOwner, seen: Seen, may_replace: Callable[[TopicOwner | None], bool]
    ) -> TopicOwner | None:
        """Replace the owner that was seen with this one. Returns the owner named in the end: another one if it was
        quicker and may not be replaced, in which case its record is the last one again."""
        producer = JsonProducer(
            self._bootstrap,
            "ballast-owner",
            self._client,
            delivery_timeout_ms=self._timeout_ms,
            max_block_ms=self._timeout_ms,
            connect_timeout_ms=self._timeout_ms,
        )
        try:
            for _ in range(ATTEMPTS):
                wanted = owner if may_replace(seen.owner) else seen.owner
                if wanted is not None and not (wanted == seen.owner and seen.settled):
                    lies = self._append(producer, wanted, seen.end)
                    seen = Seen(wanted, True, lies + 1) if lies == seen.end else self.read()
                if seen.settled and (seen.owner == owner or not may_replace(seen.owner)):
                    return seen.owner
        finally:
            producer.close()
        raise TopicUnreadable(f"topic {self._topic} was written by others {ATTEMPTS} times in a row; start again")

    def _append(self, producer: JsonProducer, owner: TopicOwner, at: int) -> int:
        """Append the record; returns its offset once all replicas have it."""
        try:
            sent = producer.send(self._topic, {"v": VERSION, "at": at, **asdict(owner)}, key=KEY)
            return sent.result(timeout=self._timeout_ms / 1000 + 1)[1]
        except Exception as error:
            if refusal := describe_refusal(error, self._client, WRITE, self._topic):
                raise NoRight(refusal) from error
            raise TopicUnreadable(
                f"topic {self._topic} did not take the owner's record ({type(error).__name__}: {error})"
            ) from error


def mark_stopped(owner: TopicOwner, seq: int, sent_ms: int) -> TopicOwner:
    """The same owner, marked as stopped by its controller."""
    return replace(owner, state=STOPPED, seq=seq, sent_ms=sent_ms)
