"""A large answer into a file: whole, or a named failure in bounded time."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.download import download
from controller.brokers.pulsar.outcomes import Answer, Outcome
from tests.unit.brokers.pulsar.stand_in import Broker, broken_off, hang, say, stand_in, status

PATH = "/admin/v2/broker-stats/topics"
LARGE = bytes(range(256)) * 4_000


class FullDisk(io.BytesIO):
    def write(self, piece: Any) -> int:
        raise OSError(28, "No space left on device")


async def _chunked(broker: Broker, request: Request) -> Response:
    async def pieces() -> Any:
        for at in range(0, len(LARGE), 10_007):
            yield LARGE[at : at + 10_007]

    return StreamingResponse(pieces())


async def _chunked_and_broken_off(broker: Broker, request: Request) -> Response:
    async def pieces() -> Any:
        yield LARGE[:300_000]
        raise ConnectionAbortedError("the broker dies")

    return StreamingResponse(pieces())


async def _trickle(broker: Broker, request: Request) -> Response:
    async def drops() -> Any:
        while not broker.cluster.released.is_set():
            yield b" "
            await asyncio.sleep(0.05)

    return StreamingResponse(drops())


def downloaded(
    cases: Mapping[str, Any], into: IO[bytes] | None = None, timeout_s: float = 30.0, **settings: Any
) -> dict[str, tuple[Answer, bytes]]:
    """What comes of a download for each case, where a broker answers like this, and what was written."""

    async def run() -> dict[str, tuple[Answer, bytes]]:
        found = {}
        with ThreadPoolExecutor(1) as threads:
            async with stand_in(1) as cluster, PulsarAdmin(cluster.settings(**settings)) as admin:
                for name, case in cases.items():
                    broker = cluster.brokers[0]
                    broker.answers = {PATH: case}
                    spool = into or io.BytesIO()
                    answer = await download(
                        admin, PATH, broker.url, spool, threads, most_bytes=2_000_000, timeout_s=timeout_s
                    )
                    found[name] = (answer, spool.getvalue())  # type: ignore[attr-defined]
        return found

    return asyncio.run(run())


def test_an_answer_is_written_whole_however_it_is_sent() -> None:
    found = downloaded({"length": say(LARGE), "chunks": _chunked, "empty": say(b"")})
    assert {name: answer.outcome for name, (answer, _) in found.items()} == dict.fromkeys(found, Outcome.OK)
    assert {name: written for name, (_, written) in found.items()} == {"length": LARGE, "chunks": LARGE, "empty": b""}


def test_every_failure_has_a_name() -> None:
    found = downloaded(
        {
            "401": status(401), "403": status(403, "no super-user"), "500": status(500), "off": broken_off,
            "dies": _chunked_and_broken_off, "large": say(LARGE * 2),
            "elsewhere": lambda broker, request: RedirectResponse("http://127.0.0.1:1/", 307),
        }
    )  # fmt: skip
    assert {name: answer.outcome for name, (answer, _) in found.items()} == {
        "401": Outcome.UNAUTHENTICATED, "403": Outcome.FORBIDDEN, "500": Outcome.SERVER_ERROR, "off": Outcome.CUT_OFF,
        "dies": Outcome.CUT_OFF, "large": Outcome.TOO_LARGE, "elsewhere": Outcome.REDIRECTED,
    }  # fmt: skip
    assert found["403"][0].detail == "no super-user"


@pytest.mark.parametrize("case", [hang, _trickle])
def test_an_answer_that_does_not_end_is_given_up(case: Any) -> None:
    """The thread is free afterwards: there is only one, and the second case needs it."""
    found = downloaded({"first": case, "second": case}, timeout_s=0.3)
    assert [answer.outcome for answer, _ in found.values()] == [Outcome.TIMED_OUT] * 2


def test_a_disk_without_space_is_told_as_such() -> None:
    ((answer, _),) = downloaded({"": say(LARGE)}, into=FullDisk()).values()
    assert answer.outcome is Outcome.TOO_LARGE
    assert "No space left" in answer.detail


def test_nobody_listening_is_unreachable() -> None:
    async def run() -> Answer:
        with ThreadPoolExecutor(1) as threads:
            async with stand_in(1) as cluster, PulsarAdmin(cluster.settings()) as admin:
                await cluster.brokers[0].server.stop()
                url = cluster.brokers[0].url
                return await download(admin, PATH, url, io.BytesIO(), threads, most_bytes=10, timeout_s=5)

    assert asyncio.run(run()).outcome is Outcome.UNREACHABLE


def test_credentials_are_sent(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("T1")
    seen = []

    def answer(broker: Broker, request: Request) -> Response:
        seen.append(request.headers.get("authorization"))
        return Response(b"{}")

    downloaded({"": answer}, token_file=str(token))
    assert seen == ["Bearer T1"]
