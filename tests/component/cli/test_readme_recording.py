"""What the guide for SREs says of the recording that comes with Ballast is what its own command finds."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.process.paths import ROOT
from tests.documents.test_demo_readme import typed

GUIDE = (ROOT / "docs" / "guides" / "sre_pulsar.md").read_text()
RECORDING = "tests/data/real/pulsar_load_reports.jsonl"


def test_the_guides_backtest_finds_the_guides_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = next(line for line in typed(GUIDE) if line.startswith(f"ballast backtest --reports {RECORDING}"))
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("BALLAST_CONF", raising=False)
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command)[1:], "--out", str(tmp_path), "--jobs", "1"])
    assert not ended.value.code, capsys.readouterr().err
    rows = {row["strategy"]: row for row in json.loads((tmp_path / "results.json").read_text())["points"]}
    found = [
        (f"{row['max_best_mean']:.3f}", str(row["moves_balance"]), str(row["splits"]))
        for row in (rows["headroom"], rows["steady"])
    ]
    said = re.search(
        r"`headroom` comes to ([\d.]+) times the best achievable load with (\d+) moves for balance and (\d+) splits, "
        r"`steady` to ([\d.]+) with (\d+) and (\d+)\. Five minutes are too short to choose by, so the backtest "
        r"recommends neither",
        " ".join(GUIDE.split()),
    )
    assert said is not None
    assert found == [said.groups()[:3], said.groups()[3:]]
    assert "recommended: nothing, no confidence (5 minutes, " in capsys.readouterr().out
