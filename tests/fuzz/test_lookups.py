"""Lookups over HTTP: what an agent is asked, what stands before it, and what a client makes of an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from controller.agent.lookup import LookupService
from controller.agent.metrics import AgentMetrics
from controller.agent.signal import Signal
from controller.brokers.reference.client.lookup import Lookup
from controller.cli.act.topic import LookupFailed, ask
from controller.domain.entries import Kind
from controller.domain.ids import MAX_PARTITIONS, Session
from controller.process.access.access import HttpAccess
from controller.process.access.guard import Guard
from controller.process.access.tokens import TokenFile
from controller.process.http import make_app
from tests.fuzz.hostile import DEEP, LONG, TEXTS, TWINS, records
from tests.fuzz.limits import bounded, check_error, fuzzing
from tests.unit.agent.agent_world import NAMESPACE, Journal

TOPIC = f"persistent://{NAMESPACE}/t"
TOKEN = "secret-token-1"
FOUND = {"broker": "a:1", "address": "a:10", "lookup_url": "http://a:1", "bundle": f"{NAMESPACE}/0x00000000_0xffffffff",
         "epoch": 3, "seq": 9, "partitions": 2}  # fmt: skip
ANSWERS = [FOUND, {"error": "unowned", "text": "nobody serves it", "seq": 9}]
OUTCOMES = {200, 400, 401, 404, 405, 503}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Guard:
    """An agent's server in front of a journal with one owned namespace; `/healthz` is open."""
    journal, session = Journal(), Session("a:1", 1, "na", 1)
    info = {"data_address": "a:10", "lookup_url": "http://a:1"}
    journal.add(Kind.REGISTERED, broker="a:1", session=str(session), data={"info": info})
    journal.namespace()
    service = LookupService(lambda: journal.state, Signal(), lambda bundle: None, wait_ms=0, metrics=AgentMetrics())
    tokens = tmp_path_factory.mktemp("secret") / "token"
    tokens.write_text(TOKEN)
    access = HttpAccess(tokens=TokenFile(tokens))
    return Guard(make_app(CollectorRegistry(), list, service.routes()), access, ["/healthz"])


def request(
    app: Guard, path: str, query: bytes, headers: list[tuple[bytes, bytes]], method: str = "GET"
) -> tuple[int, Any]:
    """Status and document of one request, as a server hands it over."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path, "root_path": "",
             "raw_path": path.encode("utf-8", "replace"), "query_string": query, "headers": headers, "client": None,
             "server": ("127.0.0.1", 1)}  # fmt: skip
    with bounded(len(path) + len(query) + sum(map(len, sum(headers, ())))):
        asyncio.run(app(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(body) if body.startswith(b"{") else None


NAMES = (
    st.sampled_from([TOPIC, f"persistent://{NAMESPACE}/{TWINS[0]}", "persistent://no/such/topic", "t", "a" * LONG])
    | TEXTS
)
RAW = st.binary(max_size=30) | NAMES.map(lambda text: text.encode("utf-8", "surrogatepass"))
PARAMETERS = st.tuples(
    st.sampled_from([b"topic", b"at_least", b"x", b""]), RAW | st.integers(-9, 2**70).map(lambda n: str(n).encode())
)
QUERIES = st.lists(PARAMETERS, max_size=4).map(
    lambda pairs: b"&".join(key + b"=" + quote_from_bytes(value).encode() for key, value in pairs)
) | st.binary(max_size=60)
BEARERS = st.sampled_from(
    [b"Bearer " + TOKEN.encode()] * 3 + [b"", b"Bearer", b"Basic x", b"Bearer \xff\x00", b"Bearer " + b"x" * LONG]
)


@fuzzing(24, 9_000)
@given(QUERIES, BEARERS, st.sampled_from(["/lookup"] * 5 + ["/brokers", "/healthz", "/lookup/", "/\u2028", "//lookup"]))
def test_a_request_is_answered(app: Guard, query: bytes, bearer: bytes, path: str) -> None:
    status, document = request(app, path, query, [(b"authorization", bearer)] if bearer else [])
    assert status in OUTCOMES | {307}
    if document is not None and "text" in document:
        check_error(document["text"])
    if bearer != b"Bearer " + TOKEN.encode() and path != "/healthz":
        assert status == 401


@pytest.mark.parametrize(
    "topic", ["x" * LONG, f"{TOPIC}\n", f"persistent://{'n' * LONG}/n/t", f"persistent://{NAMESPACE}/\x1b[2J", "\u202e"]
)
def test_a_name_that_is_none_is_refused_in_one_short_line(app: Guard, topic: str) -> None:
    query = b"topic=" + quote_from_bytes(topic.encode()).encode()
    status, document = request(app, "/lookup", query, [(b"authorization", b"Bearer " + TOKEN.encode())])
    assert status in (400, 404)
    check_error(document["text"])


class Liar:
    """An agent that answers whatever the test says."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.body, self.status, self.headers = b"", 200, b""
        self._server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._lookup = Lookup([self.url])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n" % (
            self.status,
            len(self.body),
            self.headers,
        )
        writer.write(head + self.body)
        await writer.drain()
        writer.close()

    def ask(self) -> Any:
        """What a client finds with one question."""
        return self.loop.run_until_complete(self._lookup._ask(TOPIC, 0))

    def ask_by_command(self) -> dict[str, Any]:
        """As `ballast lookup`."""

        async def in_thread() -> dict[str, Any]:
            return await asyncio.to_thread(ask, [self.url], TOPIC, 30.0)

        return self.loop.run_until_complete(in_thread())

    def close(self) -> None:
        self._server.close()
        self.loop.run_until_complete(self._lookup.close())
        self.loop.run_until_complete(self._server.wait_closed())
        self.loop.close()


@pytest.fixture(scope="module")
def liar() -> Iterator[Liar]:
    made = Liar()
    yield made
    made.close()


def check_client(liar: Liar) -> None:
    """It has an address that it can use, or asks again after a while; the command tells in one line."""
    with bounded(len(liar.body)):
        found, wait_s = liar.ask()
    assert wait_s is None or 0 < wait_s <= 1
    if found is not None:
        assert found.broker.isprintable()
        assert found.address.isprintable()
        assert 0 <= found.seq < 2**53
        assert 0 <= found.partitions <= MAX_PARTITIONS
    with bounded(len(liar.body)):
        try:
            told = liar.ask_by_command()
        except LookupFailed as error:
            check_error(error)
        else:
            assert json.dumps(told)


@fuzzing(5, 800)
@given(
    records(ANSWERS),
    st.sampled_from([200, 200, 200, 503, 401, 404, 500]),
    st.sampled_from([b"", b"nan", b"-1", b"inf", b"1e9", b"x", b"0.1"]),
)
def test_a_client_goes_on_whatever_is_answered(liar: Liar, body: bytes, status: int, again: bytes) -> None:
    liar.body, liar.status = body, status
    liar.headers = b"Retry-After: %s\r\n" % again if again else b""
    check_client(liar)


@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize(
    "body",
    [b"[" * DEEP, b'{"broker":"a","address":"b","seq":1e999}', b'{"broker":"a","address":"b","seq":"\xc2\xb2"}',
    b"[1]", b'{"a":',
     b'{"broker":"a","address":"b","seq":1,"partitions":1e9}', b'{"broker":"a","address":"b","seq":1,"partitions":[2]}',
    b'{"broker":"a","address":"b\\u001b","seq":1}', b'{"text":"' + b"x" * LONG + b'"}', b'{"text":"\\u001b[2J"}',
     b"\xff"],
    ids=range(11),
)  # fmt: skip
def test_an_answer_that_ended_the_client(liar: Liar, body: bytes, status: int) -> None:
    """Nesting and infinity are no ValueError."""
    liar.body, liar.status, liar.headers = body, status, b""
    check_client(liar)
