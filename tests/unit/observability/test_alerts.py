"""The alert rules: on metrics that exist, each with a section of the runbook and a test of its firing and clearing."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from benchmarks.pages.metrics import PAGE
from controller.process.paths import ROOT
from tests.unit.observability.exposed import FOLDER, faults
from tests.unit.observability.promql import names_in

GROUPS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "rules.yml").read_text(encoding="utf-8"))["groups"]
RULES: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\w+)\n\n(.*?)(?=\n#|\Z)", RUNBOOK, re.MULTILINE | re.DOTALL))
UNITS = {"s": "second", "m": "minute", "h": "hour"}
PROMETHEUS: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
UNIT_TESTS = sorted((ROOT / "tests" / "data" / "alerts").glob("*.test.yaml"))


def in_words(duration: str) -> str:
    """`90s` as a person says it: 90 seconds."""
    count, unit = int(duration[:-1]), UNITS[duration[-1]]
    return f"{count} {unit}{'' if count == 1 else 's'}"


def test_names_are_given_once() -> None:
    assert len(RULES) == sum(len(group["rules"]) for group in GROUPS)
    assert all(re.fullmatch(r"Ballast[A-Z]\w+", name) for name in RULES)


@pytest.mark.parametrize("name", RULES)
def test_rules_name_metrics_and_labels_that_exist(name: str) -> None:
    assert faults(RULES[name]["expr"]) == []


@pytest.mark.parametrize("name", RULES)
def test_every_alert_says_how_bad_it_is_and_where_to_read_on(name: str) -> None:
    rule = RULES[name]
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"}
    assert len(notes["summary"]) <= 70
    assert notes["description"].endswith(".")
    assert notes["runbook_url"] == "{{ $externalLabels.ballast_docs }}/runbook.md#" + name.lower()


def test_the_runbook_has_a_section_for_every_alert_and_no_other() -> None:
    assert list(SECTIONS) == list(RULES), "in the order of the rules"


@pytest.mark.parametrize("name", RULES)
def test_a_section_says_what_the_rule_says_and_what_to_do(name: str) -> None:
    rule, text = RULES[name], SECTIONS[name]
    assert text.startswith(f"{rule['labels']['severity'].capitalize()}, {in_words(rule['for'])}.")
    if "- Look and do:" not in text:
        assert "\n- Look:" in text
        assert "\n- Do:" in text


def test_processes_that_are_down_are_asked_for_by_the_jobs_that_scrape_them() -> None:
    jobs = {job["job_name"] for job in PROMETHEUS["scrape_configs"]}
    asked = {value for rule in RULES.values() for label, _, value in names_in(rule["expr"]).values if label == "job"}
    assert asked <= jobs
    assert jobs == set(re.findall(r"job_name: ([\w-]+)", PAGE.read_text(encoding="utf-8")))
    assert "ballast_docs" in PROMETHEUS["global"]["external_labels"]
    assert [(FOLDER / name).is_file() for name in PROMETHEUS["rule_files"]] == [True]


def test_every_alert_fires_and_clears_in_a_test() -> None:
    """That they do is promtool's to say (tests/component/test_promtool.py)."""
    fired: set[str] = set()
    for file in UNIT_TESTS:
        for case in yaml.safe_load(file.read_text(encoding="utf-8"))["tests"]:
            checks = case["alert_rule_test"]
            assert [bool(check["exp_alerts"]) for check in checks] == [False, True, False], case["name"]
            (name,) = {check["alertname"] for check in checks}
            labels = [alert["exp_labels"]["severity"] for alert in checks[1]["exp_alerts"]]
            assert set(labels) == {RULES[name]["labels"]["severity"]}
            fired.add(name)
    assert fired == set(RULES)
