"""The plain client shows the token where TLS lets it, and reads no more than it was told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from controller.process.access.access import NO_ACCESS_RULES, HttpAccess
from controller.process.access.plain_client import get
from controller.process.access.tls import TlsFiles
from controller.process.access.tokens import TokenFile

SEEN: list[tuple[str, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        SEEN.append((self.path, self.headers.get("Authorization")))
        body = b"x" * 100
        self.send_response(404 if self.path == "/none" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    SEEN.clear()
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "token").chmod(0o600)
    return TokenFile(tmp_path / "token")


def test_status_and_body(port: int) -> None:
    assert get(NO_ACCESS_RULES, "127.0.0.1", port, "/a?b=c", 5, 1_000) == (200, b"x" * 100)
    assert get(NO_ACCESS_RULES, "127.0.0.1", port, "/none", 5, 10) == (404, b"x" * 11)
    assert SEEN == [("/a?b=c", None), ("/none", None)]


def test_the_token_is_shown_but_not_in_plain_text_where_tls_is_configured(port: int, tokens: TokenFile) -> None:
    get(HttpAccess(tokens), "127.0.0.1", port, "/", 5, 1_000)
    get(HttpAccess(tokens, TlsFiles(server_authority="ca.pem")), "127.0.0.1", port, "/", 5, 1_000)
    assert SEEN == [("/", "Bearer secret"), ("/", None)]


def test_where_nobody_listens(port: int) -> None:
    with pytest.raises(OSError, match="refused"):
        get(NO_ACCESS_RULES, "127.0.0.1", 1, "/", 5, 1_000)
