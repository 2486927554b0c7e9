"""The wire protocol between store, brokers and clients: length-prefixed frames over TCP.

    frame = total u32 · header length u32 · header (JSON object, UTF-8) · body (raw bytes)

`total` counts the bytes after it. A request carries `id` and `op`; its answer carries the same `id` and either fields
or `error` (a kind from `ERRORS`) with `message`. Answers may arrive in any order; the requests of one connection are
carried out in order. Bodies are `messages.pack_messages` (append, send) or stored frames (read). Headers are JSON
because they are small and a capture stays readable; payloads are never encoded.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import msgspec

from controller.brokers.reference.store.producers import OutOfSequence
from controller.domain.errors import BadRecord, BallastError, Fenced, StoreError, printable, shown
from controller.domain.strict_json import parse_strictly

MAX_FRAME_BYTES = 64 << 20
CONNECT_S = 4.0  # the operating system itself would try for two minutes
_HEAD = struct.Struct(">II")
_ENCODER, _DECODER = msgspec.json.Encoder(), msgspec.json.Decoder()
Header = dict[str, Any]

ERRORS: dict[str, type[BallastError]] = {"fenced": Fenced, "out_of_sequence": OutOfSequence, "store": StoreError}


def encode(header: Header, body: bytes = b"") -> bytes:
    """One frame."""
    packed = _ENCODER.encode(header)
    return _HEAD.pack(4 + len(packed) + len(body), len(packed)) + packed + body


def header_of(data: bytes) -> Header | None:
    """The header of one encoded frame; None for anything else."""
    total, head = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (0, 0)
    if 4 + total != len(data) or 4 + head > total:
        return None
    header = _DECODER.decode(data[8 : 8 + head])
    return header if isinstance(header, dict) else None


def error_header(error: BallastError) -> Header:
    """An exception as the header of an answer."""
    kind = next((k for k, cls in ERRORS.items() if type(error) is cls), "store")
    return {"error": kind, "message": printable(str(error))}


def to_exception(header: Header) -> BallastError:
    """The exception in the header of an answer."""
    return ERRORS.get(header["error"], StoreError)(header.get("message", "no reason given"))


class FrameConnection(asyncio.Protocol):
    """Either end of a connection: calls `on_frame(connection, header, body)` for each frame, in order.

    A frame that is too large or malformed closes the connection, because the rest of the stream cannot be trusted.
    """

    def __init__(
        self,
        on_frame: Callable[[FrameConnection, Header, bytes], None],
        on_lost: Callable[[FrameConnection], None],
        on_made: Callable[[FrameConnection], None] = lambda connection: None,
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._on_made = on_made
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self.congested = False  # the peer reads more slowly than we write
        self.on_relieved: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is up."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes arrived; pass on every complete frame."""
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= 8 and self._transport is not None:
            total, head = _HEAD.unpack_from(buffer, at)
            if total > MAX_FRAME_BYTES or head + 4 > total:
                self.close()
                return
            end = at + 4 + total
            if end > len(buffer):
                break
            split = at + 8 + head
            try:
                header = parse_strictly(bytes(buffer[at + 8 : split]), MAX_FRAME_BYTES, unique=False)
                if not isinstance(header, dict):
                    raise BadRecord("frame_header", f"{shown(header)} is not an object")
                self._on_frame(self, header, bytes(buffer[split:end]))
            except (ValueError, KeyError, TypeError, BadRecord):
                self.close()
                return
            at = end
        del buffer[:at]

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection is gone."""
        self._transport = None
        self._on_lost(self)

    def pause_writing(self) -> None:
        """asyncio: the write buffer is full."""
        self.congested = True

    def resume_writing(self) -> None:
        """asyncio: the write buffer drained."""
        self.congested = False
        self.on_relieved()

    def send(self, header: Header, body: bytes = b"") -> None:
        """Write one frame; does nothing once the connection is gone, which `on_lost` has reported."""
        self.write(encode(header, body))

    def write(self, data: bytes) -> None:
        """Write encoded frames."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause_reading(self) -> None:
        """Stop reading, so that the peer's sends wait in its socket."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close once everything written has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; unsent data is lost."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def open(self) -> bool:
        """Whether frames can still be sent."""
        return self._transport is not None and not self._transport.is_closing()


async def connect(make: Callable[[], FrameConnection], host: str, port: int) -> FrameConnection:
    """Connect to a listening peer. Raises OSError, also when there is no answer within CONNECT_S."""
    try:
        opening = asyncio.get_running_loop().create_connection(make, host, port)
        _, connection = await asyncio.wait_for(opening, CONNECT_S)
    except asyncio.TimeoutError:
        raise OSError(f"{host}:{port} does not answer within {CONNECT_S:g} s") from None
    return connection
