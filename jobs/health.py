"""`/healthz` and `/metrics` of the controller job, on a port of their own.

Healthy means: no query has failed, and the control query has finished a batch lately. The controller's own tick
brings a batch at least every few hundred milliseconds, so a long silence means that Kafka, Spark or the disk hangs.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

Check = Callable[[], Mapping[str, Any]]


class HealthServer:
    """Serves until `stop`. `check` returns at least `{"ok": bool}`; it is called for each request."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry, check: Check) -> None:
        """Port 0 takes a free one; raises OSError when the port is taken."""
        self._server = ThreadingHTTPServer((host, port), _handler(registry, check))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def url(self) -> str:
        """Where it listens, such as `http://127.0.0.1:40123`."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """End the server and its thread."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


def control_health(failure: BaseException | None, since_batch_ms: int, seq: int, allowed_ms: int) -> dict[str, Any]:
    """The control query's part of `/healthz`."""
    return {
        "ok": failure is None and since_batch_ms <= allowed_ms,
        "seq": seq,
        "since_batch_ms": since_batch_ms,
        "failure": str(failure) if failure is not None else None,
    }


def _handler(registry: CollectorRegistry, check: Check) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
            elif self.path == "/healthz":
                health = check()
                status = 200 if health.get("ok") else 503
                self._answer(status, json.dumps(health).encode() + b"\n", "application/json")
            else:
                self._answer(404, b"paths: /healthz /metrics\n", "text/plain")

        def _answer(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """A scrape every few seconds is no news."""

    return Handler
