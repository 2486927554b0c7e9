"""What `ballast status` says of the mass-failure breaker, also once it has been reset."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.look.brokers import _state_text
from controller.cli.look.status import _print
from controller.config.sections.platform import Tables
from controller.config.settings import Settings
from controller.domain.entries import Entry, Kind
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.liveness import Heard
from controller.operations.overview import broker_rows, status
from controller.operations.reading import Reader
from tests.short_run import ShortRun, begin_skewed

NOW_MS = 1_700_000_000_000
TRIPPED = {"frozen": True, "silent": ["b:1", "c:1"], "alive": 1}
RESET = {"frozen": False, "silent": [], "alive": 3}


def told(tmp_path: Path, capsys: pytest.CaptureFixture[str], *ago_ms: int) -> str:
    """What status prints of a journal whose breaker tripped and was reset, so long ago."""
    root = TableRoot(str(tmp_path / "tables"))
    root.create_all()
    entries = [Entry(1, Kind.CONTROLLER_STARTED, "c1", 0, NOW_MS - 9_000_000, data={"journal_id": "ours"})]
    for seq, (reason, data, ago) in enumerate(
        zip(("mass_failure", "thawed"), (TRIPPED, RESET), ago_ms, strict=False), 2
    ):
        entries.append(Entry(seq, Kind.GUARD, "c1", 0, NOW_MS - ago, reason=reason, data=data))
    Journal(root).commit(entries, "c1", 0)
    reader = Reader(Settings(tables=Tables(root=root.root)))
    found = status(reader, NOW_MS, Heard("c1", NOW_MS - 100, "ours"), None)
    assert found["guard_frozen"] is (len(ago_ms) == 1)
    _print({"cluster": "c", "tables": "t", **found})
    return capsys.readouterr().out


def test_a_breaker_that_has_been_reset_is_an_alarm_of_the_hour(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = told(tmp_path, capsys, 900_000, 300_000)
    assert "alarms       1 in the last hour" in text
    assert "mass_failure: the mass-failure breaker tripped: 2 brokers silent, 1 alive" in text
    assert "b:1, c:1" in text
    assert "keeps leases alive" not in text, "no more"


def test_one_that_has_tripped_is_a_problem_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(tmp_path, capsys, 300_000)
    assert "alarms       1 in the last hour" in text
    assert "! the mass-failure breaker keeps leases alive" in text


def test_one_of_long_ago_is_not_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(tmp_path, capsys, 5_000_000, 4_000_000)
    assert "alarms       0 in the last hour" in text


def fall_silent(run: ShortRun, *brokers: str) -> None:
    """All of them at once, which trips the breaker."""
    for broker in brokers:
        del run.sessions[broker]
    while not run.state.frozen:
        run.now_ms += 700
        run.batch()


def brokers_line(run: ShortRun, capsys: pytest.CaptureFixture[str]) -> str:
    found = status(Reader(run.settings), run.now_ms, Heard(run.state.instance, run.now_ms - 100), None)
    _print({"cluster": "c", "tables": "t", **found})
    return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("brokers "))


def test_brokers_whose_sessions_the_breaker_keeps_are_silent_and_not_alive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin_skewed(tmp_path / "tables", 3, 6, 0)
    left = len(run.owned_by("b2:8080")) + len(run.owned_by("b3:8080"))
    assert left
    fall_silent(run, "b2:8080", "b3:8080")
    line = brokers_line(run, capsys)
    silent = f"2 silent when the breaker tripped: b2:8080, b3:8080 ({left} bundles unserved until they are back)"
    assert line.split(maxsplit=1)[1] == f"1 alive, {silent}"
    assert [_state_text(row) for row in broker_rows(Reader(run.settings))] == ["alive", "silent", "silent"]


def test_one_that_has_registered_again_is_not_silent_any_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin_skewed(tmp_path / "tables", 5, 5, 0)
    fall_silent(run, "b2:8080", "b3:8080", "b4:8080", "b5:8080")
    run.join("b2:8080", 2)
    assert run.state.frozen, "three of five are too many"
    line = brokers_line(run, capsys)
    assert "2 alive, 3 silent when the breaker tripped: b3:8080, b4:8080, b5:8080 (" in line
    for broker in ("b3:8080", "b4:8080", "b5:8080"):
        run.join(broker, 2)
    assert not run.state.frozen
    assert "5 alive" in brokers_line(run, capsys)
