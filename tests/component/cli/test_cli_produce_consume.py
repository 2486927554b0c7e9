"""`ballast produce` and `ballast consume` as processes, on reference brokers over real sockets, without a terminal."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from tests.unit.brokers.reference_cluster import WHOLE, Cluster, cluster, topic

TOPIC = topic(1)


class Told(NamedTuple):
    code: int
    out: str
    err: str


async def start(here: Cluster, *words: str, stdin: int = asyncio.subprocess.PIPE) -> asyncio.subprocess.Process:
    argv = [sys.executable, "-m", "controller.cli.main", *words, "--lookup", here.lookup._urls[0]]
    return await asyncio.create_subprocess_exec(
        *argv, stdin=stdin, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


async def end(process: asyncio.subprocess.Process, lines: bytes | None = None) -> Told:
    out, err = await asyncio.wait_for(process.communicate(lines), 60)
    return Told(process.returncode or 0, out.decode(errors="surrogateescape"), err.decode())


async def read(here: Cluster, *words: str) -> Told:
    return await end(await start(here, "consume", TOPIC, *words, stdin=asyncio.subprocess.DEVNULL))


def test_lines_go_in_and_come_out_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path / "store") as here:
            await here.give(WHOLE, "a")
            sending = await start(
                here, "produce", TOPIC.removeprefix("persistent://"), "--key-separator", ":", "--json"
            )
            sent = await end(sending, b"k1:one\ntwo\n\xff\xfe\n")
            assert (sent.code, sent.err) == (0, "")
            summary = json.loads(sent.out)
            assert (summary["topic"], summary["acked"], summary["unacked"]) == (TOPIC, 3, 0)
            first = await read(here, "--max", "2")
            assert (first.code, first.out) == (0, "one\ntwo\n")
            assert first.err == f"2 messages of {TOPIC}\n"
            rest = await read(here, "--idle", "1s", "--json")
            (row,) = map(json.loads, rest.out.splitlines())
            assert (row["offset"], row["key"], row["sequence"]) == (2, "", 2)
            assert row["payload_base64"] == "//4="
            again = await read(here, "--idle", "1s", "--subscription", "another", "--json")
            assert [json.loads(line)["key"] for line in again.out.splitlines()] == ["k1", "", ""]

    asyncio.run(scenario())


def test_a_producer_follows_its_bundle_and_a_signal_ends_both(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path / "store") as here:
            await here.give(WHOLE, "a")
            sending = await start(here, "produce", TOPIC, "--json")
            reading = await start(here, "consume", TOPIC, stdin=asyncio.subprocess.DEVNULL)
            assert sending.stdin is not None
            assert reading.stdout is not None
            for number, owner in enumerate(("b", "a")):
                sending.stdin.write(f"line {number}\n".encode())
                line = await asyncio.wait_for(reading.stdout.readline(), 60)
                assert line == f"line {number}\n".encode(), "a line is a message at once"
                await here.give(WHOLE, owner)
            sending.stdin.write(b"last\n")
            assert await asyncio.wait_for(reading.stdout.readline(), 60) == b"last\n"
            for process in (sending, reading):
                process.send_signal(signal.SIGTERM)
            told = await end(sending)
            assert (told.code, json.loads(told.out)["acked"]) == (0, 3)
            assert (await end(reading)).code == 0

    asyncio.run(scenario())


def test_what_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path / "store") as here:
            nobody = await end(await start(here, "produce", TOPIC, "--wait", "1"), b"x\n")
            assert (nobody.code, nobody.err.count("\n")) == (1, 1)
            assert nobody.err.startswith(f"ballast: {TOPIC} is served by nobody after 1 s")
            await here.give(WHOLE, "a")
            holding = await start(here, "consume", TOPIC, stdin=asyncio.subprocess.DEVNULL)
            await end(await start(here, "produce", TOPIC), b"x\n")
            assert holding.stdout is not None
            assert await asyncio.wait_for(holding.stdout.readline(), 60) == b"x\n"
            second = await read(here, "--wait", "2")
            assert (second.code, second.err.count("\n")) == (1, 1)
            holding.terminate()
            await end(holding)
            wrong = await end(await start(here, "produce", "orders"), b"x\n")
            assert (wrong.code, "is not persistent://tenant/namespace/topic" in wrong.err) == (2, True)

    asyncio.run(scenario())
