"""Messages as producers send them and as the store keeps them.

A stored message carries the epoch and owner it was written under and the store's log sequence number (`lsn`, shared
with the fences), so that a checker can verify from the files alone that nothing was stored past a fence (invariant I1).
Byte order is big-endian; strings are UTF-8 with a u16 length, payloads have a u32 length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from controller.brokers.reference.store.frames import HEAD, Bodies, Positions, frame
from controller.domain.errors import StoreError

MAX_MESSAGE_BYTES = 60 << 20  # of a payload; with all that is stored beside it, it fits into a frame of the protocol
_WIRE = struct.Struct(">qHHI")  # sequence, producer, key, payload lengths
_DISK = struct.Struct(">QQqQQHHHI")  # offset, epoch, sequence, lsn, time_ms, owner, producer, key, payload lengths
_ON_DISK = ">u8, >u8, >i8, >u8, >u8, >u2, >u2, >u2, >u4"  # the same, for numpy: packed, not aligned
_LENGTHS = ("f5", "f6", "f7", "f8")


class Message(NamedTuple):
    """A message that a producer sends. Sequences of one producer name are dense and start at 0."""

    producer: str
    sequence: int
    key: str
    payload: bytes


class StoredMessage(NamedTuple):
    """A message in the store."""

    offset: int
    epoch: int
    owner: str
    producer: str
    sequence: int
    key: str
    payload: bytes
    lsn: int
    time_ms: int


def pack_messages(messages: Iterable[Message]) -> bytes:
    """Messages as one body, in order."""
    parts: list[bytes] = []
    for producer, sequence, key, payload in messages:
        name, key_bytes = producer.encode(), key.encode()
        parts += (_WIRE.pack(sequence, len(name), len(key_bytes), len(payload)), name, key_bytes, payload)
    return b"".join(parts)


def unpack_messages(body: bytes) -> list[Message]:
    """The inverse of `pack_messages`. Raises StoreError for a malformed body."""
    found, at = [], 0
    try:
        while at < len(body):
            sequence, producer, key, payload = _WIRE.unpack_from(body, at)
            at += _WIRE.size
            end = at + producer + key + payload
            if payload > MAX_MESSAGE_BYTES:
                raise StoreError(f"message of {payload} bytes: at most {MAX_MESSAGE_BYTES} are stored")
            if end > len(body):
                raise StoreError(f"message body of {len(body)} bytes ends inside a message at byte {at}")
            split = at + producer
            found.append(
                Message(body[at:split].decode(), sequence, body[split : split + key].decode(), body[split + key : end])
            )
            at = end
    except (struct.error, UnicodeDecodeError) as error:
        raise StoreError(f"message body of {len(body)} bytes is malformed at byte {at}: {error}") from error
    return found


def pack_stored(record: StoredMessage) -> bytes:
    """The message as a frame of a segment file."""
    owner, producer, key = record.owner.encode(), record.producer.encode(), record.key.encode()
    head = _DISK.pack(
        record.offset,
        record.epoch,
        record.sequence,
        record.lsn,
        record.time_ms,
        len(owner),
        len(producer),
        len(key),
        len(record.payload),
    )
    return frame(b"".join((head, owner, producer, key, record.payload)))


def unpack_stored(body: bytes) -> StoredMessage:
    """The message in the body of a frame. Raises StoreError, struct.error or UnicodeDecodeError for what is none."""
    offset, epoch, sequence, lsn, time_ms, owner, producer, key, payload = _DISK.unpack_from(body)
    a = _DISK.size
    b, c = a + owner, a + owner + producer
    d = c + key
    if d + payload != len(body):
        raise StoreError(f"stored message of {len(body)} bytes, where {d + payload} are due")
    return StoredMessage(
        offset,
        epoch,
        body[a:b].decode(),
        body[b:c].decode(),
        sequence,
        body[c:d].decode(),
        body[d : d + payload],
        lsn,
        time_ms,
    )


class StoredBodies(Bodies):
    """The bodies of a segment: messages with dense offsets from `base` on, which say their lengths themselves."""

    def __init__(self, base: int) -> None:
        self._base = base

    def said_length(self, data: bytes, begin: int, index: int) -> int | None:
        """As `Bodies` says."""
        if begin + _DISK.size > len(data):
            return None
        offset, _, _, _, _, *lengths = _DISK.unpack_from(data, begin)
        return _DISK.size + sum(lengths) if offset == self._base + index else None

    def pick(self, data: bytes, begins: Positions, lengths: Positions, index: int) -> Positions:
        """As `Bodies` says."""
        import numpy as np

        begins, lengths = (each[lengths >= _DISK.size] for each in (begins, lengths))
        if not begins.size:
            return begins
        this = self._base + index
        offsets = np.ndarray(len(data) - 7, ">u8", data, 0, (1,))[begins]
        later = (offsets > this) & (offsets <= this + len(data) // (HEAD.size + _DISK.size))  # most are ruled out here
        begins, lengths = begins[later], lengths[later]
        heads = np.ndarray(len(data) - _DISK.size + 1, _ON_DISK, data, 0, (1,))[begins]
        picked: Positions = begins[lengths == _DISK.size + sum(heads[name].astype(np.int64) for name in _LENGTHS)]
        return picked


def unpack_all_stored(data: bytes) -> list[StoredMessage]:
    """The messages in complete frames, as `read` returns them. Raises StoreError for anything else."""
    found, at = [], 0
    try:
        while at < len(data):
            length = HEAD.unpack_from(data, at)[0]
            at += HEAD.size
            found.append(unpack_stored(data[at : at + length]))
            at += length
        if at > len(data):
            raise StoreError(f"answer of {len(data)} bytes ends inside a message")
    except (struct.error, UnicodeDecodeError) as error:
        raise StoreError(f"answer of {len(data)} bytes is malformed at byte {at}: {error}") from error
    return found
