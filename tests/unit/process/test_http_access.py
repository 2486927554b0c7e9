"""Where HTTP may be served: the decision, for addresses and names, and its one line."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import pytest

from controller.domain.errors import ConfigError
from controller.process.access.access import HttpAccess, check_exposure, url_of
from controller.process.access.loopback import is_loopback
from controller.process.access.tls import TlsFiles
from controller.process.http import HttpServer

SERVER_ALONE = TlsFiles(certificate="/c.pem", key="/k.pem")
MUTUAL = TlsFiles(certificate="/c.pem", key="/k.pem", client_authority="/ca.pem")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "127.1", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "0", "::", "", "192.168.0.7", "128.0.0.1", "fe80::1", "2001:db8::1", "::ffff:10.0.0.1", "::127.0.0.1",
     "[::1]", "*", "no such host", "nowhere.invalid", "x" * 300, "a..b"],
)  # fmt: skip
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["127.0.0.1", "::1"], True),
        (["127.0.0.1", "10.0.0.1"], False),  # one way in from outside is enough
        (["10.0.0.1"], False),
        (["::1%lo"], True),
        ([], False),
        (["nonsense"], False),
    ],
)
def test_a_name_is_what_it_resolves_to(addresses: Sequence[str], expected: bool) -> None:
    for name in ("localhost", "broker-1.example"):
        assert is_loopback(name, lambda host: addresses) is expected


def test_beyond_loopback_something_must_be_proven() -> None:
    for refused in (HttpAccess(), HttpAccess(open=frozenset({"health", "metrics"})), HttpAccess(tls=SERVER_ALONE)):
        with pytest.raises(ConfigError) as told:
            check_exposure(refused, "0.0.0.0", "agent.bind_host = 0.0.0.0 (profile cluster)")
        text = str(told.value)
        assert text.startswith("agent.bind_host = 0.0.0.0 (profile cluster): ")
        assert "\n" not in text
        for named in ("http.token_file", "http.client_authority", "http.allow_unauthenticated: true"):
            assert named in text
        check_exposure(refused, "127.0.0.1", "agent.bind_host")
    for allowed in (HttpAccess(tls=MUTUAL), HttpAccess(allow_unauthenticated=True)):
        check_exposure(allowed, "0.0.0.0", "agent.bind_host")


def test_the_server_itself_refuses_too_before_it_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "listen", lambda *given: pytest.fail("it listens"))
    with pytest.raises(ConfigError, match=r"listening on 0\.0\.0\.0:0: HTTP beyond loopback needs authentication"):
        HttpServer("0.0.0.0")


def test_addresses_of_servers() -> None:
    assert url_of(HttpAccess(), "b1.example", 80) == "http://b1.example:80"
    assert url_of(HttpAccess(tls=MUTUAL), "::1", 80) == "https://[::1]:80"
