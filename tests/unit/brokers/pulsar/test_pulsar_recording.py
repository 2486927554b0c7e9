"""`ballast pulsar record`: its file, hashed names, gaps, and that everything reads what it writes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.backtest.recording.input import read_input
from controller.brokers.pulsar.recording import file as files
from controller.brokers.pulsar.recording.file import RecordingFile
from controller.brokers.pulsar.recording.names import KEY_SUFFIX, NameHasher
from controller.cli.main import main
from controller.domain.errors import BallastError, ConfigError
from controller.loads.recorded import Overrides
from controller.process.paths import ROOT
from controller.testbed.replay import read_recording
from tests.unit.brokers.pulsar.stand_in import StandIn, stand_in, status

A, B, C = (f"shop/orders/0x{at:x}0000000_0x{at + 4:x}0000000" for at in (0, 4, 8))


@pytest.fixture
def cluster() -> Iterator[StandIn]:
    """A stand-in in a thread of its own, for commands that run in this one."""
    loop, ready, ended = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    made: list[StandIn] = []

    async def run() -> None:
        async with stand_in(3) as one:
            for broker, bundle in zip(one.brokers, (A, B, C), strict=True):
                broker.held = {bundle: 100.0}
            made.append(one)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert ready.wait(20)
    yield made[0]
    loop.call_soon_threadsafe(ended.set)
    thread.join(20)
    loop.close()


def ballast(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def record(cluster: StandIn, out: Path, *words: str) -> int:
    """Record one poll."""
    url = cluster.brokers[0].url
    return ballast("pulsar", "record", "--service-url", url, "--out", str(out), "--for", "1s", *words)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines about brokers."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if "policies" not in line]


def test_what_is_recorded_is_what_backtests_and_replays_read(
    cluster: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.jsonl"
    assert record(cluster, out) == 0
    said = capsys.readouterr()
    assert "1 poll, 3 reports of 3 brokers, 3 bundles, no gaps" in said.out
    assert f"next: ballast pulsar advise {out}" in said.out
    assert "SECRET-OF-THE-BROKER" not in out.read_text() + said.out + said.err
    found = read_input(str(out), 1_000, Overrides(), tmp_path / "q.jsonl")
    assert (found.reports, found.refused) == (3, {})
    assert found.recording.bundles == (A, B, C)
    assert [(row.broker, row.report["lastStats"][A]["msgRateIn"]) for row in read_recording(out)[:1]] == [
        ("broker-1:8080", 100.0)
    ]


def test_sigterm_ends_with_a_summary(cluster: StandIn, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    words = ["pulsar", "record", "--service-url", cluster.brokers[0].url, "--out", str(out), "--every", "1s"]
    command = [sys.executable, "-m", "controller.cli.main", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stderr is not None
        assert "until Ctrl-C" in process.stderr.readline()
        while not (out.exists() and len(lines_of(out)) >= 3):
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "3 brokers" in said
    assert "next: ballast pulsar advise" in said


def test_a_recording_is_continued_after_a_torn_line(
    cluster: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.jsonl"
    record(cluster, out)
    whole = out.read_bytes()
    out.write_bytes(whole[:-40])
    assert record(cluster, out) == 0
    assert "continuing" in capsys.readouterr().err
    found = read_input(str(out), 1_000, Overrides(), tmp_path / "q.jsonl")
    assert (found.reports, found.refused) == (5, {"not_json": 1})


def test_gaps_are_recorded_and_read_over(cluster: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.jsonl"
    cluster.brokers[1].answers["/ownedNamespaces"] = lambda broker, request: (
        status(403)(broker, request) if broker.id in request.url.path else broker._usual(request.url.path)
    )
    cluster.brokers[2].answers["/load-report"] = status(500, "out of order")
    assert record(cluster, out) == 0
    lines = lines_of(out)
    assert [line["broker"] for line in lines if "report" in line] == ["broker-1:8080"]
    gaps = {(line["broker"], line["gap"]) for line in lines if "gap" in line}
    assert gaps == {("broker-2:8080", "forbidden"), ("broker-3:8080", "server_error")}
    assert "gaps of broker-3:8080: 1 server_error" in capsys.readouterr().out
    assert read_input(str(out), 1_000, Overrides(), tmp_path / "q.jsonl").refused == {}
    assert len(read_recording(out)) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--every", "0"), "no duration"),
        (("--for", "soon"), "no duration"),
        (("--service-url", "broker-1:8080"), "give an address such as"),
        (("--out", "r.jsonl.gz"), "archive"),
        (("--token-file", "/no/such"), "/no/such"),
    ],
)
def test_bad_options_are_one_line(
    words: tuple[str, ...], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.jsonl"
    given = {"--service-url": "http://127.0.0.1:1", "--out": str(out), words[0]: words[1]}
    assert ballast("pulsar", "record", *(word for pair in given.items() for word in pair)) == 2
    err = capsys.readouterr().err
    assert why in err
    assert err.count("\n") == 1
    assert not out.exists()


def test_nothing_recorded_is_a_failure(cluster: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for broker in cluster.brokers:
        broker.answers["/ownedNamespaces"] = status(403)
    assert record(cluster, tmp_path / "r.jsonl") == 1
    assert "super-user" in capsys.readouterr().err


def test_hashed_names_are_stable_and_hide_names_but_not_ranges(cluster: StandIn, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    for _ in range(2):
        assert record(cluster, out, "--hash-names") == 0
    names = {name for line in lines_of(out) for name in line["report"]["bundles"]}
    assert len(names) == 3
    assert {name.rpartition("/")[2] for name in names} == {name.rpartition("/")[2] for name in (A, B, C)}
    assert "shop" not in out.read_text()
    assert "orders" not in out.read_text()
    key = tmp_path / f"r.jsonl{KEY_SUFFIX}"
    assert key.stat().st_mode & 0o077 == 0
    assert len(read_input(str(out), 1_000, Overrides(), tmp_path / "q.jsonl").recording.bundles) == 3
    key.write_text("not a key")
    with pytest.raises(ConfigError, match="no key"):
        NameHasher.beside(out)


def test_the_extensible_manager_needs_topics(
    cluster: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.extensible = True
    assert record(cluster, tmp_path / "r.jsonl") == 2
    assert "add --topics" in capsys.readouterr().err
    out = tmp_path / "e.jsonl"
    assert record(cluster, out, "--topics") == 0
    found = read_input(str(out), 1_000, Overrides(unknown_nic_gbps=1.0), tmp_path / "q.jsonl")
    assert (found.reports, found.refused, found.recording.bundles) == (3, {}, (A, B, C))


def test_a_file_is_rotated_by_size_and_never_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    (tmp_path / "r-0001.jsonl").write_text("older\n")
    with RecordingFile(out, rotate_bytes=25) as file:
        for number in range(4):
            file.append({"n": number, "x": "123"})
        assert [path.name for path in file.rotated] == ["r-0002.jsonl", "r-0003.jsonl", "r-0004.jsonl"]
    assert (tmp_path / "r-0001.jsonl").read_text() == "older\n"
    assert [lines_of(path)[0]["n"] for path in (*file.rotated, out)] == [0, 1, 2, 3]


def test_two_processes_do_not_record_to_one_file(tmp_path: Path) -> None:
    with RecordingFile(tmp_path / "r.jsonl"), pytest.raises(ConfigError, match="another process"):
        RecordingFile(tmp_path / "r.jsonl")


def test_a_full_disk_leaves_no_torn_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) > 10:
            return real(descriptor, data[:5])
        raise OSError(28, "No space left on device")

    with RecordingFile(tmp_path / "r.jsonl") as file:
        file.append({"n": 1})
        monkeypatch.setattr(files.os, "write", half)
        with pytest.raises(BallastError, match="No space"):
            file.append({"n": 2, "x": "1234567890"})
        monkeypatch.undo()
        file.append({"n": 3})
    assert [line["n"] for line in lines_of(tmp_path / "r.jsonl")] == [1, 3]


@pytest.mark.parametrize("name", ["r.jsonl.gz", "no/such/folder\0/r"])
def test_a_file_that_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, ValueError)):
        RecordingFile(tmp_path / name)


def test_rules_of_placement_are_recorded_unless_names_are_hashed(cluster: StandIn, tmp_path: Path) -> None:
    policy = {"namespaces": ["shop/.*"], "primary": ["b.*"]}
    for broker in cluster.brokers:
        broker.answers["/namespaceIsolationPolicies"] = lambda b, r: {"p": policy}
    plain, hashed = tmp_path / "plain.jsonl", tmp_path / "hashed.jsonl"
    assert record(cluster, plain) == record(cluster, hashed, "--hash-names") == 0
    first = json.loads(plain.read_text().splitlines()[0])
    assert first["policies"] == {"isolation:p": policy}
    assert "shop" not in hashed.read_text()
    found = read_input(str(plain), 1_000, Overrides(), tmp_path / "q.jsonl")
    assert (found.reports, found.refused, found.policies) == (3, {}, {"isolation:p": policy})
    assert len(read_recording(plain)) == 3
