"""Serves `/healthz` and `/metrics` of the controller job, in a thread with an event loop of its own.

The job is healthy if no query has failed and the control query has finished a batch recently. The controller's own tick
causes a batch every few hundred milliseconds, so a long silence means that Kafka, Spark or the disk hangs.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial

from prometheus_client import CollectorRegistry

from controller.domain.errors import ConfigError, PortTaken
from controller.process.access.access import NO_ACCESS_RULES, HttpAccess
from controller.process.http import Health, HttpServer, make_app
from controller.process.metrics import count_refusals

log = logging.getLogger(__name__)


class HealthServer:
    """Listens from construction on, serves from `start` to `stop`.

    With `wait` the port may be taken, as by the controller that is replaced: then it listens once `listen` finds it
    free.
    """

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        health: Health,
        access: HttpAccess = NO_ACCESS_RULES,
        wait: bool = False,
    ) -> None:
        """Port 0 takes a free one. `health` lists troubles. Raises ConfigError when it cannot listen on the address."""
        self._listen = partial(HttpServer, host, port, access)
        self._server: HttpServer | None = None
        self._given_up = False
        try:
            self._server = self._listen()
        except PortTaken as error:
            if not wait:
                raise
            log.warning("no health and metrics until the port is free: %s", error)
        self._app = make_app(registry, health)
        self._on_refused = count_refusals(registry)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    @property
    def url(self) -> str:
        """The address it listens on; empty while its port is taken."""
        return self._server.url if self._server is not None else ""

    def start(self) -> None:
        """Start serving, if it listens."""
        if self._server is not None:
            self._thread.start()

    def listen(self) -> None:
        """Listen and serve if the port was taken and is free now. Whatever else hinders it, the job goes on."""
        if self._server is None and not self._given_up:
            try:
                self._server = self._listen()
            except PortTaken:
                return
            except ConfigError as error:
                self._given_up = True
                log.error("no health and metrics until the next start: %s", error)
                return
            self._thread.start()
            log.info("health and metrics at %s", self.url)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Finish open requests and end the thread."""
        if self._server is not None and self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(timeout_s)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        assert self._server is not None
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._server.start, self._app, self._on_refused)
        self._loop.run_forever()
        self._loop.close()
