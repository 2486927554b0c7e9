"""Starts that would open HTTP to the network, or whose token or TLS files are of no use, are refused with one line."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.config.http_access import check_http_access
from controller.config.load import load_settings
from controller.domain.errors import ConfigError
from controller.service.start_checks import check_job
from controller.testbed.pulsar.credentials import Credentials

AGENT = ("agent", "--broker-id", "b1:8080")
PULSAR_AGENT = ("agent", "--runtime", "pulsar", "--service-url", "http://127.0.0.1:1")
ALL = ((AGENT, "agent.bind_host"), (PULSAR_AGENT, "agent.bind_host"), (("run",), "http.bind_host"))


@pytest.fixture(autouse=True)
def nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "listen", lambda *given: pytest.fail("it listens"))


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "http.tok"
    file.write_text("s3cr3t-5f1c")
    file.chmod(0o600)
    return file


def refusal(capsys: pytest.CaptureFixture[str], folder: Path, *words: str, **keys: object) -> str:
    given = {"tables__root": folder / "t", "tables__checkpoints": folder / "c", **keys}
    sets = [word for key, value in given.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
    with pytest.raises(SystemExit) as ended:
        main([*words, *sets])
    err = capsys.readouterr().err
    assert (ended.value.code, err.count("\n")) == (2, 1), err
    return err


@pytest.mark.parametrize(("words", "key"), ALL)
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "nowhere.invalid"])
def test_beyond_loopback(
    words: tuple[str, ...], key: str, host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refusal(capsys, tmp_path, *words, **{key.replace(".", "__"): host})
    assert f"{key} = {host} (override): HTTP beyond loopback needs authentication" in told
    assert "set http.token_file, or http.tls_certificate, http.tls_key and http.client_authority" in told
    assert "http.allow_unauthenticated: true" in told


def test_the_profile_for_several_machines_needs_it_and_config_check_says_so(
    tmp_path: Path, token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("config", "check", "--profile", "cluster")
    assert "http.bind_host = 0.0.0.0 (profile cluster)" in refusal(capsys, tmp_path, *words)
    assert "agent.bind_host = 0.0.0.0 (profile cluster)" in refusal(
        capsys, tmp_path, *words, http__bind_host="127.0.0.1"
    )
    for more in (f"http.token_file={token}", "http.allow_unauthenticated=true"):
        sets = [f"tables.root={tmp_path}/t", f"tables.checkpoints={tmp_path}/c", more]
        with pytest.raises(SystemExit) as ended:
            main([*words, *(word for each in sets for word in ("--set", each))])
        assert ended.value.code == 0
        assert "ok: profile cluster" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "key"), ALL)
def test_token_files_of_no_use_even_on_loopback(
    words: tuple[str, ...], key: str, tmp_path: Path, token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token.write_text("")
    told = refusal(capsys, tmp_path, *words, http__token_file=token)
    assert f"http.token_file = {token} (override) cannot be used: it does not hold one word" in told
    token.unlink()
    told = refusal(capsys, tmp_path, *words, http__token_file=token)
    assert f"http.token_file = {token} (override) cannot be used: No such file or directory; put a token" in told


@pytest.mark.parametrize(("words", "key"), ALL)
def test_tls_files_of_no_use(
    words: tuple[str, ...], key: str, tmp_path: Path, token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refusal(capsys, tmp_path, *words, http__tls_certificate=token, http__tls_key=token)
    assert f"TLS files {token} with {token}: " in told
    told = refusal(capsys, tmp_path, *words, http__server_authority="/no/such.pem")
    assert "TLS files /no/such.pem: No such file or directory" in told


@pytest.mark.parametrize(
    ("sets", "why"),
    [
        (["http.tls_certificate=/c"], r"http\.tls_certificate \(override\) is given alone"),
        (["http.tls_key=/k"], r"http\.tls_key \(override\) is given alone"),
        (["http.client_authority=/ca"], r"http\.client_authority \(override\) has no effect without TLS"),
        (["http.open=health,lookups"], r"http\.open = .* 'lookups' cannot be opened|http\.open = .*health, metrics"),
    ],
)
def test_keys_that_would_have_no_effect(sets: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_settings(None, overrides=sets, env={})


def test_endpoints_to_open_come_from_every_layer() -> None:
    assert load_settings(None, overrides=["http.open=health,metrics"], env={}).http.open == ("health", "metrics")
    assert load_settings(None, env={"BALLAST_HTTP__OPEN": "health"}).http.open == ("health",)


def test_what_may_start(tmp_path: Path, token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond loopback only the decision is made, without listening."""
    credentials = Credentials(tmp_path / "pki")
    credentials.prepare("tls", tls=True)
    certificate, key = credentials.certificate("server")
    tls = [f"http.tls_certificate={certificate}", f"http.tls_key={key}"]
    mutual = [*tls, f"http.client_authority={credentials.authority}"]
    for more in ([f"http.token_file={token}"], ["http.allow_unauthenticated=true"], mutual):
        settings = load_settings(None, "cluster", more, env={})
        for key in ("http.bind_host", "agent.bind_host"):
            check_http_access(settings, key)
    for more, why in (
        (tls, "beyond loopback needs authentication"),  # of the server alone
        ([*tls, f"http.client_authority={token}", f"http.server_authority={credentials.authority}"], f"files {token}"),
    ):
        with pytest.raises(ConfigError, match=why):
            check_http_access(load_settings(None, "cluster", more, env={}), "http.bind_host")
    monkeypatch.undo()
    places = [f"tables.root={tmp_path}/t", f"tables.checkpoints={tmp_path}/c"]
    check_job(load_settings(None, overrides=places, env={}))
