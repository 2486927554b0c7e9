"""Whose topics these are: one record in a compacted topic, written by compare-and-set.

A record says for which offset it was written: the end of the topic that its writer had read. It is valid only if it
lies there; with any other record in between it is void, for every reader and for ever. So of two that claim the topics
at once the first one wins, and each can tell from its own record alone, whatever compaction has removed. All records
have one key: compaction keeps the last one, so who has lost writes the valid one again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

from controller.bus.cluster import NO_SETTINGS
from controller.bus.producer import JsonProducer
from controller.bus.scan import TopicUnreadable, read_newest, scan
from controller.bus.security import check_client_settings
from controller.domain.errors import ConfigError

VERSION = 1
KEY = "owner"
RUNNING, STOPPED = "running", "stopped"
ATTEMPTS = 8  # to get a record to the offset it was written for


@dataclass(frozen=True, slots=True)
class Owner:
    """What the record says: journal, the controller instance that spoke last for it, and where its tables lie.

    `seq` is the journal's newest entry when it was written, `host` and `pid` are for people.
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
        """For messages."""
        where = f", pid {self.pid} on {self.host}" if self.pid else ""
        return f"journal {self.journal_id} (tables {self.tables}; controller {self.instance}{where}, {self.state})"


class Seen(NamedTuple):
    """The topic as it was read: the valid owner, if there is one, whether the last record is that one, and its end."""

    owner: Owner | None
    settled: bool
    end: int


def resolve(records: Iterable[tuple[int, bytes | None]], end: int) -> Seen:
    """The valid owner among (offset, value), in their order. Raises ConfigError for a record of a newer version."""
    owner, settled = None, True
    for offset, value in records:
        doc = _document(offset, value)
        settled = doc.get("at") == offset
        if settled:
            known = {f.name for f in fields(Owner)}
            try:
                owner = Owner(**{name: field for name, field in doc.items() if name in known})
            except TypeError as error:
                raise _not_understood(offset, str(error)) from None
    return Seen(owner, settled, end)


def _document(offset: int, value: bytes | None) -> dict[str, Any]:
    """The record; one without a value says nothing. What is no record of ours is refused: never guess whose it is."""
    if not value:
        return {}
    try:
        doc = json.loads(value)
    except ValueError as error:
        raise _not_understood(offset, str(error)) from None
    if not isinstance(doc, dict) or doc.get("v") != VERSION:
        raise _not_understood(offset, f"{value[:80]!r} is no record of version {VERSION}")
    return doc


def _not_understood(offset: int, why: str) -> ConfigError:
    return ConfigError(
        f"the topic that names the owner of these topics has a record at offset {offset} that this version does not "
        f"understand ({why}): start the version that wrote it, or delete that topic if no controller runs"
    )


def newest_owner(bootstrap: str, topic: str, client: Mapping[str, object], timeout_ms: int) -> Owner | None:
    """Who is named, told in one look; None where nobody is, and where only the whole topic could tell. Raises
    KafkaUnavailable, ConfigError."""
    newest = read_newest(bootstrap, topic, client, timeout_ms=timeout_ms)
    return resolve([(newest.offset, newest.value)], newest.offset + 1).owner if newest else None


class OwnerTopic:
    """Reads and writes the record; a connection of its own for each, as both happen seldom. Not thread-safe."""

    def __init__(
        self, bootstrap: str, topic: str, client: Mapping[str, object] = NO_SETTINGS, timeout_ms: int = 30_000
    ) -> None:
        """`timeout_ms`: longest wait for Kafka to answer, and for each reading or writing."""
        check_client_settings(client)
        self._bootstrap, self._topic, self._client, self._timeout_ms = bootstrap, topic, client, timeout_ms

    def read(self) -> Seen:
        """To the topic's end as it is now. Raises KafkaUnavailable, TopicUnreadable, ConfigError."""
        records: list[tuple[int, bytes | None]] = []
        end = scan(
            self._bootstrap,
            self._topic,
            lambda offset, value: records.append((offset, value)),
            self._client,
            timeout_ms=self._timeout_ms,
        )
        return resolve(records, end)

    def write(self, owner: Owner, seen: Seen, may_replace: Callable[[Owner | None], bool]) -> Owner | None:
        """Put this owner in the place of the one that was seen. Returns who is named at last: another one, when that
        one was quicker and may not be replaced; its record is then the last again."""
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

    def _append(self, producer: JsonProducer, owner: Owner, at: int) -> int:
        """Where it lies: Kafka says so once it is there to stay."""
        try:
            sent = producer.send(self._topic, {"v": VERSION, "at": at, **asdict(owner)}, key=KEY)
            return sent.result(timeout=self._timeout_ms / 1000 + 1)[1]
        except Exception as error:
            raise TopicUnreadable(
                f"topic {self._topic} did not take the owner's record ({type(error).__name__}: {error})"
            ) from error


def stopped(owner: Owner, seq: int, sent_ms: int) -> Owner:
    """The same owner after its controller's last word."""
    return replace(owner, state=STOPPED, seq=seq, sent_ms=sent_ms)
