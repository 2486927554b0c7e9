"""When averages of bundles are computed: beside the panes of a small batch, after those of a large one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.ledger.tables import TableRoot
from controller.loads.averages import ASIDE_FROM_ROWS, Averages
from controller.loads.driver_writer import Marker
from controller.loads.settings import LoadsSettings

MARKER = Marker("q", 0, {})


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Averages, list[str]]:
    """Averages that only note when they are written."""
    said: list[str] = []
    monkeypatch.setattr(Averages, "_write_bundles", lambda *_: said.append("averages"))
    settings = LoadsSettings("nowhere:1", "reports", str(tmp_path), str(tmp_path / "checkpoint"))
    return Averages(settings, TableRoot(tmp_path)), said


def panes() -> Any:
    raise AssertionError("nobody needs them here")


def test_executors_do_not_wait_for_the_averages_of_a_large_batch(told: tuple[Averages, list[str]]) -> None:
    averages, said = told

    def write_panes() -> None:
        assert averages._under_way is None, "it would take the CPU that the panes need"
        said.append("panes")

    averages.write_bundles(ASIDE_FROM_ROWS, panes, MARKER, 0, write_panes)
    averages.finish()
    assert said == ["panes", "averages"]


def test_a_small_batch_is_over_with_its_averages(told: tuple[Averages, list[str]]) -> None:
    averages, said = told
    averages.write_bundles(ASIDE_FROM_ROWS - 1, panes, MARKER, 0, lambda: said.append("panes"))
    assert sorted(said) == ["averages", "panes"]
    assert averages._under_way is None


def test_panes_that_are_not_written_have_no_averages(told: tuple[Averages, list[str]]) -> None:
    averages, said = told

    def fail() -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        averages.write_bundles(ASIDE_FROM_ROWS, panes, MARKER, 0, fail)
    averages.finish()
    assert said == []
