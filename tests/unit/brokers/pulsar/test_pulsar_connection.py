"""The options of the commands that reach a Pulsar cluster: the same for all, in their help and in what they set."""

from __future__ import annotations

import inspect
from contextlib import suppress
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.cli.pulsar.connection import Connection, takes_connection

COMMANDS = (["pulsar", "record"], ["pulsar", "advise"], ["pulsar", "check"], ["agent"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_every_option(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):
        main([*command, "--help"])
    shown = capsys.readouterr().out
    for option in ("service-url", "token-file", "tls-ca-file", "tls-cert-file", "tls-key-file", "oauth2-key-file"):
        assert f"--{option}" in shown
    for option in ("--conf", "--profile", "--set"):
        assert option in shown


def test_options_set_keys_and_beat_those_given_by_set(tmp_path: Path) -> None:
    given = Connection("http://a:1,http://b:2", tmp_path / "t", sets=["pulsar_cluster.token_file=/other"])
    cluster = given.settings("pulsar_cluster.host_cpu=true").pulsar_cluster
    assert cluster.service_urls == ("http://a:1", "http://b:2")
    assert cluster.token_file == str(tmp_path / "t")
    assert cluster.host_cpu
    assert Connection().settings().pulsar_cluster.service_urls == ()


def test_a_command_gets_its_own_options_and_the_connection() -> None:
    @takes_connection
    def command(connection: Connection, name: str, count: int = 3) -> tuple[Connection, str, int]:
        return connection, name, count

    assert command(name="x", service_url="http://a:1") == (Connection("http://a:1"), "x", 3)
    assert list(inspect.signature(command).parameters)[:3] == ["name", "count", "service_url"]
