"""`ballast produce TOPIC`: each line of stdin becomes a message of a topic of the reference brokers.

Of a partitioned topic, a line's key says the partition; lines without a key go to the partitions in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import threading
from concurrent.futures import CancelledError
from typing import Annotated, Any

import typer

from controller.brokers.reference.client.producer import Producer
from controller.cli.act.topic import full_name
from controller.cli.options import PROBLEM, AsJson, Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_json
from controller.cli.tryout.reference_client import (
    CONFIRM_S,
    WAIT_S,
    Asked,
    LookupUrls,
    Stopping,
    Topic,
    Wait,
    messages_text,
    opened,
    unique_name,
    whom_to_ask,
)
from controller.config.settings import Settings
from controller.domain.ids import topic_hash
from controller.operations.text import count_text

app = new_app()
QUEUED_LINES = 1_000
READ_BYTES = 65_536
Separator = Annotated[
    str | None,
    typer.Option("--key-separator", help="What parts key and payload in a line; by default there are no keys.",
                 show_default=False),
]  # fmt: skip


@app.command()
@report_errors
def produce(
    topic: Topic, conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    lookup: LookupUrls = None, separator: Separator = None, wait: Wait = WAIT_S,
) -> None:  # fmt: skip
    """Send each line of stdin as a message, until its end; follows the topic when it moves. No terminal is needed."""
    settings = settings_of(conf, profile, sets)
    name = full_name(topic)
    summary = asyncio.run(_send_lines(settings, whom_to_ask(settings, lookup), name, separator, wait))
    if as_json:
        emit_json(summary)
    else:
        typer.echo(messages_text(summary["acked"], "stored in", name, summary["partitions"]), err=True)
    if left := summary["unacked"]:
        typer.echo(f"ballast: {unacked_text(left)}", err=True)
        raise typer.Exit(PROBLEM)


def unacked_text(left: int) -> str:
    """How many messages nobody acknowledged, and who says why."""
    was = "was" if left == 1 else "were"
    where = "`ballast doctor` says whether brokers are alive and their segment store answers"
    return f"{count_text(left, 'message')} {was} not acknowledged within {CONFIRM_S:g} s: {where}"


async def _send_lines(
    settings: Settings, asked: Asked, topic: str, separator: str | None, wait_s: float
) -> dict[str, Any]:
    name, stopping = unique_name("produce"), Stopping()
    opening = opened(
        settings, asked, topic, wait_s, stopping,
        lambda part, lookup, links: Producer(part, name, lookup, links),
    )  # fmt: skip
    async with opening as producers:
        lines = _read_lines(sys.stdin.fileno())
        in_turn = itertools.cycle(producers)
        while not stopping.event.is_set():
            line = await _first(lines, stopping.event)
            if line is None:
                break
            key, payload = _parse(line, separator)
            producer = producers[topic_hash(key) % len(producers)] if key else next(in_turn)
            await producer.send(key, payload)
        stopping.raise_failure()
        with contextlib.suppress(asyncio.TimeoutError):  # the summary says how many are left
            await asyncio.wait_for(asyncio.gather(*(producer.flush() for producer in producers)), CONFIRM_S)
        return _summary(topic, name, producers)


def _summary(topic: str, name: str, producers: list[Producer]) -> dict[str, Any]:
    return {
        "topic": topic,
        "partitions": 0 if producers[0].topic == topic else len(producers),
        "producer": name,
        "acked": sum(producer.acked for producer in producers),
        "unacked": sum(producer.pending for producer in producers),
        "reopened": sum(producer.reopened for producer in producers),
    }


def _parse(line: bytes, separator: str | None) -> tuple[str, bytes]:
    """Key and payload of a line; a line without the separator has no key."""
    payload = line.removesuffix(b"\r")
    if separator is None or separator.encode() not in payload:
        return "", payload
    key, _, rest = payload.partition(separator.encode())
    return key.decode(errors="replace"), rest


def _read_lines(handle: int) -> asyncio.Queue[bytes | None]:
    """The lines of a file, pipe or terminal as they come, then None.

    An event loop cannot read all of these, so a thread does. It is a daemon, so that a line that never comes keeps no
    process alive, and reads without Python's buffer, whose lock the end of the process would wait for.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED_LINES)

    def put(line: bytes | None) -> None:
        asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()

    def read() -> None:
        rest = b""
        with contextlib.suppress(RuntimeError, CancelledError):  # the loop has ended before the lines
            while chunk := os.read(handle, READ_BYTES):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    put(line)
            if rest:
                put(rest)
            put(None)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return lines


async def _first(lines: asyncio.Queue[bytes | None], stopping: asyncio.Event) -> bytes | None:
    """The next line; None at the end, or once the command is to stop."""
    getting, ending = asyncio.ensure_future(lines.get()), asyncio.ensure_future(stopping.wait())
    await asyncio.wait([getting, ending], return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if getting.done():
        return getting.result()
    getting.cancel()
    return None
