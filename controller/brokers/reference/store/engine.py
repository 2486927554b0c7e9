"""The segment store without a network: synchronous, single-threaded, durable when a call returns.

Layout: `fences.log`, `lock`, and a folder `topics/<namespace hash>/<topic hash>/` with `topic.json`, segments and
`acks.log`. Invariants: every append and acknowledgement is checked against the fence in the call that stores it; a
(producer, sequence) is stored once; everything answered survives SIGKILL, and with `fsync` a power loss as well.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from bisect import bisect_left, insort
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.fences import Fence, Fences, exclusive_end
from controller.brokers.reference.store.framed_log import Sync, sync_folder
from controller.brokers.reference.store.messages import Message
from controller.brokers.reference.store.segments import SUFFIX, OpenFiles
from controller.brokers.reference.store.topic import Stored, StoredTopic
from controller.domain.errors import BadRecord, StoreError, label, shown
from controller.domain.ids import Bundle, namespace_of, topic_hash
from controller.process.clock import wall_ms

log = structlog.get_logger()

DEFAULT_SEGMENT_BYTES = 64 << 20


class StoreEngine:
    """All topics and fences in one folder. A lock file admits one process at a time."""

    def __init__(
        self,
        root: Path,
        *,
        fsync: bool = False,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        clock_ms: Callable[[], int] = wall_ms,
        sync: Sync = os.fsync,
    ) -> None:
        """`fsync`: flush what is stored with `sync`, so that it survives a power loss."""
        self.fsync = fsync
        self._root = root
        self._sync = sync if fsync else None
        self._segment_bytes = segment_bytes
        self._clock_ms = clock_ms
        root.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(root / "lock")
        self._files = OpenFiles()
        self._topics: dict[str, StoredTopic] = {}
        self._ring: dict[str, list[tuple[int, str]]] = {}  # namespace -> (hash, topic), sorted
        self._unsynced: set[Path] = set()
        self._fences = Fences(root / "fences.log", sync=self._sync)
        for meta in sorted(root.glob("topics/*/*/topic.json")):
            newest = self._register(_topic_named_in(meta), meta.parent).log.newest
            if newest is not None:
                self._unsynced.add(newest)  # an earlier process may have been killed before it flushed that
        _warn_of_nameless(root)
        self.sync()
        self._lsn = max([self._fences.last_lsn, *(t.last_lsn for t in self._topics.values())])

    def acquire(self, bundle: Bundle, epoch: int, owner: str, *, tails: bool = True) -> dict[str, dict[str, Any]]:
        """Raise the fence over the range, then read the tails of its topics. Raises Fenced."""
        self._lsn += 1
        self._fences.raise_to(
            Fence(bundle.namespace, bundle.lower, exclusive_end(bundle.upper), epoch, owner, self._lsn)
        )
        return {topic: self._topics[topic].tail() for topic in self.topics(bundle)} if tails else {}

    def append(self, topic: str, epoch: int, owner: str, messages: list[Message]) -> list[Stored]:
        """Store the messages that are not stored yet, all or none. Raises Fenced, OutOfSequence, StoreError."""
        self._fences.require(namespace_of(topic), topic_hash(topic), epoch, owner)
        self._lsn += 1
        answers, written = self.create_topic(topic).append(
            messages, epoch=epoch, owner=owner, lsn=self._lsn, time_ms=self._clock_ms()
        )
        if self.fsync:
            self._unsynced.update(written)
        return answers

    def sync(self) -> None:
        """With `fsync`, flush appended messages to the disk; the server calls this before it answers.

        Raises StoreError when that failed: what was appended may be lost with the power, and nothing tells how much.
        """
        if self._sync is not None:
            for path in self._unsynced:
                try:
                    self._sync_one(path, self._sync)
                except OSError as error:
                    raise StoreError(f"cannot flush {path} to the disk: {error}; check the disk") from error
        self._unsynced.clear()

    def _sync_one(self, path: Path, sync: Sync) -> None:
        if path.is_dir():
            sync_folder(path, sync)
        else:
            sync(self._files.descriptor(path))

    def read(self, topic: str, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Frames from the offset on (see `messages.unpack_all_stored`), and the offset after them."""
        if offset < 0 or max_bytes <= 0:
            raise StoreError(f"cannot read {max_bytes} bytes of {label(topic)} from offset {offset}")
        return self._topic(topic).log.read(offset, max_bytes)

    def subscribe(self, topic: str, subscription: str, epoch: int, owner: str, *, latest: bool) -> Cursor:
        """The subscription's cursor, created if it is new."""
        self._fences.require(namespace_of(topic), topic_hash(topic), epoch, owner)
        return self.create_topic(topic).subscribe(subscription, latest=latest)

    def acknowledge(
        self,
        topic: str,
        subscription: str,
        epoch: int,
        owner: str,
        ranges: list[tuple[int, int]],
        below: int | None = None,
    ) -> Cursor:
        """Acknowledge offsets durably; individual ranges and/or everything below an offset."""
        self._fences.require(namespace_of(topic), topic_hash(topic), epoch, owner)
        return self._topic(topic).acknowledge(subscription, ranges, below)

    def create_topic(self, topic: str) -> StoredTopic:
        """The topic, created if it is missing. Raises BadRecord for a malformed name."""
        found = self._topics.get(topic)
        if found is not None:
            return found
        folder = self._root / "topics" / _short(namespace_of(topic)) / _short(topic)
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "topic.json").exists():  # all topics are known: it is another one with the same short hash
            raise StoreError(f"the folder of {label(topic)} is that of another topic already: give it another name")
        beside = folder / "topic.new"
        with beside.open("w") as file:
            file.write(json.dumps({"topic": topic}))
            file.flush()
            if self._sync is not None:
                self._sync(file.fileno())
        beside.replace(folder / "topic.json")
        if self._sync is not None:
            for changed in (folder, folder.parent, folder.parent.parent, self._root):
                sync_folder(changed, self._sync)
        return self._register(topic, folder)

    def topics(self, bundle: Bundle) -> list[str]:
        """The topics of a hash range, by hash."""
        ring = self._ring.get(bundle.namespace, [])
        first = bisect_left(ring, (bundle.lower, ""))
        return [topic for _, topic in ring[first : bisect_left(ring, (exclusive_end(bundle.upper), ""))]]

    def tail(self, topic: str) -> dict[str, Any]:
        """What an owner must know about one topic."""
        return self._topic(topic).tail()

    def stats(self) -> dict[str, Any]:
        """Bytes, messages and every subscription's backlog, per topic."""
        return {
            name: {
                "bytes": topic.log.bytes,
                "messages": topic.log.next_offset,
                "backlog": {s: c.backlog(topic.log.next_offset) for s, c in topic.cursors.items()},
            }
            for name, topic in self._topics.items()
        }

    def fences(self) -> list[Fence]:
        """Every fence in force: who may write where, at which epoch."""
        return self._fences.all()

    def close(self) -> None:
        """Close all files and release the folder."""
        self.sync()
        for topic in self._topics.values():
            topic.close()
        self._files.close()
        self._fences.close()
        os.close(self._lock)

    def _topic(self, topic: str) -> StoredTopic:
        found = self._topics.get(topic)
        if found is None:
            raise StoreError(f"no topic {shown(topic)} here: create it or append to it first")
        return found

    def _register(self, topic: str, folder: Path) -> StoredTopic:
        stored = StoredTopic(topic, folder, self._files, segment_bytes=self._segment_bytes, sync=self._sync)
        self._topics[topic] = stored
        insort(self._ring.setdefault(stored.namespace, []), (stored.hash, topic))
        return stored


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StoreError(f"another process serves {path.parent}: stop it or choose another --data-dir") from None
    return descriptor


def _topic_named_in(meta: Path) -> str:
    """The topic whose folder this is. Raises StoreError for a file that does not tell."""
    try:
        topic = json.loads(meta.read_bytes())["topic"]
        namespace_of(topic)
    except (ValueError, TypeError, KeyError, RecursionError, BadRecord):
        raise StoreError(
            f'{meta} is damaged, it is not {{"topic": NAME}}: restore the file, or remove its folder if you can do '
            "without the topic"
        ) from None
    return str(topic)


def _warn_of_nameless(root: Path) -> None:
    """Name the folders whose messages nobody can read, since nothing says which topic's they are."""
    for folder in sorted({segment.parent for segment in root.glob(f"topics/*/*/*{SUFFIX}")}):
        if not (folder / "topic.json").exists():
            log.warning("topic_left_out", folder=str(folder), why="it has messages but no topic.json: restore the file")


def _short(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:16]
