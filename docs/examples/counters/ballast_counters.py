"""Counters over HTTP: a sharded service. Each key is served by one process at a time; Ballast decides by which.

Keys are topics of the namespace app/counters, its bundles are the shards. One SQLite file holds values and fences.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from controller.agent.agent import Agent
from controller.brokers.runtime import BundleStats, Directory, LoadSample, Where
from controller.cli.run.agent_wiring import agent_connections, leave_on_signals, options_of
from controller.config.load import load_settings
from controller.domain.errors import BallastError, Fenced
from controller.domain.ids import RING_END, Bundle, topic_hash
from controller.domain.state import JOURNAL
from controller.process.http import HttpServer, make_app

NAMESPACE = "app/counters"
CAPACITY = 1_000.0  # requests a second that one process can do


class Store:
    """The values. Invariant: nothing is written at an epoch below a fence over the key."""

    def __init__(self, file: Path) -> None:
        self._db = sqlite3.connect(file, timeout=1.0, isolation_level=None)
        self._db.execute("CREATE TABLE IF NOT EXISTS fences (lower, upper, epoch, PRIMARY KEY (lower, upper))")
        self._db.execute("CREATE TABLE IF NOT EXISTS counters (key TEXT PRIMARY KEY, value)")

    def fence(self, bundle: Bundle, epoch: int) -> None:
        """Exclude every writer below the epoch. Raises Fenced if a higher one was here."""
        end = bundle.upper + (bundle.upper == RING_END)  # the last bundle holds its upper end
        with self._unless_fenced(bundle.lower, end, epoch):
            self._db.execute("INSERT OR REPLACE INTO fences VALUES (?, ?, ?)", (bundle.lower, end, epoch))

    def count(self, key: str, hash_: int, epoch: int) -> int:
        """Add one; the new value. Raises Fenced for a former owner."""
        with self._unless_fenced(hash_, hash_ + 1, epoch):
            add = "INSERT INTO counters VALUES (?, 1) ON CONFLICT DO UPDATE SET value = value + 1 RETURNING value"
            return int(self._db.execute(add, (key,)).fetchone()[0])

    @contextmanager
    def _unless_fenced(self, lower: int, end: int, epoch: int) -> Iterator[None]:
        with self._db:  # commits at the end, or undoes
            self._db.execute("BEGIN IMMEDIATE")
            above = "SELECT max(epoch) FROM fences WHERE lower < ? AND ? < upper"
            (fence,) = self._db.execute(above, (end, lower)).fetchone()
            if (fence or 0) > epoch:
                raise Fenced(f"fenced at epoch {fence}, this owner has {epoch}")
            yield


class Counters:
    """What the agent drives (`BrokerRuntime`): the shards that this process serves, with their epochs."""

    kind, authority, can_fence, version = "counters", JOURNAL, True, "1.0"

    def __init__(self, store: Store, address: str, may_serve: Callable[[], bool]) -> None:
        self.data_address, self._store, self._may_serve = address, store, may_serve
        self._served: dict[Bundle, int] = {}
        self._counted: Counter[Bundle] = Counter()
        self._sampled_s = time.monotonic()

    async def start(self, directory: Directory) -> None: ...
    async def hold(self, bundle: Bundle) -> None: ...  # clients ask again until it is served
    async def reopen(self, topic: str) -> None: ...
    async def stop(self) -> None: ...  # the agent has dropped every shard before

    def refuses(self, bundle: Bundle) -> str | None:
        return None if bundle.namespace == NAMESPACE else "not_of_this_service"

    async def fence(self, bundle: Bundle, epoch: int) -> None:
        self._store.fence(bundle, epoch)

    async def serve(self, bundle: Bundle, epoch: int) -> None:
        self._store.fence(bundle, epoch)
        self._served[bundle] = epoch

    async def release(self, bundle: Bundle, next_owner: Where | None) -> None:
        self._served.pop(bundle, None)  # nothing is pending: a request is answered after its transaction

    async def drop(self, bundle: Bundle) -> None:
        self._served.pop(bundle, None)

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        for child, epoch in children.items():
            await self.serve(child, epoch)
        self._served.pop(parent, None)

    def serving(self) -> dict[Bundle, int]:
        return dict(self._served)

    def sample(self) -> LoadSample:
        now_s, counted = time.monotonic(), self._counted
        rates = {bundle: counted[bundle] / max(now_s - self._sampled_s, 0.001) for bundle in self._served}
        self._sampled_s, self._counted = now_s, Counter()
        cpu = (100 * sum(rates.values()) / CAPACITY, 100.0)  # used, of so much
        return LoadSample({"cpu": cpu}, {bundle: BundleStats(msg_rate_in=rate) for bundle, rate in rates.items()})

    async def count(self, request: Request) -> Response:
        """`POST /count?key=…`: 200 with the value; 421 if another process serves the key, which `/lookup` tells."""
        key = request.query_params.get("key", "")
        hash_ = topic_hash(f"persistent://{NAMESPACE}/{key}")
        bundle = next((bundle for bundle in self._served if bundle.contains(hash_)), None)
        try:
            if bundle is None or not self._may_serve():
                raise Fenced("not served here")
            self._counted[bundle] += 1
            return JSONResponse({"key": key, "value": self._store.count(key, hash_, self._served[bundle])})
        except Fenced as error:
            return JSONResponse({"error": str(error)}, 421)


async def run(name: str, conf: Path, file: Path) -> int:
    settings = load_settings(conf)
    http = HttpServer(settings.agent.bind_host, settings.http.agent_port)
    service = Counters(Store(file), f"{http.host}:{http.port}", lambda: agent.may_serve())
    async with agent_connections(settings, name, settings.control.lease_ms) as connections:
        agent = Agent(name, secrets.token_hex(8), service, connections, options_of(settings), lookup_url=http.url)
        own = Route("/count", service.count, methods=["POST"])
        http.start(make_app(agent.metrics.registry, agent.health, [*agent.routes(), own]))
        leave_on_signals(agent)
        try:
            ending = await agent.run()
        finally:
            await http.stop()
    print(f"{name}: {ending.text}")
    return ending.code


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit("usage: python ballast_counters.py c1 ballast.yaml counters.sqlite")
    try:
        raise SystemExit(asyncio.run(run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
    except (BallastError, OSError, sqlite3.Error) as error:
        raise SystemExit(f"ballast_counters.py: {error}") from None
