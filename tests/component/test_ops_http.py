"""Health, metrics and logs of a process."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket

import httpx
import pytest
import structlog
from prometheus_client import Counter

from controller.domain.errors import ConfigError
from controller.process.http import HttpServer, make_app
from controller.process.logs import configure_logs
from controller.process.metrics import new_registry


def _ask(troubles: list[str], path: str) -> httpx.Response:
    async def scenario() -> httpx.Response:
        registry = new_registry()
        Counter("things", "Counted", registry=registry).inc(3)
        http = HttpServer("127.0.0.1")
        http.start(make_app(registry, lambda: troubles))
        try:
            async with httpx.AsyncClient(trust_env=False) as client:
                return await client.get(http.url + path)
        finally:
            await http.stop()

    return asyncio.run(scenario())


def test_healthy_and_unhealthy_answers() -> None:
    assert _ask([], "/healthz").status_code == 200
    bad = _ask(["the lease has expired"], "/healthz")
    assert (bad.status_code, bad.json()) == (503, {"ok": False, "troubles": ["the lease has expired"]})


@pytest.mark.covers("metrics")
def test_metrics_are_prometheus_text_with_the_process_figures() -> None:
    text = _ask([], "/metrics").text
    assert "things_total 3.0" in text
    assert "process_resident_memory_bytes" in text


def test_taken_port_is_a_configuration_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            HttpServer("127.0.0.1", port)


def test_accepted_connections_do_not_wait_for_company() -> None:
    """Nagle's algorithm costs 40 ms an answer; asyncio switches it off only on sockets that say they are TCP."""

    async def scenario() -> int:
        http = HttpServer("127.0.0.1")
        found: list[int] = []

        class Look(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted = transport.get_extra_info("socket")
                found.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                transport.close()

        server = await asyncio.get_running_loop().create_server(Look, sock=http._socket)
        reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
        await reader.read()
        writer.close()
        server.close()
        return found[0]

    assert asyncio.run(scenario()) != 0


def test_each_log_line_is_one_json_object_with_what_is_bound() -> None:
    stream = io.StringIO()
    configure_logs("info", True, stream, broker="b:1")
    structlog.get_logger("one").info("served", bundle="t/n/x", epoch=3)
    logging.getLogger("two").warning("late by %d ms", 7)
    logging.getLogger("two").debug("not worth a line")
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("three").exception("failed")
    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert first["event"] == "served"
    assert (first["bundle"], first["epoch"], first["broker"], first["level"]) == ("t/n/x", 3, "b:1", "info")
    assert (second["event"], second["logger"], second["broker"]) == ("late by 7 ms", "two", "b:1")
    assert third["exception"][0]["exc_type"] == "ValueError"
    assert "time" in third


def test_text_for_a_terminal() -> None:
    stream = io.StringIO()
    configure_logs("warning", False, stream)
    structlog.get_logger("one").info("quiet")
    structlog.get_logger("one").warning("loud", n=1)
    assert "loud" in stream.getvalue()
    assert "quiet" not in stream.getvalue()
