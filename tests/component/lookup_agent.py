"""An agent's HTTP endpoints on a state, in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from controller.agent.lookup import LookupService
from controller.agent.metrics import AgentMetrics
from controller.agent.signal import Signal
from controller.domain.state import ClusterState
from controller.process.access.access import NO_ACCESS_RULES, HttpAccess
from controller.process.http import HttpServer, make_app
from controller.process.metrics import count_refusals, new_registry


@contextmanager
def lookup_agent(state: Callable[[], ClusterState], access: HttpAccess = NO_ACCESS_RULES) -> Iterator[str]:
    """The address of the endpoints: lookups, health, metrics."""
    ready, stopped = threading.Event(), threading.Event()
    urls: list[str] = []

    async def serve() -> None:
        registry = new_registry(process=False)
        service = LookupService(state, Signal(), lambda bundle: None, 50, AgentMetrics(registry))
        server = HttpServer("127.0.0.1", access=access)
        server.start(make_app(registry, list, service.routes()), count_refusals(registry))
        urls.append(server.url)
        ready.set()
        while not stopped.is_set():
            await asyncio.sleep(0.02)
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        yield urls[0]
    finally:
        stopped.set()
        thread.join(10)
