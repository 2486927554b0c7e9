"""The segment store as whoever reaches its port sees it: frames, requests, bodies; its answers as a broker reads."""

from __future__ import annotations

import asyncio
import json
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.brokers.reference.store import engine as engine_module
from controller.brokers.reference.store.engine import StoreEngine
from controller.brokers.reference.store.messages import (
    MAX_MESSAGE_BYTES,
    Message,
    StoredMessage,
    pack_messages,
    pack_stored,
    unpack_all_stored,
    unpack_messages,
)
from controller.brokers.reference.store.protocol import MAX_FRAME_BYTES, FrameConnection, encode
from controller.brokers.reference.store.server import StoreServer
from controller.domain.errors import BallastError, StoreError
from controller.domain.ids import RING_END, Bundle
from tests.fuzz.hostile import DEEP, LONG, TWINS, change, write
from tests.fuzz.limits import bounded, check_error, fuzzing, read_or_refuse

WHOLE = Bundle("shop/orders", 0, RING_END)
TOPIC = "persistent://shop/orders/t"
OF_OWNER = {"topic": TOPIC, "epoch": 3, "owner": "a"}
REQUESTS: list[dict[str, Any]] = [
    {"op": "acquire", "bundle": str(WHOLE), "epoch": 4, "owner": "b", "tails": True},
    {"op": "append", **OF_OWNER},
    {"op": "read", "topic": TOPIC, "offset": 1, "max_bytes": 4_096},
    {"op": "subscribe", **OF_OWNER, "subscription": "s2", "latest": False},
    {"op": "ack", **OF_OWNER, "subscription": "s", "ranges": [[1, 2]], "below": 1},
    {"op": "create_topic", "topic": f"{TOPIC}2"}, {"op": "topics", "bundle": str(WHOLE)}, {"op": "tail",
    "topic": TOPIC},
    {"op": "stats"}, {"op": "fences"}, {"op": "ping"},
]  # fmt: skip
BODY = pack_messages([Message("p", 3, "k", b"x"), Message("p", 4, "é", b"y" * 9)])
HEAD = struct.Struct(">II")


class Wire(asyncio.Transport):
    """The other end: it keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def answers(self) -> list[tuple[dict[str, Any], bytes]]:
        """The frames that were written."""
        found, at = [], 0
        while at < len(self.written):
            total, head = HEAD.unpack_from(self.written, at)
            header = json.loads(self.written[at + 8 : at + 8 + head], parse_constant=pytest.fail)
            found.append((header, bytes(self.written[at + 8 + head : at + 4 + total])))
            at += 4 + total
        return found


class Stage:
    """A store with three messages, one subscription, one fence."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = StoreEngine(folder, clock_ms=lambda: 1_000)
        self.engine.acquire(WHOLE, 3, "a")
        self.engine.append(TOPIC, 3, "a", [Message("p", n, "k", b"x") for n in range(3)])
        self.engine.subscribe(TOPIC, "s", 3, "a", latest=False)
        self.engine.acknowledge(TOPIC, "s", 3, "a", [(0, 1)])
        self.server = StoreServer(self.engine)

    def send(self, data: bytes) -> Wire:
        """What a new connection gets for these bytes."""
        wire = Wire()
        connection = FrameConnection(self.server._on_frame, lambda lost: None)
        connection.connection_made(wire)
        with bounded(2 * len(data)):
            connection.data_received(data)
        return wire

    def check(self) -> None:
        """The store answers, what it knows is sound, and a restart knows the same."""
        ((header, _),) = self.send(encode({"id": 1, "op": "ping"})).answers()
        assert header == {"id": 1}
        before = self.told()
        assert self.fence_over(0) >= 3, "an epoch went back"
        self.engine.close()
        self.engine = StoreEngine(self.folder, clock_ms=lambda: 1_000)
        assert self.told() == before
        self.engine.close()

    def fence_over(self, hash_: int) -> int:
        """The epoch in force at a hash of the namespace."""
        return max(
            f.epoch for f in self.engine.fences() if f.namespace == WHOLE.namespace and f.lower <= hash_ < f.upper
        )

    def told(self) -> tuple[Any, ...]:
        """Fences, tails and messages; their numbers are whole."""
        fences = self.engine.fences()
        assert all(type(n) is int and 0 <= n < 2**53 for f in fences for n in (f.lower, f.upper, f.epoch, f.lsn))
        assert all(isinstance(fence.owner, str) for fence in fences)
        topics = sorted(self.engine.stats())
        tails = {topic: self.engine.tail(topic) for topic in topics}
        for tail in tails.values():
            assert all(
                type(n) is int for c in tail["cursors"].values() for n in (c["mark"], c["start"], *sum(c["ranges"], ()))
            )
        messages = {topic: unpack_all_stored(self.engine.read(topic, 0, 10**6)[0]) for topic in topics}
        assert all([m.offset for m in found] == list(range(tails[topic]["next"])) for topic, found in messages.items())
        return fences, tails, messages


@contextmanager
def stage() -> Iterator[Stage]:
    """A stage in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        made = Stage(Path(folder))
        yield made


def framed(header: bytes, body: bytes) -> bytes:
    """One frame of any header."""
    return HEAD.pack(4 + len(header) + len(body), len(header)) + header + body


@st.composite
def frames(draw: st.DrawFn, valid: list[dict[str, Any]], bodies: st.SearchStrategy[bytes]) -> list[bytes]:
    """Requests, most of them well framed."""
    found = []
    for number in range(draw(st.integers(1, 3))):
        tree = change(draw, [{"id": number, **one} for one in valid])
        data = framed(write(tree).encode("utf-8", "surrogatepass"), draw(bodies))
        how = draw(st.integers(0, 19))
        if how == 0:
            data = data[: draw(st.integers(0, len(data)))]
        elif how == 1:
            at = draw(st.integers(0, min(len(data) - 1, 15)))
            data = data[:at] + draw(st.binary(min_size=1, max_size=1)) + data[at + 1 :]
        found.append(data)
    return found


@st.composite
def bodies(draw: st.DrawFn, good: bytes = BODY) -> bytes:
    """Bodies of messages."""
    how = draw(st.integers(0, 5))
    if how < 3:
        return b"" if how == 0 else good
    at = draw(st.integers(0, len(good) - 1))
    if how == 3:
        return good[:at]
    return good[:at] + draw(st.binary(min_size=1, max_size=4)) + good[at + 1 :]


@fuzzing(20, 6_000)
@given(frames(REQUESTS, bodies()))
def test_a_request_is_carried_out_or_refused_or_its_connection_is_closed(requests: list[bytes]) -> None:
    with stage() as here:
        for request in requests:
            wire = here.send(request)
            answers = wire.answers()
            assert len(answers) <= 1
            for header, _ in answers:
                if "error" in header:
                    check_error(header["message"])
        here.check()


@fuzzing(24, 20_000)
@given(bodies() | st.binary(max_size=60))
def test_messages_are_unpacked_or_refused(body: bytes) -> None:
    found = read_or_refuse(unpack_messages, body, StoreError, len(body))
    if found is not None:
        assert pack_messages(found) == body


STORED = b"".join(pack_stored(StoredMessage(n, 3, "a", "p", n, "k", b"x" * n, 5, 6)) for n in range(3))


@fuzzing(24, 20_000)
@given(bodies(STORED) | st.binary(max_size=120))
def test_stored_messages_are_unpacked_or_refused(data: bytes) -> None:
    """As a broker reads an answer of its store; half a message is none."""
    found = read_or_refuse(unpack_all_stored, data, StoreError, len(data))
    if found is not None:
        assert sum(len(pack_stored(message)) for message in found) == len(data)


def refused(request: Callable[[Stage], Wire]) -> str:
    """The one error that a stage answers; it stays sound."""
    with stage() as here:
        ((header, _),) = request(here).answers()
        here.check()
    check_error(header["message"])
    return str(header["message"])


NUMBERS = ["NaN", "Infinity", "-1", "1e999", "2.5", "true", '"5"', "null", "[5]", str(2**53), "9" * 400]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("op", ["acquire", "append", "read", "ack"])
def test_a_number_that_is_none_changes_nothing(op: str, number: str) -> None:
    """An epoch that is no number compares with none: it took the fence from a higher one."""
    name = {"acquire": "epoch", "append": "epoch", "read": "offset", "ack": "ranges"}[op]
    request = {"id": 1, **next(one for one in REQUESTS if one["op"] == op), name: [["N", 3]] if op == "ack" else "N"}
    raw = json.dumps(request).replace('"N"', number).encode()
    with stage() as here:
        wire = here.send(framed(raw, BODY))
        assert wire.closed or [set(header) for header, _ in wire.answers()] == [{"id", "error", "message"}]
        assert here.fence_over(0) == 3
        here.check()


@pytest.mark.parametrize(
    "changed",
    [{"op": "x" * LONG}, {"op": ["ping"]}, {"topic": 5}, {"topic": f"{TOPIC}\n"}, {"topic": "t" * LONG},
    {"owner": 5}, {"owner": "a" * LONG},
     {"topic": f"persistent://{'n' * LONG}/b/c"}, {"epoch": 4}],
    ids=range(9),
)  # fmt: skip
def test_a_text_that_is_none_is_refused_in_one_short_line(changed: dict[str, Any]) -> None:
    refused(lambda here: here.send(encode({"id": 1, "op": "append", **OF_OWNER, **changed}, BODY)))


@pytest.mark.parametrize("number", ['{"a":1}', "[1]", "NaN", "1e999", "null", '"x"'])
def test_a_request_without_a_number_of_its_own_ends_its_connection(number: str) -> None:
    with stage() as here:
        wire = here.send(framed(f'{{"id":{number},"op":"ping"}}'.encode(), b""))
        assert wire.closed
        assert not wire.written
        here.check()


@pytest.mark.parametrize(
    "header",
    [
        b"[" * DEEP,
        b'{"id":1,"op":' + b"[" * 900 + b"]" * 900 + b"}",
        b"",
        b"\xff",
        b"[]",
        b"5",
        b'{"id":1,"op":"tail","topic":"\\ud800"}',
    ],
    ids=range(7),
)
def test_a_header_that_is_none_ends_its_connection(header: bytes) -> None:
    """Nesting ended in an error that the event loop reported with a traceback."""
    with stage() as here:
        assert here.send(framed(header, b"")).closed
        here.check()


def test_the_producer_of_a_gap_may_have_a_long_name() -> None:
    body = pack_messages([Message("p" * 60_000, 7, "k", b"x")])
    assert "where 0 is due" in refused(lambda here: here.send(encode({"id": 1, "op": "append", **OF_OWNER}, body)))


def test_a_message_that_no_answer_could_carry_is_not_stored() -> None:
    """With what is stored beside it, it was larger than a frame may be: whoever read it asked again for ever."""
    body = pack_messages([Message("p", 3, "k", bytes(MAX_MESSAGE_BYTES + 1))])
    with pytest.raises(StoreError, match="at most") as told:
        unpack_messages(body)
    check_error(told.value)
    largest = StoredMessage(0, 2**53, "o" * 512, "p" * 65_535, 0, "k" * 65_535, bytes(MAX_MESSAGE_BYTES), 0, 0)
    assert len(pack_stored(largest)) + 1_000 < MAX_FRAME_BYTES


def test_an_answer_fits_into_a_frame_however_much_is_asked_for() -> None:
    with stage() as here:
        ((header, data),) = here.send(
            encode({"id": 1, "op": "read", "topic": TOPIC, "offset": 0, "max_bytes": 2**52})
        ).answers()
        assert header["next"] == len(unpack_all_stored(data)) == 3
        here.check()


def test_topics_of_one_hash_are_two_topics(tmp_path: Path) -> None:
    store = StoreEngine(tmp_path, clock_ms=lambda: 1)
    store.acquire(Bundle("t/n", 0, RING_END), 1, "a")
    first, second = (f"persistent://t/n/{twin}" for twin in TWINS)
    store.append(first, 1, "a", [Message("p", 0, "k", b"first")])
    store.append(second, 1, "a", [Message("p", 0, "k", b"second")])
    store.close()
    again = StoreEngine(tmp_path, clock_ms=lambda: 1)
    assert [unpack_all_stored(again.read(t, 0, 99)[0])[0].payload for t in (first, second)] == [b"first", b"second"]
    again.close()


def test_topics_whose_folders_would_be_one_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_short", lambda text: "same")
    store = StoreEngine(tmp_path, clock_ms=lambda: 1)
    store.acquire(Bundle("t/n", 0, RING_END), 1, "a")
    store.append("persistent://t/n/x", 1, "a", [Message("p", 0, "k", b"x")])
    with pytest.raises(BallastError, match="another name"):
        store.append("persistent://t/n/y", 1, "a", [Message("p", 0, "k", b"y")])
    store.close()
