"""What a browser sends to the operators' page: bodies of commands, and numbers and bytes in addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from controller.config.settings import Settings
from controller.domain.errors import BadRecord
from controller.operations.operator import Outcome
from controller.ui.actions import ACTIONS, LONGEST_VALUE, act
from controller.ui.documents import get_rounds
from controller.ui.security import Gate, Rules
from controller.ui.server import MOST_BODY_BYTES, read_body
from tests.fuzz.hostile import records
from tests.fuzz.limits import bounded, check_error, fuzzing

BODIES = [
    {
        "kind": "override",
        "why": "it is hot",
        "args": {"override": "pin", "bundle": "t/n/0x0_0x1", "broker": "a:1", "until_ms": 5},
    },
    {"kind": "mode", "why": "maintenance", "args": {"mode": "paused"}},
    {"kind": "round_now", "why": "now please"},
    {"token": "secret"},
]


def request_of(body: bytes, query: bytes = b"", pieces: int = 3) -> Request:
    """A request whose body comes in several pieces."""
    size = len(body) // pieces + 1
    parts = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages[-1]["more_body"] = False

    async def receive() -> Any:
        return messages.pop(0)

    headers = [(b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/act",
        "headers": headers,
        "query_string": query,
        "path_params": {},
    }
    return Request(scope, receive)


@fuzzing(24, 12_000)
@given(records(BODIES))
def test_a_command_is_sent_or_refused(raw: bytes) -> None:
    sent: list[tuple[str, Mapping[str, Any], str]] = []

    def send(settings: Settings, kind: str, why: str, timeout_s: float, args: Mapping[str, Any], who: str) -> Outcome:
        sent.append((kind, args, why))
        return Outcome("c1", True, "", 7)

    with bounded(len(raw)):
        try:
            act(Settings(), "anna", asyncio.run(read_body(request_of(raw))), send)
        except BadRecord as error:
            check_error(error)
            assert sent == []
    for kind, args, why in sent:
        required, optional = ACTIONS[kind]
        assert set(required) <= set(args) <= {*required, *optional}
        assert all(len(str(value)) <= LONGEST_VALUE for value in args.values())
        assert why == " ".join(why.split())


@pytest.mark.parametrize("body", [b"[" * 9_000, b"9" * 9_000, b'{"kind":"\\ud800"}', b"\xff",
b"{" + b" " * MOST_BODY_BYTES, b'{"kind":1e999}',
                                  b'{"kind":"mode","why":"abc","args":{"' + b"\\u001b" * 999 + b'":1}}'],
                                  ids=range(7))  # fmt: skip
def test_a_body_that_was_an_error_of_the_page_is_one_of_the_sender(body: bytes) -> None:
    with pytest.raises(BadRecord) as refused:
        act(Settings(), "anna", asyncio.run(read_body(request_of(body))))
    check_error(refused.value)


@pytest.mark.parametrize("before", ["\u00b2", "\u0663", "-1", "1" * 17, "1e9"])
def test_a_time_in_other_digits_is_none(before: str) -> None:
    with pytest.raises(BadRecord) as refused:
        get_rounds(None, request_of(b"", f"before={before}".encode()))  # type: ignore[arg-type]
    check_error(refused.value)


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """The application behind the gate."""
    await JSONResponse({})(scope, receive, send)


HEADERS = st.lists(
    st.tuples(
        st.sampled_from([b"host", b"origin", b"cookie", b"authorization", b"sec-fetch-site", b"x"]),
        st.binary(max_size=40),
    ),
    max_size=5,
)


@fuzzing(16, 20_000)
@given(HEADERS, st.binary(max_size=20), st.sampled_from(["GET", "POST", "HEAD", "DELETE"]), st.text(max_size=12))
def test_the_gate_answers_every_request(
    headers: list[tuple[bytes, bytes]], query: bytes, method: str, path: str
) -> None:
    gate = Gate(answer, Rules(frozenset({"localhost"}), None, None, False, False))
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {
        "type": "http",
        "method": method,
        "path": f"/{path}",
        "headers": headers,
        "query_string": query,
        "scheme": "http",
    }
    with bounded(len(query) + len(path) + sum(map(len, sum(headers, ())))):
        asyncio.run(gate(scope, receive, send))
    assert sent[0]["status"] in (200, 400, 401, 403, 421)
