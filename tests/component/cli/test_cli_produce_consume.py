"""`ballast produce` and `ballast consume` as processes, on reference brokers over real sockets, without a terminal."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from controller.domain.ids import partition_names, topic_hash
from tests.unit.brokers.reference_cluster import HIGH, LOW, WHOLE, Cluster, cluster, topic, until

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
            assert (row["topic"], row["offset"], row["key"], row["sequence"]) == (TOPIC, 2, "", 2)
            assert row["payload_base64"] == "//4="
            again = await read(here, "--idle", "1s", "--subscription", "another", "--json")
            assert [json.loads(line)["key"] for line in again.out.splitlines()] == ["k1", "", ""]

    asyncio.run(scenario())


@pytest.mark.thorough
def test_a_partitioned_topic_is_all_of_its_partitions(tmp_path: Path) -> None:
    """Once the lines went to a topic of the name itself, which no consumer of the partitions reads."""

    async def scenario() -> None:
        async with cluster(tmp_path / "store") as here:
            await here.give(LOW, "a")
            await here.give(HIGH, "b")
            here.directory.partitions[TOPIC] = 3
            parts = partition_names(TOPIC, 3)
            lines = b"".join(b"k%d:%d\n" % (n % 4, n) for n in range(12)) + b"x\ny\nz\n"
            sent = await end(await start(here, "produce", TOPIC, "--key-separator", ":", "--json"), lines)
            assert (sent.code, sent.err) == (0, "")
            summary = json.loads(sent.out)
            assert (summary["topic"], summary["partitions"], summary["acked"]) == (TOPIC, 3, 15)

            read_all = await read(here, "--idle", "1s", "--json")
            assert read_all.err == f"15 messages of {TOPIC} (3 partitions)\n"
            rows = [json.loads(line) for line in read_all.out.splitlines()]
            assert sorted(row["payload"] for row in rows) == sorted([*map(str, range(12)), "x", "y", "z"])
            for key in ("k0", "k1", "k2", "k3"):
                mine = [row for row in rows if row["key"] == key]
                assert len({row["topic"] for row in mine}) == 1, "a key stays in one partition"
                assert [int(row["payload"]) for row in mine] == sorted(int(row["payload"]) for row in mine)
            assert {row["topic"] for row in rows if not row["key"]} == set(parts), "without a key: one after the other"

            one = await read(here, "--max", "1", "--subscription", "another")
            assert (one.out.count("\n"), one.err) == (1, f"1 message of {TOPIC} (3 partitions)\n")
            told = await end(await start(here, "produce", parts[0]), b"direct\n")
            assert (told.code, told.err) == (0, f"1 message stored in {parts[0]}\n")
            direct = await end(await start(here, "consume", parts[0], "--idle", "1s", stdin=asyncio.subprocess.DEVNULL))
            assert direct.out == "direct\n", "the subscription goes on where the whole topic's ended"
            for command in ("produce", "consume"):
                none = await end(await start(here, command, f"{TOPIC}-partition-3"), b"lost\n")
                assert (none.code, none.out) == (1, "")
                assert f"{TOPIC} has 3 partitions, numbered from 0: there is no 3" in none.err
            here.directory.partitions.clear()
            nothing = await read(here, "--idle", "1s")
            assert (nothing.out, nothing.err) == ("", f"0 messages of {TOPIC}\n"), "the name itself got nothing"

    asyncio.run(scenario())


def test_the_partition_that_nobody_serves_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path / "store") as here:
            parts = partition_names(TOPIC, 8)
            bundle = LOW if LOW.contains(topic_hash(TOPIC)) else HIGH
            missing = next(part for part in parts if not bundle.contains(topic_hash(part)))
            await here.give(bundle, "a")
            here.directory.partitions[TOPIC] = 8
            told = await end(await start(here, "produce", TOPIC, "--wait", "2"), b"x\n")
            assert told.code == 1
            assert told.err.startswith(f"ballast: {missing} is served by nobody after 2"), told.err

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


@pytest.mark.thorough
def test_time_without_a_connection_is_no_idle_time(tmp_path: Path) -> None:
    """Once a consumer ended in good order while its broker was dead, with most of the messages unread."""

    async def scenario() -> None:
        async with cluster(tmp_path / "store") as here:
            await here.give(WHOLE, "a")
            await end(await start(here, "produce", TOPIC), b"one\n")
            reading = await start(here, "consume", TOPIC, "--idle", "2s", stdin=asyncio.subprocess.DEVNULL)
            assert reading.stdout is not None
            assert await asyncio.wait_for(reading.stdout.readline(), 60) == b"one\n"
            here.directory.take(WHOLE)
            await here.brokers["a"].stop()
            sending = await start(here, "produce", TOPIC)  # it waits for a broker, and writes as soon as there is one
            await asyncio.sleep(4)
            assert reading.returncode is None, "twice its idle time without a broker"
            await here.give(WHOLE, "b")
            await end(sending, b"two\n")
            told = await end(reading)
            assert (told.code, told.out) == (0, "two\n")

    asyncio.run(scenario())


def test_who_is_served_by_nobody_is_told_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path / "store") as here:
            here.directory.says = "namespace t/ns does not exist (journal seq 3); create it first"
            missing = await end(await start(here, "produce", TOPIC, "--wait", "1"), b"x\n")
            assert (missing.code, missing.err) == (1, f"ballast: {TOPIC} is served by nobody after 1 s: "
                                                   f"{here.directory.says}\n")  # fmt: skip
            ended = await start(here, "produce", TOPIC, "--wait", "60")
            await until(lambda: here.directory.lookups > 20)
            ended.terminate()
            told = await end(ended)
            assert told.code == 1
            assert f"{TOPIC} is served by nobody when told to end, after " in told.err
            assert f" after 60 s: {here.directory.says}" not in told.err
            here.lookup._urls = ["http://127.0.0.1:9"]
            dead = await end(await start(here, "produce", TOPIC, "--wait", "1"), b"x\n")
            assert dead.err.startswith(
                f"ballast: {TOPIC} is served by nobody after 1 s: http://127.0.0.1:9 does not answer lookups ("
            )

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
