"""The application of the page, and its process: routes, start, end.

The front end is the same few static files at every address of a view; what it shows comes from `/api/`. Documents are
made in threads, once per version for all users (`shared.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltalake.exceptions import DeltaError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import controller
from controller.config.http_access import http_access
from controller.config.settings import Settings
from controller.domain.errors import BadRecord, BallastError, ConfigError, describe_error
from controller.domain.strict_json import parse_strictly
from controller.operations.reading import NoTables, NothingNamed
from controller.process.access.access import HttpAccess, check_exposure
from controller.process.access.loopback import is_loopback
from controller.process.access.named_tokens import NamedTokens
from controller.process.clock import wall_ms
from controller.process.http import HttpServer
from controller.ui.actions import NoName, act
from controller.ui.documents import (
    get_broker,
    get_bundle,
    get_bundle_load,
    get_decision,
    get_map,
    get_now,
    get_plan,
    get_pulsar,
    get_realised,
    get_round,
    get_rounds,
    get_search,
    get_what_if,
    strict,
)
from controller.ui.live import TooManyPages
from controller.ui.page import Page
from controller.ui.security import Gate, Rules, Who, bearer_of, hosts_of

STATIC = Path(__file__).parent / "static"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MOST_BODY_BYTES = 16_384
WRONG_TOKEN_S = 0.5  # a guess takes this long
FOLLOW_S, FOLLOW_AGAIN_S = 2.0, 0.05
ADDRESSES = ("/", "/now", "/broker/{rest:path}", "/bundle/{rest:path}", "/plan", "/rounds", "/round/{rest:path}",
             "/map", "/search", "/pulsar")  # fmt: skip
DOCUMENTS = {
    "/api/now": get_now,
    "/api/broker/{name}": get_broker,
    "/api/bundle/{name:path}": get_bundle,
    "/api/load/{name:path}": get_bundle_load,
    "/api/realised/{kind}/{name:path}": get_realised,
    "/api/plan": get_plan,
    "/api/rounds": get_rounds,
    "/api/round/{name}": get_round,
    "/api/round/{name}/as/{strategy}": get_what_if,
    "/api/decision/{name:path}": get_decision,
    "/api/map": get_map,
    "/api/search": get_search,
    "/api/pulsar": get_pulsar,
}


def make_page_app(page: Page) -> Gate:
    """The application behind its gate."""
    files = _read_static()
    index = files["index.html"]

    async def front(request: Request) -> Response:
        return _static_answer(request, *index)

    async def static(request: Request) -> Response:
        found = files.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return _static_answer(request, *found)

    routes = [
        Route("/healthz", _bound(page, _healthz)),
        Route("/api/session", _bound(page, _session), methods=["GET", "POST", "DELETE"]),
        Route("/api/live", _bound(page, _live)),
        Route("/api/act", _bound(page, _act), methods=["POST"]),
        *(Route(path, _bound(page, strict(endpoint))) for path, endpoint in DOCUMENTS.items()),
        Route("/static/{name:path}", static),
        *(Route(address, front) for address in ADDRESSES),
    ]
    handlers: dict[Any, Any] = {BallastError: _tell, DeltaError: _tell, OSError: _tell, HTTPException: _not_found}
    return Gate(Starlette(routes=routes, exception_handlers=handlers), page.rules)


def _bound(page: Page, endpoint: Callable[..., Any]) -> Callable[[Request], Any]:
    """An endpoint that gets the page: a coroutine runs in the loop, a function in a thread."""
    if inspect.iscoroutinefunction(endpoint):

        async def in_loop(request: Request) -> Response:
            answer: Response = await endpoint(page, request)
            return answer

        return in_loop

    def in_thread(request: Request) -> Response:
        answer: Response = endpoint(page, request)
        return answer

    return in_thread


# ------------------------------------------------------------ endpoints


def _healthz(page: Page, request: Request) -> Response:
    """Whether the tables can be read; what is wrong, and whose page this is, only to those who may read."""
    trouble = page.following.trouble
    known = {
        "troubles": [trouble] if trouble else [], "journal_id": page.cluster.journal_id, "tables": page.cluster.tables,
    }  # fmt: skip
    return JSONResponse({"ok": not trouble, **(known if request.state.who.reads else {})}, 503 if trouble else 200)


async def _session(page: Page, request: Request) -> Response:
    """Who one is; a log-in (POST, the token in the body); its end."""
    if request.method == "GET":
        return JSONResponse(_session_document(page, request.state.who))
    if request.method == "DELETE":
        page.rules.sessions.end(page.rules.secret_in(request.headers) or "")
        return JSONResponse({}, headers={"Set-Cookie": page.rules.session_cookie("")})
    token = (await read_body(request)).get("token")
    if not isinstance(token, str) or not page.rules.knows(token.strip()):
        return await _refuse_token()
    token = token.strip()
    cookie = page.rules.session_cookie(page.rules.sessions.begin(token))
    return JSONResponse(_session_document(page, page.rules.judge(token)), headers={"Set-Cookie": cookie})


async def _refuse_token() -> Response:
    await asyncio.sleep(WRONG_TOKEN_S)
    return JSONResponse({"error": "unknown_token", "text": "this token is nobody's here"}, 403)


def _session_document(page: Page, who: Who) -> dict[str, Any]:
    people = page.rules.people is not None
    known = {"name": who.name, "reads": who.reads, "can_log_in": people or page.rules.readers is not None,
             "can_act": people}  # fmt: skip
    told = {"version": controller.__version__, "cluster": page.settings.cluster.name} if who.reads else {}
    return {**known, **told, "now_ms": wall_ms()}


async def _live(page: Page, request: Request) -> Response:
    stream = page.hub.follow()
    try:
        first = await anext(stream)
    except TooManyPages as error:
        return JSONResponse({"error": "too_many_pages", "text": str(error)}, 503)

    async def events() -> Any:
        yield first
        async for event in stream:
            yield event

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _act(page: Page, request: Request) -> Response:
    """A command in the name of a person."""
    body, token = await read_body(request), bearer_of(request.headers)
    if token and not page.rules.knows(token):
        return await _refuse_token()
    try:
        answer = await run_in_threadpool(act, page.settings, request.state.who.name, body, page.send)
    except NoName as error:
        return JSONResponse({"error": "no_name", "text": str(error)}, 403)
    await _follow_up_to(page, answer["seq"])
    return JSONResponse(answer)


async def _follow_up_to(page: Page, seq: int) -> None:
    """Wait until the page shows what the journal has answered, or for FOLLOW_S: who acts reads it again at once."""
    until_s = time.monotonic() + FOLLOW_S
    while page.cluster.seq < seq and time.monotonic() < until_s and await run_in_threadpool(page.following.look):
        await asyncio.sleep(FOLLOW_AGAIN_S)


# ------------------------------------------------------------ helpers


async def read_body(request: Request) -> dict[str, Any]:
    """The JSON object in the body. Raises BadRecord."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY_BYTES:
            raise BadRecord("body", f"the body is larger than {MOST_BODY_BYTES} bytes")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadRecord("body", "the body must be application/json")
    try:
        found = parse_strictly(body, MOST_BODY_BYTES)
    except BadRecord as error:
        raise BadRecord("body", f"the body is no JSON: {error.text}") from None
    if not isinstance(found, dict):
        raise BadRecord("body", "the body must be a JSON object")
    return found


def _tell(request: Request, error: Exception) -> Response:
    """An expected error, as one sentence."""
    text = describe_error(error)
    if isinstance(error, BadRecord):
        return JSONResponse({"error": error.rule_id, "text": text}, 400)
    if isinstance(error, NothingNamed):
        return JSONResponse({"error": "nothing_named", "text": text}, 404)
    if isinstance(error, ConfigError):
        return JSONResponse({"error": "configuration", "text": text}, 400)
    return JSONResponse({"error": "no_tables" if isinstance(error, NoTables) else "unreadable", "text": text}, 503)


def _not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    text = f"{request.method} is not for this address" if status == 405 else "there is nothing at this address"
    return JSONResponse({"error": str(status), "text": text}, status)


def _read_static() -> dict[str, tuple[bytes, str, str]]:
    """Every static file: content, media type, tag."""
    found = {}
    for file in sorted(path for path in STATIC.rglob("*") if path.suffix in TYPES):
        content = file.read_bytes()
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        found[file.relative_to(STATIC).as_posix()] = content, TYPES[file.suffix], tag
    return found


def _static_answer(request: Request, content: bytes, media_type: str, tag: str) -> Response:
    headers = {"ETag": tag, "Content-Type": media_type}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers)


# ------------------------------------------------------------ the process


def page_rules(settings: Settings, host: str, token_file: Path | None) -> tuple[Rules, HttpAccess]:
    """Who may ask a page that listens on `host`, and what its server demands. Raises ConfigError where it must not.

    Tokens are judged by the gate, because a browser cannot show one when it opens a page; certificates by the server.
    """
    access = http_access(settings)
    people = NamedTokens(token_file, f"token file {token_file}") if token_file is not None else None
    if people is None:
        check_exposure(access, host, f"ui.bind_host = {host}")
    proven = access.demands_certificate or access.allow_unauthenticated
    must_log_in = access.tokens is not None or (people is not None and not proven and not is_loopback(host))
    rules = Rules(hosts_of(host, settings.ui.hosts), people, access.tokens, must_log_in, access.tls.serves)
    return rules, replace(access, tokens=None, open=frozenset(), allow_unauthenticated=True)


def serve(settings: Settings, host: str, port: int, token_file: Path | None, tell: Callable[[str], None]) -> None:
    """Serve the page until SIGINT or SIGTERM; `tell` gets its address. Raises ConfigError."""
    rules, access = page_rules(settings, host, token_file)
    server = HttpServer(host, port, access)
    page = Page(settings, replace(rules, port=server.port))
    asyncio.run(_serve(server, page, lambda: tell(f"{server.url}/")))


async def _serve(server: HttpServer, page: Page, tell: Callable[[], None]) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    server.start(make_page_app(page))
    page.start()
    tell()
    await ended.wait()
    page.stop()
    await server.stop()
