"""Lookups at agents that demand a token: the command, the clients' library and their programs."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from controller.brokers.reference.client.lookup import Lookup
from controller.brokers.reference.client.process import add_lookup_arguments, lookup_of
from controller.cli.act.topic import LookupFailed, ask
from controller.cli.main import main
from controller.ledger.partial.outline import Outline
from controller.process.access.access import HttpAccess
from controller.process.access.tls import TlsFiles
from controller.process.access.tokens import TokenFile
from controller.testbed.demo.workload import CONSUMER
from controller.testbed.pulsar.credentials import Credentials
from tests.component.lookup_agent import lookup_agent
from tests.e2e.waiting import wait_until
from tests.short_run import ShortRun, info_of

TOPIC, SECRET = "persistent://shop/orders/paid", "s3cr3t-5f1c"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    """Tables without a broker yet: the agent's address is known once it listens."""
    return ShortRun(tmp_path_factory.mktemp("guarded") / "tables")


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("token") / "http.tok", SECRET)


def write(file: Path, text: str) -> Path:
    file.write_text(text)
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def agent(run: ShortRun, token: Path) -> Iterator[str]:
    """A guarded agent, whose broker owns shop/orders."""
    with lookup_agent(lambda: run.state, HttpAccess(TokenFile(token))) as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.short_run.info_of", lambda broker: info_of(broker) | {"lookup_url": url})
        run.join("b1:8080")
        run.command("create_namespace", namespace="shop/orders", bundles=2)
        run.look_up(*(record.bundle for record in list(run.state.bundles.values())))
        yield url


@pytest.fixture
def conf(run: ShortRun, token: Path, tmp_path: Path) -> Path:
    document = {"tables": {"root": run.root.root}, "http": {"token_file": str(token)}}
    return write(tmp_path / "ballast.yaml", yaml.safe_dump(document))


def test_with_and_without_a_token(agent: str, token: Path, tmp_path: Path) -> None:
    assert ask([agent], TOPIC, 30, HttpAccess(TokenFile(token)))["broker"] == "b1:8080"
    with pytest.raises(LookupFailed, match=rf"{agent}: a token is missing: .*http\.token_file"):
        ask([agent], TOPIC, 30)
    other = TokenFile(write(tmp_path / "other", "another-token"))
    with pytest.raises(LookupFailed, match="not one of those that are accepted") as told:
        ask([agent], TOPIC, 30, HttpAccess(other))
    assert "another-token" not in str(told.value)


def test_lookups_over_mutual_tls(agent: str, run: ShortRun, tmp_path: Path) -> None:
    credentials = Credentials(tmp_path / "pki")
    credentials.prepare("tls", tls=True)
    authority = str(credentials.authority)

    def shown(role: str) -> HttpAccess:
        return HttpAccess(tls=TlsFiles(*map(str, credentials.certificate(role)), client_authority=authority))

    async def find(url: str) -> str:
        lookup = Lookup([url], access=shown("admin"))
        try:
            return (await asyncio.wait_for(lookup.find(TOPIC), 30)).broker
        finally:
            await lookup.close()

    with lookup_agent(lambda: run.state, shown("server")) as url:
        assert ask([url], TOPIC, 30, shown("admin"))["broker"] == "b1:8080"
        assert asyncio.run(find(url)) == "b1:8080"
        with pytest.raises(LookupFailed, match=url):
            ask([url], TOPIC, 30, HttpAccess(tls=TlsFiles(server_authority=authority)))


def test_an_agent_that_does_not_let_us_in_is_passed_over(agent: str, run: ShortRun) -> None:
    with lookup_agent(lambda: run.state) as unguarded:
        assert ask([agent, unguarded], TOPIC, 30)["broker"] == "b1:8080"


def test_the_command_shows_the_token_of_its_configuration(
    agent: str, conf: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["topic", "lookup", TOPIC, "--json", "--conf", str(conf)])
    assert ended.value.code == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["lookup_url"] == agent
    assert SECRET not in out + err
    with pytest.raises(SystemExit):
        main(["topic", "lookup", TOPIC, "--conf", str(conf), "--set", "http.token_file="])
    assert "a token is missing" in capfd.readouterr().err


def test_an_observed_broker_is_not_asked_and_sees_no_token(
    agent: str, conf: Path, run: ShortRun, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(run.state.brokers["b1:8080"].info, "authority", "metadata")  # type: ignore[arg-type]
    monkeypatch.setattr("controller.operations.reading.Reader.outline", lambda reader: Outline.of_state(run.state))
    with pytest.raises(SystemExit):
        main(["topic", "lookup", TOPIC, "--conf", str(conf)])
    assert "no living broker has told where it answers lookups" in capfd.readouterr().err


def test_clients_show_the_token_and_say_once_that_they_are_refused(
    agent: str, token: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def find(access: HttpAccess, patience_s: float) -> str:
        lookup = Lookup([agent], access=access)
        try:
            return (await asyncio.wait_for(lookup.find(TOPIC), patience_s)).broker
        finally:
            await lookup.close()

    assert asyncio.run(find(HttpAccess(TokenFile(token)), 30)) == "b1:8080"
    caplog.set_level(logging.WARNING)
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(find(HttpAccess(), 0.5))
    (line,) = caplog.records
    assert "lookups are refused, trying again" in line.getMessage()
    assert "http.token_file" in line.getMessage()


def test_client_programs_take_it_from_a_configuration(agent: str, conf: Path) -> None:
    parser = argparse.ArgumentParser()
    add_lookup_arguments(parser)

    async def find() -> str:
        lookup = lookup_of(parser.parse_args(["--lookup", agent, "--conf", str(conf)]))
        try:
            return (await asyncio.wait_for(lookup.find(TOPIC), 30)).broker
        finally:
            await lookup.close()

    assert asyncio.run(find()) == "b1:8080"


def test_the_list_of_processes_shows_no_token(agent: str, conf: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    argv = [*CONSUMER, "--lookup", agent, "--conf", str(conf), "--name", "c", "--subscription", "s", "--log", str(log)]
    child = subprocess.Popen([*argv, "--topic", TOPIC], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process = psutil.Process(child.pid)
        wait_until(lambda: bool(process.cmdline()), 60)  # it is empty for a moment while the program is being loaded
        shown = str(process.cmdline()) + str(process.environ())
        assert str(conf) in shown
        assert SECRET not in shown
    finally:
        child.communicate(b'{"stop": true}\n', 60)
    assert child.returncode == 0
    assert SECRET not in log.read_text()


def test_a_client_program_without_its_token_file_ends_with_one_line(agent: str, tmp_path: Path) -> None:
    words = ["--lookup", agent, "--set", f"http.token_file={tmp_path}/none", "--name", "c", "--subscription", "s"]
    ended = subprocess.run(
        [*CONSUMER, *words, "--log", str(tmp_path / "log")], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr == (
        f"ballast: http.token_file = {tmp_path}/none (override) cannot be used: No such file or directory; put a token "
        "into it, alone on its line\n"
    )
    assert sys.executable in CONSUMER
