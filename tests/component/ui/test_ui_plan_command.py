"""`ballast plan` asks a running page of the same tables, and decides by itself without one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from controller.cli.main import main
from controller.service.rounds import next_round
from tests.component.ui.conftest import served_page
from tests.short_run import OVERRIDES, ShortRun


@pytest.fixture(scope="module")
def address(run: ShortRun) -> Iterator[str]:
    with served_page(run.settings) as (_, address):
        with httpx.Client(base_url=address, trust_env=False, timeout=30) as client:
            while client.get("/healthz").json()["journal_id"] != run.state.journal_id:
                time.sleep(0.05)
        yield address


def plan(capsys: pytest.CaptureFixture[str], root: object, address: str, *words: str) -> str:
    port = address.rstrip("/").rpartition(":")[2]
    sets = [*OVERRIDES, f"tables.root={root}", f"ui.port={port}"]
    with pytest.raises(SystemExit) as ended:
        main(["plan", *words, *(part for given in sets for part in ("--set", given))])
    told = capsys.readouterr()
    assert (ended.value.code or 0, told.err) == (0, "")
    return told.out


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that decided a round in the command's own process."""
    calls: list[Any] = []
    real = next_round.plan_next_round

    def noted(*given: Any) -> Any:
        calls.append(given)
        return real(*given)

    monkeypatch.setattr(next_round, "plan_next_round", noted)
    return calls


def test_a_page_of_these_tables_is_asked(
    run: ShortRun, address: str, capsys: pytest.CaptureFixture[str], decided: list[Any]
) -> None:
    by_page = json.loads(plan(capsys, run.root.root, address, "--json", "--strategy", "threshold"))
    text = plan(capsys, run.root.root, address)
    assert decided == []
    alone = json.loads(plan(capsys, run.root.root, "http://127.0.0.1:1", "--json", "--strategy", "threshold"))
    assert len(decided) == 1
    told_by_age = ("loads_age_ms", "notes")
    assert {n: v for n, v in by_page.items() if n not in told_by_age} == {
        n: v for n, v in alone.items() if n not in told_by_age
    }
    assert "strategy headroom" in text, "the one in charge"


def test_a_page_of_other_tables_is_not(
    run: ShortRun, address: str, capsys: pytest.CaptureFixture[str], decided: list[Any], tmp_path: Any
) -> None:
    (tmp_path / "same").symlink_to(run.root.root)
    plan(capsys, tmp_path / "same", address)
    assert len(decided) == 1


def test_an_unknown_strategy_is_told_in_one_line(
    run: ShortRun, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--strategy", "nobody", "--set", f"tables.root={run.root.root}"])
    assert ended.value.code
    assert "nobody" in capsys.readouterr().err
