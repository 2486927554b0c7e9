"""`ballast replay-reports` tells how far it is, and of each decision what it would have brought."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from controller.cli.tryout.replay_reports import _print
from controller.testbed.replay import ReplayResult
from controller.testbed.replay_progress import LINE_EVERY_S, ReplayProgress


def told(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> str:
    """A replay of 200 reports and 30 rounds that takes 25 s, as it is told."""
    out, now_s = io.StringIO(), [0.0]
    monkeypatch.setattr("controller.testbed.replay_progress.time.monotonic", lambda: now_s[0])
    with ReplayProgress(Console(file=out, width=100, force_terminal=terminal)) as progress:
        progress.doing("Kafka starts (a JVM)")
        for sent in range(1, 201):
            progress.count("reports sent", sent, 200)
        progress.doing("waiting for the recording's last round")
        for decided in range(26):
            now_s[0] += 1.0
            progress.count("rounds decided", decided, 25)
    return out.getvalue()


def test_without_a_terminal_it_tells_lines_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told(monkeypatch, terminal=False).splitlines()
    assert lines[:3] == [
        "[   0.0 s] Kafka starts (a JVM)",
        "[   0.0 s] reports sent: 200 of 200",
        "[   0.0 s] waiting for the recording's last round",
    ]
    assert lines[-1] == "[  26.0 s] rounds decided: 25 of 25"
    assert [line[-8:] for line in lines[3:-1]] == [" 9 of 25", "19 of 25"], f"one in {LINE_EVERY_S:g} s"


def test_on_a_terminal_it_draws_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = told(monkeypatch, terminal=True)
    assert "reports sent" in drawn
    assert "200/200" in drawn
    assert "25/25" in drawn
    assert "━" in drawn


def test_every_decision_shows_the_loads_that_were_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    move = {
        "at_ms": 1_790_000_000_000, "kind": "transfer", "bundle": "t/ns/0x00000000_0x80000000", "source": "a:1",
        "target": "b:1", "reason": "102_above_mean", "evidence": {},
        "before": {"a:1": 0.62, "b:1": 0.1}, "after": {"a:1": 0.41, "b:1": 0.31},
    }  # fmt: skip
    _print(ReplayResult(reports=9, rounds=3, decisions=[move]), as_json=False)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "t/ns/0x" in line]
    assert "62.0 % → 41.0 %" in line
    assert "10.0 % → 31.0 %" in line
    assert "above the mean" in line
