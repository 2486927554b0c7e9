"""`ballast decide` as a process: lines in, lines out, whatever comes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.process.paths import ROOT
from tests.sim.decide.decide_lines import Lines, skewed

BALLAST = [sys.executable, "-m", "controller.cli.main", "decide"]
DEFAULTS = b"ballast decide: configuration: defaults; profile local\n"
TIMES = ("parse_ms", "snapshot_ms", "decide_ms")


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process, with pipes; it must end by itself when its input does."""
    process = subprocess.Popen(
        [*BALLAST, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_closed_input_is_an_empty_one() -> None:
    done = subprocess.run(["sh", "-c", f"{' '.join(BALLAST)} <&-"], capture_output=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", DEFAULTS)


def ask(process: subprocess.Popen[bytes], raw: bytes) -> dict[str, Any]:
    """One line out and its answer in, before the next one is sent."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(raw)
    process.stdin.flush()
    return dict(json.loads(process.stdout.readline()))


def test_a_stream_with_bad_lines_in_it() -> None:
    lines = skewed()
    with running("--strategy", "headroom", "--no-split") as process:
        first = ask(process, lines.next())
        assert not first["decisions"]
        assert {skip["reason"] for skip in first["skips"]} == {"200_hit_count", "100_balanced"}
        assert "hot in 1 round; more are needed" in {skip["why"] for skip in first["skips"]}
        assert "no JSON object" in ask(process, b"{nonsense\n")["error"]
        broken = lines.document()
        broken["brokers"]["b1:8080"]["bundles"]["t/ns/b1-3"][2] = "fast"
        assert "t/ns/b1-3: throughputIn = 'fast'" in ask(process, json.dumps(broken).encode() + b"\n")["error"]
        assert "error" in ask(process, b"\n")
        second = ask(process, lines.next())  # the hit of the first line was kept
        assert second["decisions"]
        for decision in second["decisions"]:
            assert decision["kind"] == "transfer"
            assert decision["from"] == "b0:8080"
            assert decision["to"] in ("b1:8080", "b2:8080", "b3:8080")
            assert decision["bundle"].startswith("t/ns/b0-")
            assert decision["reason"] in ("101_overloaded", "102_above_mean")
        assert all(second[name] >= 0 for name in TIMES)
        assert lines.carry_out(second) == len(second["decisions"])
        third = ask(process, lines.next())
        assert not {d["bundle"] for d in second["decisions"]} & {d["bundle"] for d in third["decisions"]}
        out, err = process.communicate(timeout=30)
        assert (out, err, process.returncode) == (b"", DEFAULTS, 0)


def test_a_file_and_options_say_how(tmp_path: Path) -> None:
    conf = tmp_path / "b.yaml"
    conf.write_text("rounds: {strategy: first}\nshedding: {consecutive_rounds: 1}\nsplit: {max_topics: 5}\n")
    raw = skewed().next()
    done = subprocess.run([*BALLAST, "--conf", str(conf)], input=raw, capture_output=True, timeout=60, check=True)
    assert done.stderr.decode() == f"ballast decide: configuration: file {conf}; profile local\n"
    kinds = {d["kind"] for d in json.loads(done.stdout)["decisions"]}
    assert kinds == {"transfer", "split"}
    one = [*BALLAST, "--conf", str(conf), "--no-split", "--set", "shedding.max_moves_per_round=1"]
    done = subprocess.run(one, input=raw, capture_output=True, timeout=60, check=True)
    assert [d["kind"] for d in json.loads(done.stdout)["decisions"]] == ["transfer"]
    assert b"; --set shedding.max_moves_per_round" in done.stderr
    by_variable = {**os.environ, "BALLAST_CONF": str(conf), "BALLAST_SPLIT__ENABLED": "false"}
    done = subprocess.run([*BALLAST], input=raw, capture_output=True, timeout=60, check=True, env=by_variable)
    assert {d["kind"] for d in json.loads(done.stdout)["decisions"]} == {"transfer"}
    told = f"file {conf} (BALLAST_CONF); profile local; environment variable BALLAST_SPLIT__ENABLED"
    assert told in done.stderr.decode()


def test_a_last_line_without_its_end_is_answered() -> None:
    done = subprocess.run([*BALLAST], input=skewed().next().rstrip(b"\n"), capture_output=True, timeout=60, check=True)
    assert len(done.stdout.splitlines()) == 1
    assert "decisions" in json.loads(done.stdout)


@pytest.mark.parametrize(("arguments", "text"), [
    (["--strategy", "best"], "strategy 'best' is none of"),
    (["--set", "shedding.grace_period_minutes=soon"], "shedding.grace_period_minutes"),
])  # fmt: skip
def test_what_cannot_start_says_so(arguments: list[str], text: str) -> None:
    done = subprocess.run([*BALLAST, *arguments], input=b"", capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert text in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_leaves_ends_the_stream_quietly() -> None:
    lines = Lines().broker("a", {"x": 1.0}).broker("b")
    with running() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        ask(process, lines.next())
        process.stdout.close()
        process.stdin.write(lines.next())
        process.stdin.close()
        assert process.stderr is not None
        assert process.stderr.read() == DEFAULTS
        assert process.wait(timeout=30) == 0


def test_the_page_s_example_is_answered_as_the_page_says() -> None:
    page = (ROOT / "docs" / "strategies.md").read_text()
    (line,) = re.findall(r"```json\n(\{.*?\})\n```", page, re.S)
    ((words, told),) = re.findall(r"\$ ballast decide (.*?) < lines\.jsonl\n(.*?)\n```", page, re.S)
    raw = json.dumps(json.loads(line)).encode()
    done = subprocess.run([*BALLAST, *words.split()], input=raw, capture_output=True, timeout=60, check=True)
    answer, expected = json.loads(done.stdout), json.loads(told)
    assert answer.keys() == expected.keys()
    assert {name: answer[name] for name in ("decisions", "skips")} == {
        name: expected[name] for name in ("decisions", "skips")
    }
