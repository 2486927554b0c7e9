"""Tables on a terminal: what does not fit is printed in rows of named values, and no id is ever cut."""

from __future__ import annotations

import pytest

from controller.cli.show import emit_table

IDS = [f"demo/orders/0xc{n}000000_0xc{n + 1}000000" for n in range(3)]
REASON = "405_would_not_improve (hard): would not improve the balance"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns; a terminal is what FORCE_COLOR makes of a pipe."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")


def test_a_column_of_several_words_is_not_cut(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    """The longest word of a column that does not wrap says nothing of the room that it needs."""
    rows = [(one, "broker-1", "95.0 % → 61.0 %", REASON) for one in IDS]
    emit_table(["bundle", "target", "source >", "reason"], rows)
    out = capsys.readouterr().out
    assert out.count("broker-1") == len(IDS)
    assert all(one in out for one in IDS)
    assert out.count("95.0 % → 61.0 %") == len(IDS)
    assert " ".join(out.split()).count("would not improve the balance") == len(IDS)
    assert max(map(len, out.splitlines())) <= 80


def test_a_column_that_wraps_gives_way_to_those_that_do_not(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    emit_table(["bundle", "target", "reason …"], [(one, "broker-1", REASON) for one in IDS])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["bundle", "target", "reason"]
    assert [line.split()[:2] for line in lines[1:] if "demo" in line] == [[one, "broker-1"] for one in IDS]
    assert " ".join(line[len(IDS[0]) + 12 :].strip() for line in lines[1:]) == " ".join([REASON] * len(IDS))
    assert max(map(len, lines)) <= 80


def test_what_no_width_is_enough_for_comes_in_rows_of_named_values(
    terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    emit_table(["bundle", "in exchange for", "reason …"], [(one, one, REASON) for one in IDS])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in IDS] == IDS
    assert sum(line.startswith("  in exchange for demo/orders/") for line in lines) == len(IDS)
