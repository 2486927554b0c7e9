"""`ballast ui` as a process: it prints its address, serves, and ends on SIGTERM; what prevents a start."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx
import pytest
import yaml

from controller.cli.main import main
from controller.process.access.named_tokens import NamedTokens
from controller.process.paths import CODE
from controller.testbed.local_cluster import LocalCluster
from tests.short_run import ShortRun

NOWHERE = "kafka.bootstrap_servers=127.0.0.1:1"


@contextmanager
def page_of(root: object) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A `ballast ui` on these tables, and what it prints."""
    command = [sys.executable, "-m", "controller.cli.main", "ui", "--port", "0", "--set", NOWHERE]
    process = subprocess.Popen(
        [*command, "--set", f"tables.root={root}"], cwd=CODE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield process, process.stdout
    finally:
        process.kill()
        process.communicate()


def test_it_serves_until_it_is_told_to_end(run: ShortRun) -> None:
    with page_of(run.root.root) as (process, printed):
        url = printed.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url), process.communicate(timeout=10)
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
            assert client.get("/now").headers["content-type"].startswith("text/html")
            shown = client.get("/api/now")
            while shown.status_code == 503:  # it has not read the tables yet
                shown = client.get("/api/now")
            assert shown.json()["seq"] == run.state.seq
            with client.stream("GET", "/api/live") as live:
                assert next(live.iter_lines()).startswith("data: ")
                process.send_signal(signal.SIGTERM)
                assert process.wait(15) == 0
        assert printed.read() == "", "the tables are there"


def test_a_page_without_tables_says_so(tmp_path: Path) -> None:
    with page_of(tmp_path / "none") as (process, printed):
        assert printed.readline().startswith("http://127.0.0.1:")
        told = f"there are no tables at {tmp_path / 'none'} yet; the page shows them as soon as there are"
        assert printed.readline().strip() == told
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0


def test_a_local_cluster_serves_its_page(run: ShortRun, tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "local")
    cluster.folder.mkdir()
    document = {"kafka": {"bootstrap_servers": "127.0.0.1:1"}, "tables": {"root": run.root.root}}
    cluster.config_file.write_text(json.dumps(document))
    url = cluster.serve_page()
    try:
        assert httpx.get(f"{url}now", trust_env=False, timeout=30).status_code == 200
        known = yaml.safe_load(cluster.config_file.read_text())
        assert known == {**document, "ui": {"port": int(url.rstrip("/").rpartition(":")[2])}}
    finally:
        assert cluster.children["page"].stop(15) == 0


def test_the_page_of_a_local_cluster_is_there_before_all_else(tmp_path: Path) -> None:
    """Neither Kafka nor a table is there yet: the page says so, and looks again."""
    cluster = LocalCluster(tmp_path / "local")
    url = cluster.serve_page()
    try:
        assert httpx.get(f"{url}now", trust_env=False, timeout=30).status_code == 200
        told = httpx.get(f"{url}api/now", trust_env=False, timeout=30)
        assert (told.status_code, told.json()["error"]) == (503, "no_tables")
        assert told.json()["text"].endswith("yet: a demo creates them at its start; this page tries again")
        known = yaml.safe_load(cluster.config_file.read_text())
        assert known["kafka"]["bootstrap_servers"] == cluster.kafka.bootstrap, "where Kafka is going to be"
        assert url == f"http://127.0.0.1:{known['ui']['port']}/", "where `ballast status` looks for it"
    finally:
        assert cluster.children["page"].stop(15) == 0


def called(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["ui", *arguments])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


def test_a_new_token_is_one_that_the_file_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called("--new-token", "anna", capsys=capsys)
    assert (code, err) == (0, "")
    token, line = (part.rpartition("  ")[2] for part in out.splitlines())
    file = tmp_path / "people"
    file.write_text(f"{line}\n")
    assert NamedTokens(file).name_of(token) == "anna"
    assert NamedTokens(file).name_of(line.partition(": ")[2]) is None
    assert called("--new-token", "two words", capsys=capsys)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--host", "0.0.0.0"], "HTTP beyond loopback needs authentication"),
        (["--token-file", "/nowhere/people"], "token file /nowhere/people cannot be used"),
    ],
)
def test_what_prevents_a_start(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(*arguments, "--port", "0", capsys=capsys)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
