"""Calls the admin API of Pulsar's brokers. Every call ends in an `Answer`, in bounded time.

Redirects are followed by hand, as the same method, at most `MOST_REDIRECTS` times and only to addresses that may get
the credentials: the configured service URLs and the addresses of listed brokers (`trust`). A read that failed before
an answer is repeated once. Without an address, whoever answered last is asked first, then the service URLs in turn and
a few listed brokers, which know the cluster as well; those that hang come last.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, wait_random

import controller
from controller.brokers.pulsar.auth import BrokerTls, Credentials, CredentialsMissing, credentials_of
from controller.brokers.pulsar.clients import Clients
from controller.brokers.pulsar.outcomes import BEFORE_ANSWER, Answer, Outcome, is_of_pulsar, outcome_of_status, words_of
from controller.brokers.pulsar.slots import Slots
from controller.config.sections.pulsar_cluster import PulsarCluster
from controller.domain.errors import ConfigError
from controller.process.access.renewal import keep_renewed
from controller.pulsar.address import join_location, origin_of

MOST_REDIRECTS = 3
MOST_BYTES = 16 * 1024 * 1024
MOST_WORDS_BYTES = 65_536  # of a refusal
ATTEMPTS = 2
MOST_OTHERS = 2  # brokers that are asked when no service URL answers
REDIRECTS = frozenset({301, 302, 303, 307, 308})
HEADERS = {
    "User-Agent": f"ballast/{controller.__version__}",
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # compressing would cost the broker CPU
}


class PulsarAdmin:
    """One client for one Pulsar cluster; an async context manager."""

    def __init__(self, settings: PulsarCluster, credentials: Credentials | None = None) -> None:
        """Raises ConfigError if no service URL is given, or credentials cannot be read."""
        if not settings.service_urls:
            raise ConfigError("no address of a Pulsar cluster: give --service-url, or set pulsar_cluster.service_urls")
        self.settings = settings
        self.credentials = credentials or credentials_of(settings)
        self._good = settings.service_urls[0]  # who answered last, a service URL or a listed broker
        self._trusted = frozenset(settings.service_urls)
        self.reading = Slots()
        self._tls = BrokerTls(settings)
        self._renewing: asyncio.Task[None] | None = None
        self.sent = 0  # requests that read something
        self._clients = Clients(self._new_client)

    async def __aenter__(self) -> PulsarAdmin:
        if self._tls.renewal:
            self._renewing = asyncio.create_task(keep_renewed(self._tls.renewal))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        await self._clients.close()

    @property
    def tls(self) -> ssl.SSLContext:
        """For a connection of its own, in any thread; ask for it anew for each."""
        return self._tls.newest

    @property
    def scheme(self) -> str:
        """`http` or `https`, that of the service URLs."""
        return urlsplit(self.settings.service_urls[0]).scheme

    def trust(self, addresses: Iterable[str]) -> None:
        """Send credentials to the service URLs and to these addresses of listed brokers, and to nobody else."""
        self._trusted = frozenset((*self.settings.service_urls, *addresses))

    def trusts(self, origin: str | None) -> bool:
        """Whether the address gets the credentials."""
        return origin in self._trusted

    async def forget_untrusted(self) -> None:
        """Drop what is kept of addresses that get no credentials any more; calls under way are not disturbed."""
        self.reading.keep(self._trusted)
        await self._clients.keep(self._trusted)

    async def get(
        self, path: str, at: str | None = None, *, params: Mapping[str, str] | None = None, follow: bool = True,
        most_bytes: int = MOST_BYTES, timeout_s: float | None = None,
    ) -> Answer:  # fmt: skip
        """GET a path of the admin API. `at`: a broker's address; None: the service URLs in turn.

        `follow`: off, a redirect is the answer, with its address in `redirects`. `timeout_s`: of the whole call,
        without the wait for a slot.
        """
        request = _Read(path, dict(params or {}), follow, most_bytes, timeout_s or self._whole_timeout_s)
        if at is not None:
            answer = await self._retry(at, request)
            assert answer is not None, "a call to an address was left out"
            return answer
        return await self._ask_anybody(request)

    async def _ask_anybody(self, request: _Read) -> Answer:
        """The first answer; without one, the last failure."""
        turns = [(address, True) for address in self._anybody()]
        answer: Answer | None = None
        for address, unless_slow in turns:
            found = await self._retry(address, request, unless_slow)
            if found is None:
                turns.append((address, False))  # it hangs: after all others
                continue
            answer = found
            if found.outcome not in BEFORE_ANSWER:
                self._good = address
                break
        assert answer is not None, "no address was asked"
        return answer

    def _anybody(self) -> list[str]:
        """Who knows the cluster, in the order in which they are asked."""
        urls = self.settings.service_urls
        brokers = sorted(self._trusted - set(urls))[:MOST_OTHERS]
        good = [self._good] if self._good in self._trusted else []
        return list(dict.fromkeys((*good, *urls, *brokers)))

    def client(self, origin: str) -> AbstractAsyncContextManager[httpx.AsyncClient]:
        """The client for a request to this address."""
        return self._clients.take(origin)

    def _new_client(self) -> httpx.AsyncClient:
        timeout = httpx.Timeout(self.settings.read_timeout_s, connect=self.settings.connect_timeout_s)
        limits = httpx.Limits(max_connections=None, keepalive_expiry=60)
        return httpx.AsyncClient(
            verify=self._tls.lasting, timeout=timeout, limits=limits, headers=HEADERS, trust_env=False,
            follow_redirects=False,
        )  # fmt: skip

    @property
    def _whole_timeout_s(self) -> float:
        return self.settings.connect_timeout_s + self.settings.read_timeout_s

    async def _retry(self, address: str, request: _Read, unless_slow: bool = False) -> Answer | None:
        """The answer of an address; None if it is left out, as it did not answer lately."""
        attempts = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random(0.05, 0.2),
            retry=retry_if_result(lambda answer: answer is not None and answer.outcome is Outcome.UNREACHABLE),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        answer: Answer | None = await attempts(self._read, address, request, unless_slow)
        if answer is not None and answer.outcome is Outcome.UNAUTHENTICATED:
            self.credentials.forget()
        return answer

    async def _read(self, address: str, request: _Read, unless_slow: bool) -> Answer | None:
        async with self.reading.take(address):
            if unless_slow and self.reading.is_slow(address):  # perhaps since this call began to wait for its slot
                return None
            began = time.monotonic()
            try:
                answer = await asyncio.wait_for(self._follow(address, request), request.timeout_s)
            except asyncio.TimeoutError:
                detail = f"no whole answer within {request.timeout_s:g} s"
                answer = Answer(Outcome.TIMED_OUT, request.path, address, detail=detail)
            self.reading.note(address, answer.outcome is Outcome.TIMED_OUT)
        return replace(answer, took_ms=1000 * (time.monotonic() - began), sent=request.sent)

    async def _follow(self, address: str, request: _Read) -> Answer:
        url, redirects = f"{address}{request.path}", list[str]()
        while True:
            try:
                headers = await self.credentials.headers()
            except CredentialsMissing as error:
                return Answer(Outcome.NO_CREDENTIALS, request.path, address, detail=str(error))
            params = request.params if not redirects else None  # a Location is whole
            answer, location = await self._send(url, params, headers, request)
            if location is None:
                return replace(answer, redirects=tuple(redirects))
            redirects.append(location)
            if not request.follow:
                return replace(answer, redirects=tuple(redirects))
            origin = origin_of(location)
            if not self.trusts(origin) or len(redirects) > MOST_REDIRECTS:
                many = f"more than {MOST_REDIRECTS} redirects, the last to {origin}"
                detail = many if self.trusts(origin) else f"to {origin or 'no web address'}, which is not known"
                return replace(answer, redirects=tuple(redirects), detail=detail)
            url = location

    async def _send(
        self, url: str, params: Mapping[str, str] | None, headers: Mapping[str, str], request: _Read
    ) -> tuple[Answer, str | None]:
        """The answer to one request, and the address that it redirects to."""
        origin, request.received = origin_of(url) or "", 0
        self.sent += 1
        request.sent = self.sent
        failed = Answer(Outcome.UNREACHABLE, request.path, origin)
        try:
            async with (
                self.client(origin) as client,
                client.stream("GET", url, params=params, headers=dict(headers)) as response,
            ):
                location = response.headers.get("location")
                if response.status_code in REDIRECTS and location:
                    answer = Answer(Outcome.REDIRECTED, request.path, origin, response.status_code)
                    return answer, join_location(url, location)
                return await request.receive(response, origin), None
        except httpx.TimeoutException as error:
            what = "no connection" if isinstance(error, httpx.ConnectTimeout) else "no answer"
            return replace(failed, outcome=Outcome.TIMED_OUT, detail=f"{what} in time"), None
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:  # httpx wraps that of a handshake alone
            detail = " ".join(f"{type(error).__name__}: {str(error)[:200]}".split()).rstrip(": ")
            outcome = Outcome.CUT_OFF if request.received else Outcome.UNREACHABLE
            outcome = Outcome.TLS if _is_of_tls(error) else outcome
            return replace(failed, outcome=outcome, detail=detail), None


def _is_of_tls(error: BaseException | None) -> bool:
    """Whether TLS is behind an error: a certificate that is not accepted, here or there."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


class _Read:
    """One read, however many requests it takes."""

    def __init__(self, path: str, params: dict[str, str], follow: bool, most_bytes: int, timeout_s: float) -> None:
        self.path, self.params, self.follow = path, params, follow
        self.timeout_s, self.received, self.sent = timeout_s, 0, 0
        self._most_bytes = most_bytes

    async def receive(self, response: httpx.Response, origin: str) -> Answer:
        """The answer in a response that is no redirect."""
        status, outcome = response.status_code, outcome_of_status(response.status_code)
        good = outcome is Outcome.OK
        most = self._most_bytes if good else MOST_WORDS_BYTES
        kept = bytearray()
        async for chunk in response.aiter_bytes():
            self.received += len(chunk)
            if self.received > most:
                if good:
                    detail = f"more than {most} bytes"
                    return Answer(Outcome.TOO_LARGE, self.path, origin, status, detail=detail)
                break
            kept += chunk
        if good:
            return Answer(outcome, self.path, origin, status, bytes(kept))
        words = words_of(bytes(kept))
        outcome, own = outcome_of_status(status, words), is_of_pulsar(bytes(kept))
        return Answer(outcome, self.path, origin, status, detail=words, in_pulsars_words=own)
