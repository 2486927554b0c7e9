"""One call to a broker: outcomes, redirects, credentials, time limits, slots."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.outcomes import Answer, CallFailed, Outcome
from controller.brokers.pulsar.slots import PER_BROKER, Slots
from controller.config.sections.pulsar_cluster import PulsarCluster
from controller.domain.errors import ConfigError
from controller.pulsar.address import check_web_address
from tests.unit.brokers.pulsar.stand_in import Broker, StandIn, broken_off, hang, say, stand_in, status

PATH = "/admin/v2/clusters"
_T = TypeVar("_T")


def with_cluster(scenario: Callable[[StandIn], Awaitable[_T]], brokers: int = 2) -> _T:
    """Run a scenario on a stand-in."""

    async def run() -> _T:
        async with stand_in(brokers) as cluster:
            return await scenario(cluster)

    return asyncio.run(run())


def redirect_to(url: Callable[[Broker], str], code: int = 307) -> Any:
    return lambda broker, request: RedirectResponse(url(broker), code)


def answers_of(cases: Mapping[str, Any], **settings: Any) -> dict[str, Answer]:
    """What comes of one call for each case, where a broker answers like this."""

    async def scenario(cluster: StandIn) -> dict[str, Answer]:
        found = {}
        async with PulsarAdmin(cluster.settings(**settings)) as admin:
            for name, answer in cases.items():
                cluster.brokers[0].answers = {PATH: answer} if answer else {}
                found[name] = await admin.get(PATH)
        return found

    return with_cluster(scenario, 1)


def test_every_answer_has_a_name() -> None:
    codes = {
        401: Outcome.UNAUTHENTICATED, 403: Outcome.FORBIDDEN, 404: Outcome.NOT_FOUND, 409: Outcome.CONFLICT,
        412: Outcome.PRECONDITION, 429: Outcome.REFUSED, 500: Outcome.SERVER_ERROR, 503: Outcome.SERVER_ERROR,
    }  # fmt: skip
    cases = {str(code): status(code) for code in codes} | {"ok": None, "off": broken_off, "hang": hang}
    wanted = {str(code): outcome for code, outcome in codes.items()}
    wanted |= {"ok": Outcome.OK, "off": Outcome.CUT_OFF, "hang": Outcome.TIMED_OUT}
    found = answers_of(cases, read_timeout_s=0.3)
    assert {name: answer.outcome for name, answer in found.items()} == wanted
    for answer in found.values():
        if answer.outcome is not Outcome.OK:
            with pytest.raises(CallFailed, match=PATH) as error:
                answer.require()
            assert error.value.outcome is answer.outcome


def test_what_pulsar_says_is_kept_without_its_stack_trace() -> None:
    reason = "\n --- An unexpected error ---\n\nMessage: null\n\nStacktrace:\n\njava.lang.X\n\tat a.b\n"
    found = answers_of({"": status(500, reason)})[""]
    assert "java.lang.X" in found.detail
    assert "at a.b" not in found.detail
    assert "\n" not in found.detail
    page = say(b'{"servlet": "Jersey", "message": "Authentication required", "status": "401"}')
    refused = answers_of({"": lambda *asked: with_status(page(*asked), 401)})[""]
    assert refused.detail == "Authentication required"


def with_status(response: Response, code: int) -> Response:
    response.status_code = code
    return response


def test_an_answer_that_is_too_large_is_not_kept() -> None:
    async def scenario(cluster: StandIn) -> Answer:
        cluster.brokers[0].answers[PATH] = say(b"x" * 5_000)
        async with PulsarAdmin(cluster.settings()) as admin:
            return await admin.get(PATH, most_bytes=4_000)

    found = with_cluster(scenario)
    assert (found.outcome, found.body) == (Outcome.TOO_LARGE, b"")


def test_no_json_is_a_bad_answer() -> None:
    bodies = ["", "{", "<html>", "[1", '"\ud800', "[" * 100_000]
    found = answers_of({body[:9]: say(body.encode("utf-8", "surrogatepass")) for body in bodies})
    assert len(found) == len(bodies)
    for answer in found.values():
        with pytest.raises(CallFailed) as error:
            answer.json()
        assert error.value.outcome is Outcome.BAD_ANSWER


def test_nobody_listening_is_unreachable_and_asked_twice() -> None:
    async def scenario(cluster: StandIn) -> Answer:
        url = cluster.brokers[1].url
        await cluster.brokers[1].server.stop()
        async with PulsarAdmin(cluster.settings(service_urls=(url,))) as admin:
            return await admin.get(PATH)

    found = with_cluster(scenario)
    assert found.outcome is Outcome.UNREACHABLE


def test_a_port_that_closes_every_connection_may_be_the_binary_one() -> None:
    async def scenario() -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = PulsarCluster(service_urls=(f"http://127.0.0.1:{port}",))
        async with server, PulsarAdmin(settings) as admin:
            return str((await admin.get(PATH)).failure())

    found = asyncio.run(scenario())
    assert "Server disconnected without sending a response" in found
    assert "the web service (8080) and not the binary one (6650)" in found


def test_a_closed_connection_is_tried_again() -> None:
    async def scenario() -> tuple[Answer, int]:
        calls = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal calls
            calls += 1
            await reader.readline()
            if calls > 1:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        cluster = StandIn(1)
        async with server, PulsarAdmin(cluster.settings(service_urls=(f"http://127.0.0.1:{port}",))) as admin:
            found = await admin.get(PATH)
        await cluster.brokers[0].server.stop()
        return found, calls

    found, calls = asyncio.run(scenario())
    assert (found.outcome, found.body, calls) == (Outcome.OK, b"[]", 2)


def test_service_urls_are_tried_in_turn_and_the_good_one_first_next_time() -> None:
    async def scenario(cluster: StandIn) -> tuple[list[str], int]:
        first, second = cluster.brokers
        first.answers[PATH] = hang
        async with PulsarAdmin(cluster.settings(service_urls=(first.url, second.url), read_timeout_s=0.2)) as admin:
            addresses = [(await admin.get(PATH)).address for _ in range(3)]
        assert addresses == [second.url] * 3
        return addresses, len(first.asked)

    _, asked = with_cluster(scenario)
    assert asked == 1


def test_a_refusal_is_an_answer_and_asked_of_nobody_else() -> None:
    async def scenario(cluster: StandIn) -> tuple[Answer, int]:
        cluster.brokers[0].answers[PATH] = status(403)
        urls = tuple(broker.url for broker in cluster.brokers)
        async with PulsarAdmin(cluster.settings(service_urls=urls)) as admin:
            return await admin.get(PATH), len(cluster.brokers[1].asked)

    found, asked = with_cluster(scenario)
    assert (found.outcome, asked) == (Outcome.FORBIDDEN, 0)


def test_credentials_follow_a_redirect_to_a_listed_broker_only(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("SECRET\n")

    async def scenario(cluster: StandIn, trusted: bool) -> tuple[Answer, list[tuple[str, str]]]:
        first, second = cluster.brokers
        first.answers[PATH] = redirect_to(lambda _: f"{second.url}{PATH}")
        async with PulsarAdmin(cluster.settings(token_file=str(token))) as admin:
            admin.trust([second.url] if trusted else [])
            return await admin.get(PATH), second.asked

    refused, asked = with_cluster(lambda cluster: scenario(cluster, False))
    assert (refused.outcome, asked) == (Outcome.REDIRECTED, [])
    assert "not known" in refused.detail
    followed, asked = with_cluster(lambda cluster: scenario(cluster, True))
    assert (followed.outcome, asked) == (Outcome.OK, [(PATH, "Bearer SECRET")])


def test_redirects_end() -> None:
    found = answers_of({"": redirect_to(lambda broker: f"{broker.url}{PATH}")})[""]
    assert found.outcome is Outcome.REDIRECTED
    assert len(found.redirects) == 4


def test_redirects_to_nowhere_are_refused() -> None:
    places = ["http://[", "ftp://x/", "//", "http://u:p@127.0.0.1:1/", "http://x:99999/", "http://10.0.0.1:80/"]
    cases = {at: lambda broker, request, at=at: Response(status_code=307, headers={"Location": at}) for at in places}
    assert {answer.outcome for answer in answers_of(cases).values()} == {Outcome.REDIRECTED}


def test_a_service_url_that_hangs_costs_its_timeout_once() -> None:
    """Also calls that wait for a slot of it go elsewhere then, and a listed broker that answered is asked first."""

    async def run() -> tuple[list[Outcome], int]:
        async with stand_in(3) as cluster:
            hung, *others = cluster.brokers
            hung.answers[PATH] = hang
            async with PulsarAdmin(cluster.settings(service_urls=(hung.url,), read_timeout_s=0.3)) as admin:
                admin.trust(broker.url for broker in others)
                answers = await asyncio.gather(*(admin.get(PATH) for _ in range(8)))
                answers += [await admin.get(PATH) for _ in range(3)]
                return [answer.outcome for answer in answers], len(hung.asked)

    outcomes, asked = asyncio.run(run())
    assert outcomes == [Outcome.OK] * 11
    assert asked == PER_BROKER, "as many as it has slots, all at once"


def test_a_slow_trickle_is_given_up() -> None:
    async def trickle(broker: Broker, request: Request) -> Response:
        async def drops() -> Any:
            while not broker.cluster.released.is_set():
                yield b" "
                await asyncio.sleep(0.05)

        return StreamingResponse(drops())

    async def scenario(cluster: StandIn) -> Answer:
        cluster.brokers[0].answers[PATH] = trickle
        async with PulsarAdmin(cluster.settings()) as admin:
            return await admin.get(PATH, timeout_s=0.4)

    assert with_cluster(scenario).outcome is Outcome.TIMED_OUT


def test_slots_bound_the_calls_and_slow_brokers_have_their_own() -> None:
    async def scenario() -> tuple[int, bool]:
        slots, running, most = Slots(total=3, per_broker=2, for_slow=1), 0, 0
        for name in "xyz":
            slots.note(name, timed_out=True)
        stuck = [asyncio.create_task(_hold(slots, name)) for name in "xyz"]

        async def call(address: str) -> None:
            nonlocal running, most
            async with slots.take(address):
                running += 1
                most = max(most, running)
                await asyncio.sleep(0)
                running -= 1

        await asyncio.wait_for(asyncio.gather(*(call(f"b{at % 4}") for at in range(40))), 5)
        for task in stuck:
            task.cancel()
        return most, all(not task.done() for task in stuck)

    most, still_stuck = asyncio.run(scenario())
    assert most <= 3
    assert still_stuck


def test_an_address_that_is_trusted_no_more_is_forgotten_once_its_calls_have_ended() -> None:
    async def scenario(cluster: StandIn) -> None:
        listed, gone = cluster.brokers
        asked = asyncio.Event()

        async def wait(broker: Broker, request: Request) -> Response:
            asked.set()
            await cluster.released.wait()
            return Response(b"[]")

        gone.answers[PATH] = wait
        async with PulsarAdmin(cluster.settings()) as admin:
            admin.reading.note(gone.url, timed_out=True)
            call = asyncio.create_task(admin.get(PATH, gone.url))
            await asyncio.gather(asked.wait(), admin.get(PATH, listed.url))
            await admin.forget_untrusted()
            cluster.released.set()
            assert (await call).outcome is Outcome.OK
            client = admin._clients._clients[gone.url]
            await admin.forget_untrusted()
            assert client.is_closed
            assert set(admin._clients._clients) == set(admin.reading._of_broker) == {listed.url}
            assert not admin.reading.is_slow(gone.url)

    with_cluster(scenario)


async def _hold(slots: Slots, address: str) -> None:
    async with slots.take(address):
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://b:8080/", "http://b:8080"),
        ("https://B.example", "https://b.example:443"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_addresses_have_one_form(url: str, address: str) -> None:
    assert check_web_address(url) == address


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("pulsar://b:6650", "binary protocol"),
        ("b:8080", "no web address"),
        ("http://user:hunter2@b:8080", "user or password"),
        ("http://b:8080/admin", "has a path"),
        ("http://b:99999", "give an address"),
    ],
)
def test_what_is_no_service_url_says_why(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        check_web_address(url)
    assert "hunter2" not in str(error.value)


def test_without_a_service_url_nothing_starts() -> None:
    cluster = asyncio.run(_settings_without())
    with pytest.raises(ConfigError, match="--service-url"):
        PulsarAdmin(cluster)


async def _settings_without() -> Any:
    async with stand_in(1) as cluster:
        return cluster.settings(service_urls=())
