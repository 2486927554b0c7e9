"""The reference broker's port: whatever a client sends, other clients go on and the event loop reports nothing."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

from controller.brokers.reference.store.messages import Message, pack_messages
from controller.brokers.reference.store.protocol import encode
from tests.fuzz.limits import bounded, check_error, fuzzing
from tests.fuzz.test_store_protocol import HEAD, bodies, framed, frames
from tests.unit.brokers.reference_cluster import NS, WHOLE, Cluster, cluster, topic, until

OPEN = [
    {"op": "producer", "ref": 1, "topic": topic(1), "name": "p", "seq": 0},
    {"op": "subscribe", "ref": 2, "topic": topic(1), "subscription": "s", "type": "shared", "name": "c", "permits": 9,
     "seq": 0, "latest": False, "unconfirmed": []},
]  # fmt: skip
REQUESTS: list[dict[str, Any]] = [
    *({**one, "ref": 7, "name": "q"} for one in OPEN),
    {"op": "subscribe", **OPEN[1], "ref": 8, "type": "failover", "subscription": "s2", "unconfirmed": [[0, 1]]},
    {"op": "send", "ref": 1, "first": 0, "n": 2},
    {"op": "flow", "ref": 2, "permits": 5},
    {"op": "ack", "ref": 2, "id": 3, "ranges": [[0, 1]]},
    {"op": "ack", "ref": 2, "id": 4, "ranges": [[0, 1]], "below": 1},
    {"op": "close", "ref": 2},
]
BODY = pack_messages([Message("p", n, "k", b"x") for n in range(2)])
PING, PONG = {"op": "ping"}, {"op": "pong"}


class Stage:
    """One broker with a client that must notice nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop, here: Cluster) -> None:
        self.loop, self.here = loop, here
        self.reported: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda loop, context: self.reported.append(context))
        self._numbers = itertools.count(1)

    async def open(self) -> None:
        """Serve, and open the honest client's producer and consumer."""
        await self.here.give(WHOLE, "a")
        self.producer = await self.here.producer(topic(9), "honest")
        self.consumer = await self.here.consumer(topic(9), "s", "honest")

    async def send(self, requests: list[bytes], pause_s: float = 0) -> list[dict[str, Any]]:
        """What a client gets that opens a producer and a consumer, sends these and, after a pause, a ping."""
        host, _, port = self.here.brokers["a"].data_address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"".join(encode(one) for one in OPEN))
        found = [await read_frame(reader) for _ in OPEN]
        writer.write(b"".join(requests))
        await asyncio.sleep(pause_s)
        writer.write(encode(PING))
        writer.write_eof()  # half a frame gets no rest
        while (frame := await read_frame(reader)) is not None and frame != PONG:
            found.append(frame)
        writer.close()
        return [one for one in found if one is not None]

    async def check(self) -> None:
        """The honest client's next message comes, and nothing was reported."""
        number = next(self._numbers)
        await self.producer.send("k", b"x")
        await until(lambda: self.consumer.seen.mark >= number)
        assert self.reported == []


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The header of the next frame; None at the end of the connection."""
    try:
        total, head = HEAD.unpack(await asyncio.wait_for(reader.readexactly(8), 60))
        rest = await reader.readexactly(total - 4)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    found: dict[str, Any] = json.loads(rest[:head])
    return found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    loop = asyncio.new_event_loop()
    manager = cluster(tmp_path_factory.mktemp("store"), brokers=1)
    made = Stage(loop, loop.run_until_complete(manager.__aenter__()))
    loop.run_until_complete(made.open())
    yield made
    loop.run_until_complete(manager.__aexit__(None, None, None))
    loop.close()


def check(stage: Stage, requests: list[bytes], pause_s: float = 0) -> list[dict[str, Any]]:
    """What comes of them; other clients notice nothing."""
    with bounded(sum(map(len, requests))):
        answers = stage.loop.run_until_complete(stage.send(requests, pause_s))
    for answer in answers:
        if "reason" in answer:
            check_error(answer["reason"])
    stage.loop.run_until_complete(stage.check())
    return answers


@fuzzing(12, 4_000)
@given(frames(REQUESTS, bodies(BODY)))
def test_other_clients_notice_nothing(stage: Stage, requests: list[bytes]) -> None:
    check(stage, requests)


@pytest.mark.parametrize("number", ["1e999", "NaN", "-1", "2.5", '"5"', "null", "[1]", "9" * 400, "true"])
@pytest.mark.parametrize("name", ["first", "n", "permits", "ranges", "below", "id", "ref", "unconfirmed"])
def test_a_number_that_is_none_ends_the_connection_or_is_refused(stage: Stage, name: str, number: str) -> None:
    """An infinite one was a fatal error of the event loop."""
    request = next(one for one in REQUESTS if name in one and (name != "ranges" or one["op"] == "ack"))
    value: Any = [["N", 1]] if name in ("ranges", "unconfirmed") else "N"
    check(stage, [framed(json.dumps({**request, name: value}).replace('"N"', number).encode(), BODY)])


@pytest.mark.parametrize("changed", [{"topic": 5}, {"topic": "x" * 9_000}, {"topic": f"persistent://{NS}/\x1b"},
{"name": ""},
                                     {"name": "n" * 9_000}, {"type": "x"}, {"type": ["shared"]},
                                     {"subscription": None}, {"latest": 1}])  # fmt: skip
def test_an_opening_that_cannot_be_is_refused_for_good(stage: Stage, changed: dict[str, Any]) -> None:
    answers = check(stage, [encode({**REQUESTS[2], **changed})], 0.05)
    assert [one["retry"] for one in answers if one["op"] == "refused"] == [False]


def test_a_count_that_the_body_cannot_hold_takes_no_capacity(stage: Stage) -> None:
    """One frame took the broker's capacity of years."""
    check(stage, [encode({"op": "send", "ref": 1, "first": 0, "n": 2**52}, BODY)])
