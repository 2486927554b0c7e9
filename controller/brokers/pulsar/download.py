"""Reads one large answer into a file, at wire speed.

Blocking, with `http.client`, in a thread: the layers that httpx puts around every piece of a body cost more CPU than
parsing it does (docs/decisions/0013). A connection is made for each answer. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import IO
from urllib.parse import urlsplit

from controller.brokers.pulsar.admin import HEADERS, MOST_WORDS_BYTES, REDIRECTS, PulsarAdmin
from controller.brokers.pulsar.auth import CredentialsMissing
from controller.brokers.pulsar.outcomes import Answer, Outcome, outcome_of_status, words_of

PIECE_BYTES = 262_144


async def download(
    admin: PulsarAdmin, path: str, address: str, into: IO[bytes], threads: Executor, *, most_bytes: int,
    timeout_s: float,
) -> Answer:  # fmt: skip
    """GET a path at a broker's address; the body of an OK answer is written to `into`.

    `timeout_s`: of the whole call, without the wait for a slot.
    """
    async with admin.reading.take(address):
        try:
            headers = {**HEADERS, **await admin.credentials.headers()}
        except CredentialsMissing as error:
            return Answer(Outcome.NO_CREDENTIALS, path, address, detail=str(error))
        began = time.monotonic()
        call = _Call(admin, path, address, headers, into, most_bytes)
        work = asyncio.get_running_loop().run_in_executor(threads, call.run)
        try:
            done, _ = await asyncio.wait([work], timeout=timeout_s)
        finally:
            call.abandon()
            await asyncio.wait([work])  # it writes into the file until then
        answer = work.result()
        if not done:
            detail = f"no whole answer within {timeout_s:g} s"
            answer = Answer(Outcome.TIMED_OUT, path, address, detail=detail)
        if answer.outcome is Outcome.UNAUTHENTICATED:
            admin.credentials.forget()
        admin.reading.note(address, answer.outcome is Outcome.TIMED_OUT)
        return replace(answer, took_ms=1000 * (time.monotonic() - began))


class _Call:
    """One request. `run` blocks; `abandon`, from another thread, makes it end."""

    def __init__(
        self, admin: PulsarAdmin, path: str, address: str, headers: Mapping[str, str], into: IO[bytes], most_bytes: int
    ) -> None:
        self._path, self._address, self._headers = path, address, {**headers, "Connection": "close"}
        self._into, self._most_bytes, self._received = into, most_bytes, 0
        self._settings = admin.settings
        self._socket: socket.socket | None = None
        parts, connect_s = urlsplit(address), admin.settings.connect_timeout_s
        host, port = parts.hostname or "", parts.port
        self._connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection(host, port, timeout=connect_s, context=admin.tls)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=connect_s)
        )
        self._abandoned = False

    def run(self) -> Answer:
        """Send the request and receive the answer."""
        try:
            self._connection.connect()
            self._socket = self._connection.sock
            self._socket.settimeout(self._settings.read_timeout_s)
            if self._abandoned:
                return self._failed(Outcome.TIMED_OUT, "abandoned")
            self._connection.request("GET", self._path, headers=self._headers)
            with self._connection.getresponse() as response:
                return self._receive(response)
        except TimeoutError:
            return self._failed(Outcome.TIMED_OUT, "no answer in time")
        except ssl.SSLError as error:
            return self._failed(Outcome.TLS, error.reason or "")
        except (OSError, ValueError, http.client.HTTPException) as error:
            outcome = Outcome.CUT_OFF if self._received else Outcome.UNREACHABLE
            return self._failed(outcome, f"{type(error).__name__}: {str(error)[:200]}")
        finally:
            self._connection.close()

    def abandon(self) -> None:
        """End `run` soon."""
        self._abandoned = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _receive(self, response: http.client.HTTPResponse) -> Answer:
        status = response.status
        answer = Answer(outcome_of_status(status), self._path, self._address, status)
        location = response.headers.get("Location")
        if status in REDIRECTS and location:
            return replace(answer, outcome=Outcome.REDIRECTED, redirects=(location,))
        if answer.outcome is not Outcome.OK:
            words = words_of(response.read(MOST_WORDS_BYTES))
            return replace(answer, outcome=outcome_of_status(status, words), detail=words)
        piece = memoryview(bytearray(PIECE_BYTES))
        while count := response.readinto(piece):
            self._received += count
            if self._received > self._most_bytes:
                return replace(answer, outcome=Outcome.TOO_LARGE, detail=f"more than {self._most_bytes} bytes")
            try:
                self._into.write(piece[:count])
            except OSError as error:
                return replace(answer, outcome=Outcome.TOO_LARGE, detail=f"the file for it: {error.strerror}")
        if response.length:
            return self._failed(Outcome.CUT_OFF, f"{response.length} bytes are missing")
        return answer

    def _failed(self, outcome: Outcome, detail: str) -> Answer:
        return Answer(outcome, self._path, self._address, detail=detail)
