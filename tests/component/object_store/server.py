"""`python -m tests.component.object_store.server`: moto's S3 server behind a gate, in a process of its own.

The gate holds a lock for each key, which moto itself does not, makes faults, and counts what moto takes. moto looks
whether an object exists and then stores it, so two conditional puts at once may both succeed; S3 promises that one of
them does. In the process of the clients the server could not answer while delta-rs waits with Python's lock held.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "lake"
CONTROL, SERVED = "/_gate", "/_served"
SERVICE_UNAVAILABLE = "503 Slow Down"
Environment = dict[str, Any]


@dataclass
class Faults:
    """What happens to requests of this method whose path has this part; empty: of all.

    `ignore_conditions`: the server knows no `If-None-Match`. `refuse`: so many are answered 503 without being carried
    out. `lose`: so many are carried out and answered 503. `delay_s`: before each answer.
    """

    method: str = ""
    part: str = ""
    ignore_conditions: bool = False
    refuse: int = 0
    lose: int = 0
    delay_s: float = 0.0


class Gate:
    """The application: its faults are read and set at `CONTROL`."""

    def __init__(self) -> None:
        self._faults = Faults()
        self._app = DomainDispatcherApplication(create_backend_app)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._requests, self._busy_s = 0, 0.0  # answered by moto, and how long it took

    def __call__(self, environment: Environment, start_response: Any) -> Iterable[bytes]:
        """One request."""
        method, path, faults = environment["REQUEST_METHOD"], environment["PATH_INFO"], self._faults
        if path == CONTROL:
            return self._control(environment, start_response)
        if path == SERVED:
            return _answer(start_response, {"requests": self._requests, "busy_s": self._busy_s})
        counts = faults.method in ("", method) and faults.part in path
        if counts and faults.refuse > 0:
            faults.refuse -= 1
            return _refuse(start_response)
        if faults.ignore_conditions:
            environment.pop("HTTP_IF_NONE_MATCH", None)
        answers: list[tuple[Any, ...]] = []
        began_s = time.perf_counter()
        with self._locks[path]:
            body = list(self._app(environment, lambda *answer: answers.append(answer)))
        self._requests += 1
        self._busy_s += time.perf_counter() - began_s
        if counts:
            time.sleep(faults.delay_s)
            if faults.lose > 0:
                faults.lose -= 1
                return _refuse(start_response)
        start_response(*answers[-1])
        return body

    def _control(self, environment: Environment, start_response: Any) -> Iterable[bytes]:
        if environment["REQUEST_METHOD"] == "PUT":
            self._faults = Faults(**json.loads(environment["wsgi.input"].read(int(environment["CONTENT_LENGTH"]))))
        return _answer(start_response, asdict(self._faults))


def _answer(start_response: Any, document: Environment) -> Iterable[bytes]:
    body = json.dumps(document).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def _refuse(start_response: Any) -> Iterable[bytes]:
    start_response(SERVICE_UNAVAILABLE, [("Content-Length", "0")])
    return [b""]


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, Gate(), threaded=True, request_handler=MotoRequestHandler)
    print(f"port {server.server_port}", flush=True)
    server.serve_forever()
