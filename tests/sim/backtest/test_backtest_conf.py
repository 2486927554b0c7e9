"""Recommended settings become a configuration that the loader accepts and that says the same to a round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.backtest.choose.recommend import Recommendation
from controller.backtest.point.grid import Value, configured_value
from controller.backtest.report.configuration import check_values, conf_tree, snippet
from controller.config.load import load_settings
from controller.config.policy_values import policy_settings
from controller.config.settings import Settings
from controller.domain.errors import ConfigError


def recommended(settings: dict[str, Value], reasons: tuple[str, ...] = ()) -> Recommendation:
    return Recommendation("average", None, None, settings, reasons, ())


def loaded(text: str, folder: Path) -> Any:
    file = folder / "recommendation.yaml"
    file.write_text(text)
    return policy_settings(load_settings(file, env={}))


KNOBS: dict[str, Value] = {
    "max_report_age_ms": 45_500,
    "shed.enabled": False,
    "shed.overloaded_threshold": 0.77,
    "shed.difference": 0.07,
    "shed.consecutive_rounds": 5,
    "shed.grace_period_ms": 90_000,
    "shed.max_moves_per_round": 11,
    "shed.target_margin": 0.03,
    "split.max_msg_rate_per_s": 12_345.5,
    "split.max_bandwidth_bytes_per_s": 50.0 * 1024 * 1024,
    "split.namespace_maximum_bundles": 64,
    "weights.memory": 0.5,
    "caps.max_topics": None,
    "caps.max_bundle_memory_bytes": 2**30,
    "steady.tolerance": 0.03,
    "steady.churn": 0.0,
    "steady.budget": 0.5,
    "pulsar.load_balancer_broker_threshold_shedder_percentage": 17,
    "pulsar.load_balancer_broker_overloaded_threshold_percentage": 91,
    "pulsar.max_unload_percentage": 0.35,
    "pulsar.lower_boundary_shedding_enabled": True,
}


@pytest.mark.parametrize("name", KNOBS)
def test_a_knob_is_read_back_as_it_was_run(name: str, tmp_path: Path) -> None:
    assert configured_value(policy_settings(load_settings(None, env={})), name) != KNOBS[name]
    text = snippet(recommended({name: KNOBS[name]}), "title")
    assert configured_value(loaded(text, tmp_path), name) == KNOBS[name]


def test_all_at_once_and_the_strategy(tmp_path: Path) -> None:
    taken = ("pulsar.load_balancer_broker_threshold", "pulsar.load_balancer_broker_overloaded")  # a key for two knobs
    settings = {name: value for name, value in KNOBS.items() if not name.startswith(taken)}
    found = loaded(snippet(recommended(settings), "title"), tmp_path)
    assert found.strategy == "average"
    assert {name: configured_value(found, name) for name in settings} == settings


def test_what_the_loader_refuses_and_what_has_no_key_is_said(tmp_path: Path) -> None:
    tree, said = conf_tree({"steady.tolerance": 9.0, "steady.elbow": 3, "steady.budget": 2.0})
    assert tree == {"steady": {"budget": 2.0}}
    assert "steady.tolerance 9.0 is left out: steady.tolerance = 9.0" in said[0]
    assert said[1] == "steady.elbow 3 is left out: no key of the configuration says that."


def test_values_that_the_configuration_refuses_are_told_before_anything_runs() -> None:
    def load(overrides: list[str]) -> Settings:
        return load_settings(None, None, overrides, env={})

    check_values({("steady.tolerance", 0.1), ("shed.difference", 0), ("caps.max_topics", None)}, load)
    check_values({("pulsar.load_balancer_split_interval_minutes", -5)}, load)  # no key says that: no range is known
    for name, value in (("steady.tolerance", -1.0), ("shed.difference", 2), ("caps.max_topics", 0)):
        with pytest.raises(ConfigError, match=f"--grid {name}={value}: "):
            check_values({("steady.churn", 0.01), (name, value)}, load)


def test_two_knobs_of_one_key_that_disagree() -> None:
    pulsars = "pulsar.load_balancer_broker_overloaded_threshold_percentage"
    tree, said = conf_tree({pulsars: 91, "shed.overloaded_threshold": 0.77})
    assert tree == {"shedding": {"overloaded_threshold_pct": 91}}
    assert said == [
        "shed.overloaded_threshold 0.77 is left out: shedding.overloaded_threshold_pct says another knob already."
    ]
    assert conf_tree({pulsars: 77, "shed.overloaded_threshold": 0.77})[1] == []


def test_no_sentence_gets_out_of_its_comment(tmp_path: Path) -> None:
    hostile = "reports\nrounds:\n  strategy: overload\r\u2028x: 1"
    text = snippet(recommended({"steady.budget": 2.0}, (hostile,)), hostile)
    assert loaded(text, tmp_path).strategy == "average"
    assert all(len(line) <= 118 for line in text.splitlines())


def test_nothing_recommended_is_still_a_configuration(tmp_path: Path) -> None:
    text = snippet(Recommendation(None, None, None, {}, ("There is nothing.",), ("Run something.",)), "title")
    assert text == (
        "# title\n# Change nothing: no finished point has a figure.\n# No confidence (no point has finished).\n"
        "# There is nothing.\n# Run something.\n"
    )
    assert loaded(text, tmp_path) == policy_settings(load_settings(None, env={}))
