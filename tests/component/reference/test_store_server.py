"""The store over sockets: pipelining, errors across the wire, restarts, a killed process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from controller.brokers.reference.client.link import Link
from controller.brokers.reference.runtime import ReferenceBroker
from controller.brokers.reference.store import protocol
from controller.brokers.reference.store.client import StoreClient
from controller.brokers.reference.store.engine import StoreEngine
from controller.brokers.reference.store.messages import Message, pack_messages
from controller.brokers.reference.store.producers import OutOfSequence
from controller.brokers.reference.store.protocol import encode
from controller.brokers.reference.store.server import StoreServer
from controller.domain.errors import Fenced, StoreError
from controller.domain.ids import RING_END, Bundle
from tests.unit.brokers.disk import Disk
from tests.unit.brokers.reference_cluster import FakeDirectory, until

WHOLE = Bundle("shop/orders", 0, RING_END)
TOPIC = "persistent://shop/orders/t"


def batch(first: int, count: int = 1) -> list[Message]:
    return [Message("p", s, "k", b"x") for s in range(first, first + count)]


# The store, with a disk that says each time that something is flushed to it.
LOUD = """
import os, sys
from controller.brokers.reference.store.server import main

def flush(fd):
    print("flushed", os.path.basename(os.readlink(f"/proc/self/fd/{fd}")), flush=True)
    os.fsync(fd)

main(sys.argv[1:], flush)
"""


def start_store(folder: Path, port: int = 0) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "controller.brokers.reference.store.server",
            "--data-dir",
            str(folder),
            "--port",
            str(port),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


@pytest.mark.parametrize("fsync", [False, True])
def test_requests_are_carried_out_in_the_order_of_the_calls(tmp_path: Path, fsync: bool) -> None:
    async def scenario() -> None:
        engine = StoreEngine(tmp_path, fsync=fsync)
        server = StoreServer(engine)
        client = StoreClient(await server.start())
        await client.start()
        acquired = asyncio.ensure_future(client.acquire(WHOLE, 1, "a"))
        await asyncio.sleep(0)
        sent = [asyncio.ensure_future(client.append(TOPIC, 1, "a", batch(i))) for i in range(50)]
        await acquired
        assert [(await s).offsets for s in sent] == [[i] for i in range(50)]
        with pytest.raises(OutOfSequence, match="where 50 is due"):
            await client.append(TOPIC, 1, "a", batch(60))
        with pytest.raises(Fenced):
            await client.append(TOPIC, 2, "a", batch(50))
        with pytest.raises(StoreError, match="unknown operation 'fly'"):
            await client.call({"op": "fly"})
        with pytest.raises(StoreError, match="bad append request"):
            await client.call({"op": "append"})
        records, after = await client.read(TOPIC, 45)
        assert [r.sequence for r in records] == [45, 46, 47, 48, 49]
        assert after == 50
        assert (await client.stats())[TOPIC]["messages"] == 50
        await client.stop()
        await server.stop()
        engine.close()

    asyncio.run(scenario())


def test_of_what_is_sent_again_only_an_earlier_epoch_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All three were carried out, and no answer came through. That the first is refused says nothing of its outcome."""

    async def scenario() -> None:
        engine = StoreEngine(tmp_path)
        server = StoreServer(engine)
        client = StoreClient(await server.start())
        await client.start()
        await client.acquire(WHOLE, 5, "a")
        (connection,) = server._connections
        monkeypatch.setattr(connection, "write", lambda data: None)
        requests = [
            client.send_append(TOPIC, 5, "a", pack_messages(batch(0))),
            client.send_acquire(WHOLE, 6, "a", tails=False),
            client.send_append(TOPIC, 6, "a", pack_messages(batch(1))),
        ]
        while engine.stats().get(TOPIC, {}).get("messages") != 2:
            await asyncio.sleep(0.001)
        connection.abort()
        fenced, acquired, appended = await asyncio.gather(*requests, return_exceptions=True)
        assert isinstance(fenced, Fenced)
        assert not isinstance(acquired, BaseException)
        assert not isinstance(appended, BaseException)
        assert (appended[0]["offsets"], appended[0]["duplicates"]) == ([1], [0])
        assert [r.sequence for r in (await client.read(TOPIC, 0))[0]] == [0, 1]
        await client.stop()
        await server.stop()
        engine.close()

    asyncio.run(scenario())


def test_what_was_acknowledged_outlives_sigkill_and_the_client_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        process, address = start_store(tmp_path)
        client = StoreClient(address, timeout_s=60)
        await client.start()
        await client.acquire(WHOLE, 1, "a")
        acked = 0
        sends = [client.append(TOPIC, 1, "a", batch(i)) for i in range(300)]
        tasks = [asyncio.ensure_future(s) for s in sends]
        await tasks[100]
        process.send_signal(signal.SIGKILL)
        process.wait()
        acked = sum(t.done() for t in tasks)
        assert acked >= 100
        process, _ = start_store(tmp_path, int(address.rpartition(":")[2]))
        answers = [await t for t in tasks]
        assert [a.offsets for a in answers] == [[i] for i in range(300)]
        assert (await client.tail(TOPIC))["producers"] == {"p": 299}
        await client.stop()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0

    asyncio.run(scenario())


def test_with_fsync_nothing_is_answered_before_it_is_flushed(tmp_path: Path) -> None:
    """A disk that fails: what was answered before the flush would be answered all the same."""

    async def scenario() -> None:
        disk, failed = Disk(), asyncio.Event()
        engine = StoreEngine(tmp_path, fsync=True, sync=disk.sync)
        server = StoreServer(engine, failed.set)
        client = StoreClient(await server.start(), timeout_s=1.0)
        await client.start()
        await client.acquire(WHOLE, 1, "a")
        await client.append(TOPIC, 1, "a", batch(0))
        disk.failing = True
        lost = asyncio.ensure_future(client.append(TOPIC, 1, "a", batch(1)))
        await asyncio.wait_for(failed.wait(), 30)
        disk.failing = False
        repeated = asyncio.ensure_future(client.append(TOPIC, 1, "a", batch(1)))  # would be taken for a duplicate
        for unanswered in (lost, repeated):
            with pytest.raises(StoreError, match="did not answer append"):
                await unanswered
        assert "cannot flush" in str(server.failure)
        await client.stop()
        await server.stop()
        disk.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("options", [[], ["--fsync"]])
def test_the_store_flushes_what_it_answers_if_it_is_told_to(tmp_path: Path, options: list[str]) -> None:
    async def scenario(address: str) -> None:
        client = StoreClient(address, timeout_s=60)
        await client.start()
        await client.acquire(WHOLE, 1, "a")
        await client.append(TOPIC, 1, "a", batch(0))
        await client.subscribe(TOPIC, "s", 1, "a")
        await client.ack(TOPIC, "s", 1, "a", [(0, 1)])
        await client.stop()

    command = [sys.executable, "-c", LOUD, "--data-dir", str(tmp_path), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said: list[str] = []
        while "listening" not in (said or [""])[-1]:
            said.append(process.stdout.readline())
        asyncio.run(scenario(said.pop().split()[-1]))
        process.send_signal(signal.SIGTERM)
        said += process.stdout.read().splitlines()
    flushed = {line.split()[1] for line in said if line.startswith("flushed")}
    files = {"fences.log", "topic.new", "acks.log", f"{0:020d}.seg"}
    assert flushed & files == (files if options else set())


def test_a_malformed_frame_closes_only_its_own_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = StoreEngine(tmp_path)
        server = StoreServer(engine)
        address = await server.start()
        client = StoreClient(address)
        await client.start()
        port = int(address.rpartition(":")[2])
        for bad in (os.urandom(64), b"\xff" * 8, encode({"no": "id"}), b"\0\0\0\x06\0\0\0\x02[]"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(bad)
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
        await client.acquire(WHOLE, 1, "a")
        await client.stop()
        await server.stop()
        engine.close()

    asyncio.run(scenario())


def test_a_silent_store_is_a_store_error() -> None:
    async def scenario() -> None:
        client = StoreClient("127.0.0.1:1", timeout_s=0.1)
        with pytest.raises(StoreError, match=r"no segment store answers at 127\.0\.0\.1:1 within"):
            await client.start()
        await client.stop()

    asyncio.run(scenario())


def test_a_store_that_goes_is_a_trouble_until_it_answers_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = StoreEngine(tmp_path)
        server = StoreServer(engine)
        address = await server.start()
        broker = ReferenceBroker("b1", address, may_serve=lambda: True)
        assert broker.troubles() == []
        await broker.start(FakeDirectory())
        assert broker.troubles() == []
        await server.stop()
        await until(lambda: bool(broker.troubles()))
        assert broker.troubles()[0].startswith(f"the segment store at {address} does not answer: ")
        again = StoreServer(engine)
        await again.start(port=int(address.rpartition(":")[2]))
        await until(lambda: not broker.troubles())
        await broker.stop()
        await again.stop()
        engine.close()

    asyncio.run(scenario())


def test_a_store_that_hangs_is_a_trouble_once_a_request_has_run_out_of_time() -> None:
    async def scenario() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            client = StoreClient("{}:{}".format(*listener.getsockname()), timeout_s=0.1)
            with pytest.raises(StoreError):
                await client.start()
            assert client.trouble.endswith(" does not answer: ping took more than 0.1 s")
            await client.stop()

    asyncio.run(scenario())


def test_a_peer_that_answers_nothing_is_given_up_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener whose queue is full drops what else comes, as a host behind a cut cable does."""
    monkeypatch.setattr(protocol, "CONNECT_S", 0.3)

    async def scenario() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            host, port = listener.getsockname()
            filling = [socket.socket() for _ in range(4)]
            for each in filling:
                each.setblocking(False)
                each.connect_ex((host, port))
            with pytest.raises(OSError, match="does not answer within"):
                await Link(f"{host}:{port}").connect()
            client = StoreClient(f"{host}:{port}", timeout_s=60)
            starting = asyncio.create_task(client.start())
            await asyncio.sleep(0.5)
            assert not starting.done()
            for each in filling:
                each.close()
        engine = StoreEngine(tmp_path)
        server = StoreServer(engine)
        await server.start(port=port)
        await starting
        await client.stop()
        await server.stop()
        engine.close()

    asyncio.run(scenario())
