"""Asks an endpoint of ours once, with the standard library alone: other clients take a command 0.1 s to import."""

from __future__ import annotations

import http.client

from controller.process.access.access import HttpAccess


def get(access: HttpAccess, host: str, port: int, path: str, timeout_s: float, most_bytes: int) -> tuple[int, bytes]:
    """Status and body of the answer; of a larger body one byte more than `most_bytes`.

    Shows what `client.new_client` shows. Raises OSError, HTTPException of http.client, ConfigError for TLS files that
    are of no use.
    """
    connection: http.client.HTTPConnection
    if access.scheme == "https":
        context = access.tls.client_context()
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path, headers=_headers(access))
        answer = connection.getresponse()
        return answer.status, answer.read(most_bytes + 1)
    finally:
        connection.close()


def _headers(access: HttpAccess) -> dict[str, str]:
    if access.tokens is None or (access.tls.configured and access.scheme != "https"):
        return {}
    access.tokens.warn_if_shared()
    return {"Authorization": access.tokens.header()}
