"""`python -m benchmarks.measure.pulsar.stand_in`: the brokers of a large Pulsar cluster, as one process on loopback.

Every broker has a port of its own. An answer begins 5 ms after its request and is sent in chunks of 32 KiB, as Pulsar's
web server sends them. The first line printed is the address of the first broker; it ends with its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
from collections.abc import Callable

from benchmarks.measure.pulsar.answers import CLUSTER, Answers, dump

LATENCY_S = 0.005
CHUNK_BYTES = 32_768


class Cluster:
    """The brokers, by number. `urls`: known once they listen."""

    def __init__(self, answers: Answers) -> None:
        self.answers, self.urls = answers, list[str]()
        self.broker_list = dump(answers.ids)
        self._numbers = {broker: at for at, broker in enumerate(answers.ids)}
        self._owned = [answers.owned(at) for at in range(answers.brokers)]
        self._reports = [answers.load_report(at) for at in range(answers.brokers)]

    def respond(self, broker: int, path: str) -> bytes:
        """A whole HTTP response."""
        end = path.rpartition("/")[2]
        if end == "ownedNamespaces":
            asked = self._numbers[path.split("/")[-2]]
            return _redirect(f"{self.urls[asked]}{path}") if asked != broker else _ok(self._owned[broker])
        known: dict[str, Callable[[], bytes]] = {
            "load-report": lambda: self._reports[broker],
            "mbeans": lambda: self.answers.mbeans,
            "topics": lambda: self.answers.topic_stats(broker),
            "runtime": lambda: self.answers.runtime,
            CLUSTER: lambda: self.broker_list,
        }
        return _ok(known[end]()) if end in known else b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class Connection(asyncio.Protocol):
    """A client's connection to a broker."""

    def __init__(self, cluster: Cluster, broker: int) -> None:
        self._cluster, self._broker, self._received = cluster, broker, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode()
            asyncio.get_running_loop().call_later(LATENCY_S, self._respond, path)

    def _respond(self, path: str) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._cluster.respond(self._broker, path))


def _ok(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
    return b"".join([head, *(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks), b"0\r\n\r\n"])


def _redirect(url: str) -> bytes:
    return b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % url.encode()


async def serve(answers: Answers) -> None:
    """Serve until standard input ends."""
    cluster, loop = Cluster(answers), asyncio.get_running_loop()
    for broker in range(answers.brokers):
        server = await loop.create_server(lambda at=broker: Connection(cluster, at), "127.0.0.1", 0)  # type: ignore[misc]
        cluster.urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    cluster.respond(0, "/topics")  # names are made once, before anybody waits for them
    print(cluster.urls[0], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def main() -> None:
    """Read the size of the cluster, and serve it."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("brokers", "bundles", "topics"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(serve(Answers(given.brokers, given.bundles, given.topics)))


if __name__ == "__main__":
    main()
