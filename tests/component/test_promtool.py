"""Prometheus' own tool on the alert rules: they are well-formed, and each fires after its time and clears again."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.observability.test_alerts import FOLDER, UNIT_TESTS

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool on the PATH (package prometheus)")


def promtool(*words: str | Path) -> None:
    """Run it; fail with what it says."""
    done = subprocess.run([str(PROMTOOL), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_configuration_are_well_formed() -> None:
    promtool("check", "rules", FOLDER / "rules.yml")
    promtool("check", "config", FOLDER / "prometheus.yml")


@pytest.mark.parametrize("file", UNIT_TESTS, ids=lambda file: file.name.partition(".")[0])
def test_every_alert_fires_and_clears(file: Path, tmp_path: Path) -> None:
    """Without annotations, which promtool would compare word by word."""
    rules = yaml.safe_load((FOLDER / "rules.yml").read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    shutil.copy(file, tmp_path)
    promtool("test", "rules", tmp_path / file.name)


def test_annotations_are_filled_in(tmp_path: Path) -> None:
    """Of one alert, whole: the value in words, and the link."""
    shutil.copy(FOLDER / "rules.yml", tmp_path)
    lag = {"series": 'ballast_control_lag_seconds{instance="c1"}', "values": "9x20"}
    expected = {
        "exp_labels": {"severity": "warning", "instance": "c1"},
        "exp_annotations": {
            "summary": "The controller reads its topics late",
            "description": "The oldest record of the newest batch was 9s old.",
            "runbook_url": "https://docs.test/runbook.md#ballastcontrollag",
        },
    }
    case = {
        "interval": "15s",
        "external_labels": {"ballast_docs": "https://docs.test"},
        "input_series": [lag],
        "alert_rule_test": [{"eval_time": "4m", "alertname": "BallastControlLag", "exp_alerts": [expected]}],
    }
    (tmp_path / "whole.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": [case]}))
    promtool("test", "rules", tmp_path / "whole.yaml")
