"""`python -m tests.component.object_store.server`: moto's S3 server behind a gate, in a process of its own, and the
metadata service of a machine with a role.

The gate holds a lock for each key, which moto itself does not, makes faults, and counts what moto takes. moto looks
whether an object exists and then stores it, so two conditional puts at once may both succeed; S3 promises that one of
them does. In the process of the clients the server could not answer while delta-rs waits with Python's lock held.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tests.component.object_store.machine_role import SESSION, TOKEN_LASTS, answer_of_machine

BUCKET = "lake"
CONTROL, SERVED, METADATA = "/_gate", "/_served", "/latest/"
SERVICE_UNAVAILABLE = "503 Slow Down"
Environment = dict[str, Any]
_CREDENTIAL = re.compile(r"Credential=([^/]+)/")
_LISTED = re.compile(rb"<Contents>\s*<Key>([^<]*)</Key>.*?</Contents>", re.DOTALL)


@dataclass
class Faults:
    """What happens to requests of this method whose path has this part; empty: of all.

    `ignore_conditions`: the server knows no `If-None-Match`. `refuse`: so many are answered 503 without being carried
    out. `lose`: so many are carried out and answered 503. `delay_s`: before each answer. `stale`: all listings
    lack the objects that are new since this was set.
    """

    method: str = ""
    part: str = ""
    ignore_conditions: bool = False
    refuse: int = 0
    lose: int = 0
    delay_s: float = 0.0
    stale: bool = False


class Served:
    """What moto has answered. `busy_s`: while it had at least one request, however many at once; those that wait for
    the lock of their key do not count."""

    def __init__(self) -> None:
        self.written: list[str] = []  # paths of objects, in order
        self.access_keys: Counter[str] = Counter()  # requests by the key that signed them
        self._lock = threading.Lock()
        self._requests, self._now, self._busy_s, self._since_s = 0, 0, 0.0, 0.0

    def count(self, environment: Environment, status: str) -> None:
        """A request that moto has answered."""
        with self._lock:
            self._requests += 1
            if found := _CREDENTIAL.search(environment.get("HTTP_AUTHORIZATION", "")):
                self.access_keys[found[1]] += 1
            if environment["REQUEST_METHOD"] == "PUT" and status.startswith("2"):
                self.written.append(environment["PATH_INFO"])

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Meanwhile moto has a request."""
        with self._lock:
            if self._now == 0:
                self._since_s = time.perf_counter()
            self._now += 1
        try:
            yield
        finally:
            with self._lock:
                self._now -= 1
                if self._now == 0:
                    self._busy_s += time.perf_counter() - self._since_s

    def document(self) -> Environment:
        """As JSON takes it."""
        with self._lock:
            return {
                "requests": self._requests,
                "busy_s": self._busy_s,
                "written": list(self.written),
                "access_keys": self.access_keys,
            }


class Gate:
    """The application: its faults are read and set at `CONTROL`."""

    def __init__(self) -> None:
        self._faults = Faults()
        self._app = DomainDispatcherApplication(create_backend_app)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._served = Served()
        self._stale_from = 0  # objects written before are in every listing

    def __call__(self, environment: Environment, start_response: Any) -> Iterable[bytes]:
        """One request."""
        method, path, faults = environment["REQUEST_METHOD"], environment["PATH_INFO"], self._faults
        if path == CONTROL:
            return self._control(environment, start_response)
        if path == SERVED:
            return _answer(start_response, self._served.document())
        if path.startswith(METADATA):
            return _send(start_response, *answer_of_machine(method, path, environment.get(SESSION, "")))
        counts = faults.method in ("", method) and faults.part in path
        if counts and faults.refuse > 0:
            faults.refuse -= 1
            return _refuse(start_response)
        if faults.ignore_conditions:
            environment.pop("HTTP_IF_NONE_MATCH", None)
        answers: list[tuple[Any, ...]] = []
        with self._locks[path], self._served.busy():
            body = list(self._app(environment, lambda *answer: answers.append(answer)))
        self._served.count(environment, answers[-1][0])
        if faults.stale and method == "GET" and "list-type=2" in environment["QUERY_STRING"]:
            return _send(start_response, self._without_newest(b"".join(body)))
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
            self._stale_from = len(self._served.written)
        return _answer(start_response, asdict(self._faults))

    def _without_newest(self, listing: bytes) -> bytes:
        written = self._served.written
        hidden = set(written[self._stale_from :]) - set(written[: self._stale_from])
        return _LISTED.sub(lambda found: b"" if f"/{BUCKET}/{found[1].decode()}" in hidden else found[0], listing)


def _answer(start_response: Any, document: Environment) -> Iterable[bytes]:
    return _send(start_response, json.dumps(document).encode())


def _send(start_response: Any, body: bytes, status: str = "200 OK") -> Iterable[bytes]:
    start_response(status, [("Content-Length", str(len(body))), *TOKEN_LASTS])
    return [body]


def _refuse(start_response: Any) -> Iterable[bytes]:
    start_response(SERVICE_UNAVAILABLE, [("Content-Length", "0")])
    return [b""]


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, Gate(), threaded=True, request_handler=MotoRequestHandler)
    print(f"port {server.server_port}", flush=True)
    server.serve_forever()
