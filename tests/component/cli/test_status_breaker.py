"""What `ballast status` says of the mass-failure breaker, also once it has been reset."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.look.status import _print
from controller.config.sections.platform import Tables
from controller.config.settings import Settings
from controller.domain.entries import Entry, Kind
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.liveness import Heard
from controller.operations.overview import status
from controller.operations.reading import Reader

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
