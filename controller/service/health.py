"""Serves `/healthz` and `/metrics` of the controller job, in a thread with an event loop of its own.

The job is healthy if no query has failed and the control query has finished a batch recently. The controller's own tick
causes a batch every few hundred milliseconds, so a long silence means that Kafka, Spark or the disk hangs.
"""

from __future__ import annotations

import asyncio
import threading

from prometheus_client import CollectorRegistry

from controller.process.access.access import NO_ACCESS_RULES, HttpAccess
from controller.process.http import Health, HttpServer, make_app
from controller.process.metrics import count_refusals


class HealthServer:
    """Listens from construction on, serves from `start` to `stop`."""

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, health: Health, access: HttpAccess = NO_ACCESS_RULES
    ) -> None:
        """Port 0 takes a free one. `health` lists troubles. Raises ConfigError when it cannot listen on the address."""
        self._server = HttpServer(host, port, access)
        self._app = make_app(registry, health)
        self._on_refused = count_refusals(registry)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    @property
    def url(self) -> str:
        """The address it listens on."""
        return self._server.url

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Finish open requests and end the thread."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(timeout_s)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._server.start, self._app, self._on_refused)
        self._loop.run_forever()
        self._loop.close()
