"""What the two client programs share: lookups, control lines on stdin, stop on SIGTERM, periodic flush of the log.

The token or certificate for lookups comes from section `http` of the configuration that `--conf` names, never from the
command line, which the process list shows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from controller.brokers.reference.client.lookup import Lookup
from controller.config.arguments import add_settings_arguments
from controller.config.http_access import http_access
from controller.config.load import load_settings
from controller.domain.errors import ConfigError, describe_error

FLUSH_EVERY_S = 0.2
log = structlog.get_logger()


def add_lookup_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--lookup`, and the options that choose the configuration."""
    parser.add_argument("--lookup", action="append", required=True, help="an agent's URL; repeat it")
    add_settings_arguments(parser)


def lookup_of(given: argparse.Namespace) -> Lookup:
    """Lookups as the command line and the configuration say. Raises ConfigError."""
    return Lookup(given.lookup, access=http_access(load_settings(given.conf, given.profile, given.set)))


def run_program(program: Coroutine[Any, Any, None]) -> None:
    """Run a client; bad configuration ends it with one line and code 2."""
    try:
        asyncio.run(program)
    except ConfigError as error:
        print(f"ballast: {describe_error(error)}", file=sys.stderr)
        sys.exit(2)


async def run_until_stopped(on_line: Callable[[dict[str, Any]], Awaitable[None]], flush: Callable[[], None]) -> None:
    """Pass each JSON line of stdin to `on_line` and flush the log regularly; returns on SIGTERM, SIGINT or `stop`.

    Raises the error that ended one of the loop's tasks, so that it ends the process.

    A line that is no JSON object, or that `on_line` refuses with ValueError, is logged and skipped. The end of stdin
    stops nothing: a client without a controlling process runs until it gets a signal.
    """
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    failures: list[BaseException] = []

    def on_failure(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failures.append(context.get("exception") or RuntimeError(context["message"]))
        stopped.set()

    loop.set_exception_handler(on_failure)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    reader = asyncio.StreamReader()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    except (ValueError, OSError):
        reader.feed_eof()  # stdin is a plain file or closed: there are no control lines

    async def control() -> None:
        while line := await reader.readline():
            try:
                order = json.loads(line)
                if not isinstance(order, dict):
                    raise ValueError("not a JSON object")
                if order.get("stop"):
                    stopped.set()
                    return
                await on_line(order)
            except (ValueError, KeyError, TypeError) as error:
                log.warning("bad_control_line", line=line.decode(errors="replace").strip(), error=str(error))

    controlling = asyncio.create_task(control())
    while not stopped.is_set():
        try:
            await asyncio.wait_for(stopped.wait(), FLUSH_EVERY_S)
        except asyncio.TimeoutError:
            flush()
    controlling.cancel()
    await asyncio.gather(controlling, return_exceptions=True)
    loop.set_exception_handler(None)
    flush()
    if failures:
        raise failures[0]
