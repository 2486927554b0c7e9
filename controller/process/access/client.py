"""What Ballast's own clients show to agents: the token, and the certificate of mutual TLS.

A client that is configured for TLS sends its token over TLS only, so that nobody gets it by naming a plain address.
"""

from __future__ import annotations

import ssl
from collections.abc import Generator
from typing import Any

import httpx

from controller.domain.errors import BadRecord, printable
from controller.domain.strict_json import parse_strictly
from controller.process.access.access import HttpAccess

MOST_ANSWER_BYTES, MOST_WORDS = 1_048_576, 500  # of an answer; characters of what it says
REFUSALS = (401, 403)  # nothing but another token or certificate helps


class TokenAuth(httpx.Auth):
    """Adds the token that the file holds now to each request."""

    def __init__(self, access: HttpAccess) -> None:
        self._tokens, self._tls_only = access.tokens, access.tls.configured
        if self._tokens is not None:
            self._tokens.warn_if_shared()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """httpx calls it for each request."""
        if self._tokens is not None and (request.url.scheme == "https" or not self._tls_only):
            request.headers["Authorization"] = self._tokens.header()
        yield request


def verify_of(access: HttpAccess) -> ssl.SSLContext | bool:
    """How a client with this access checks servers and shows itself, as httpx takes it. Raises ConfigError."""
    return access.tls.client_context() if access.tls.configured else True


def new_client(access: HttpAccess, timeout_s: float) -> httpx.Client:
    """A client for addresses of agents. Raises ConfigError for TLS files that are of no use."""
    return httpx.Client(auth=TokenAuth(access), verify=verify_of(access), timeout=timeout_s, trust_env=False)


def new_async_client(access: HttpAccess, timeout_s: float) -> httpx.AsyncClient:
    """As `new_client`, for an event loop."""
    return httpx.AsyncClient(auth=TokenAuth(access), verify=verify_of(access), timeout=timeout_s, trust_env=False)


def read_object(answer: httpx.Response, most_bytes: int = MOST_ANSWER_BYTES) -> dict[str, Any]:
    """The JSON object that was answered. Raises BadRecord: whoever listens at an address may answer anything."""
    found = parse_strictly(answer.content, most_bytes, unique=False)
    if not isinstance(found, dict):
        raise BadRecord("not_object", f"a JSON {type(found).__name__}, not an object")
    return found


def refusal_text(url: str, answer: httpx.Response) -> str:
    """Why an agent has refused, in its own words if it gave any."""
    try:
        text = read_object(answer).get("text")
    except BadRecord:
        text = None
    if not isinstance(text, str):
        return f"{url} answered {answer.status_code}"
    told = printable(text[:MOST_WORDS])
    return f"{url}: {told}" if answer.status_code in REFUSALS else told
