"""The HTTP server of a process: a Starlette application with /healthz and /metrics, in the running event loop.

`health` is called for every request: an empty list means healthy (200), otherwise the answer lists the troubles (503).
The server itself enforces its `HttpAccess`, for every route.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from controller.domain.errors import ConfigError, PortTaken
from controller.process.access.access import NO_ACCESS_RULES, HttpAccess, check_exposure, url_of
from controller.process.access.endpoints import HEALTH, METRICS, PATHS
from controller.process.access.guard import CERTIFIED, Guard
from controller.process.access.renewal import keep_renewed, renewal_of_server
from controller.process.access.tokens import warn_if_shared
from controller.process.metrics import CONTENT_TYPE, exposition

log = logging.getLogger(__name__)

Health = Callable[[], Sequence[str]]


def make_app(registry: CollectorRegistry, health: Health, routes: Sequence[BaseRoute] = ()) -> Starlette:
    """An application with the two endpoints of every process, and the given routes."""

    async def healthz(request: Request) -> Response:
        troubles = list(health())
        return JSONResponse({"ok": not troubles, "troubles": troubles}, 503 if troubles else 200)

    async def metrics(request: Request) -> Response:
        return Response(exposition(registry), media_type=CONTENT_TYPE)

    app = Starlette(routes=[Route(PATHS[HEALTH], healthz), Route(PATHS[METRICS], metrics), *routes])
    app.router.redirect_slashes = False  # it takes every query for UTF-8, and nobody types these addresses
    return app


def listen(host: str, port: int) -> socket.socket:
    """A listening socket with the protocol set to TCP. `socket.create_server` leaves it at 0, and asyncio then leaves
    Nagle's algorithm on for accepted connections: each answer took 40 ms (measured: 22 lookups/s per client)."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    family, kind, proto, _, address = found[0]
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


class _Server(uvicorn.Server):
    """uvicorn without signal handlers, since the process has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Protocol(AutoHTTPProtocol):  # type: ignore[valid-type,misc]  # one of two classes, by what is installed
    """Notes for each connection whether its client showed a certificate, which ASGI has no word for."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self.app_state: dict[str, Any] = {**self.app_state, CERTIFIED: bool(tls is not None and tls.getpeercert())}


class HttpServer:
    """Listens from construction on, and answers from `start` on."""

    def __init__(self, host: str, port: int = 0, access: HttpAccess = NO_ACCESS_RULES) -> None:
        """Port 0 takes a free one. Raises ConfigError when it cannot listen on the address, must not with this access,
        or cannot use a TLS file; PortTaken if another process listens there."""
        check_exposure(access, host, f"listening on {host}:{port}")
        self._tls = access.tls.server_context(certificate_optional=bool(access.open)) if access.tls.serves else None
        try:
            self._socket = listen(host, port)
        except OSError as error:
            kind = PortTaken if error.errno == errno.EADDRINUSE else ConfigError
            raise kind(f"cannot listen on {host}:{port}: {error}; set another port, or 0 for a free one") from None
        self.host, self.port, self._access = host, int(self._socket.getsockname()[1]), access
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address it listens on."""
        return url_of(self._access, self.host, self.port)

    def start(self, app: ASGIApp, on_refused: Callable[[str], None] = lambda error: None) -> None:
        """Start serving the application in the running loop; returns at once. `on_refused`: see `Guard`."""
        self._warn_if_shared()
        guarded = Guard(app, self._access, [PATHS[name] for name in self._access.open], on_refused)
        config = uvicorn.Config(
            guarded,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            http=_Protocol,
            ws="none",
        )
        config.load()
        config.ssl = self._tls  # not by uvicorn's options: its errors name no file, and a key with a passphrase hangs
        self._server = _Server(config)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._server.serve(sockets=[self._socket]))
        if self._tls is not None:
            self._renewing = loop.create_task(keep_renewed(renewal_of_server(self._tls, self._access.tls)))

    def _warn_if_shared(self) -> None:
        if self._access.tokens is not None:
            self._access.tokens.warn_if_shared()
        if self._access.tls.key is not None:
            warn_if_shared(Path(self._access.tls.key), f"http.tls_key = {self._access.tls.key}")

    async def stop(self) -> None:
        """Finish open requests, for at most 2 s, and close."""
        if self._renewing is not None:
            self._renewing.cancel()
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
        self._socket.close()
