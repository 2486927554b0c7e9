"""From keys to plain values, sizes, and the two generated files."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from controller.config import policy_values, render, units
from controller.config.load import load_settings
from controller.config.settings import DEFINITIONS, Settings
from controller.domain.load import RESOURCES
from controller.domain.settings.placement import AntiAffinityGroup, FailureDomain, IsolationPolicy, PlacementSettings
from controller.domain.settings.policy import BrokerCaps, ControlSettings, PolicySettings, ShedSettings, SplitSettings
from controller.policy.strategies import get


@pytest.mark.covers("rate-units")
@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("512kB", 2**19), ("512KiB", 2**19), ("1GiB", 2**30), ("1.5 MB", 3 * 2**19), ("7B", 7), ("7", 7), (7, 7)],
)
def test_sizes(text: object, size_bytes: int) -> None:
    assert units.parse_size_bytes(text) == size_bytes


@pytest.mark.covers("rate-units")
@pytest.mark.parametrize(("text", "rate"), [("100MB/s", 100 * 2**20), ("1 GiB/s", 2**30), ("9B/s", 9), (9, 9)])
def test_rates(text: object, rate: int) -> None:
    assert units.parse_rate_bytes_per_s(text) == rate


@pytest.mark.parametrize("text", ["", "MB", "1Mb", "1mb", "1M", "-1", "1e3", "1 MB / s", "7/s", True, -1, None, [1]])
def test_what_is_neither(text: object) -> None:
    for parse in (units.parse_size_bytes, units.parse_rate_bytes_per_s):
        with pytest.raises(ValueError, match=r"is (no|out of)"):
            parse(text)


def test_defaults_are_those_of_the_plain_values() -> None:
    settings = Settings()
    assert policy_values.policy_settings(settings) == PolicySettings()
    assert policy_values.control_settings(settings) == ControlSettings(config_version=settings.version)


@pytest.mark.covers("default-bundles", "split-max-bandwidth", "broker-max-memory", "broker-max-net-usage")
def test_units_are_converted_at_the_edge() -> None:
    sets = [
        "shedding.enabled=false",
        "shedding.overloaded_threshold_pct=70",
        "shedding.difference_points=20",
        "shedding.consecutive_rounds=4",
        "shedding.grace_period_minutes=0.5",
        "shedding.max_moves_per_round=3",
        "shedding.target_margin_pct=2.5",
        "split.enabled=false",
        "split.auto_unload=false",
        "split.max_topics=",
        "split.max_sessions=-1",
        "split.max_msg_rate_per_s=500",
        "split.max_bandwidth_mbytes=2",
        "split.namespace_maximum_bundles=64",
        "split.default_number_of_namespace_bundles=8",
        "split.max_storage_bytes=3GiB",
        "broker.max_topics=9",
        "broker.max_memory=1MB",
        "broker.max_net_usage=2kB/s",
        "broker.max_bundles=70",
    ]
    policy = policy_values.policy_settings(load_settings(None, overrides=sets, env={}))
    assert policy.shed == ShedSettings(False, 0.7, 0.2, 4, 30_000, 3, 0.025)
    assert policy.split == SplitSettings(False, False, None, None, 500.0, 2 * 2**20, 64, 8, 3 * 2**30)
    assert policy.caps == BrokerCaps(9, 2**20, 2048, 70)


PLACEMENT = """
placement:
  isolation:
    alpha: {namespaces: [alpha/.*], primary: ["p[12]"], secondary: [s1], min_available: 2}
    beta: {namespaces: [beta/.*], primary: [p3]}
  failure_domains: {rack-1: ["p1:8080"], rack-2: [p2]}
  anti_affinity: {payments: [shop/orders, shop/refunds]}
"""


def test_rounds_and_assignments_get_the_same_rules_of_placement(tmp_path: Path) -> None:
    path = tmp_path / "ballast.yaml"
    path.write_text(PLACEMENT)
    settings = load_settings(path, overrides=["placement.failure_domains.rack-3=[p3]", "broker.max_bundles=9"], env={})
    rules = PlacementSettings(
        (
            IsolationPolicy("alpha", ("alpha/.*",), ("p[12]",), ("s1",), 2),
            IsolationPolicy("beta", ("beta/.*",), ("p3",)),
        ),
        (FailureDomain("rack-1", ("p1:8080",)), FailureDomain("rack-2", ("p2",)), FailureDomain("rack-3", ("p3",))),
        (AntiAffinityGroup("payments", ("shop/orders", "shop/refunds")),),
    )
    policy = policy_values.policy_settings(settings)
    assert policy.placement == rules
    assert hash(policy) == hash(policy_values.policy_settings(settings)), "rounds store equal settings once"
    control = policy_values.control_settings(settings)
    assert (control.placement, control.max_bundles) == (rules, 9)
    without = load_settings(path, overrides=["failureDomainsEnabled=false"], env={})
    assert policy_values.policy_settings(without).placement == replace(rules, failure_domains=())


def test_control_settings_take_every_key_of_their_sections() -> None:
    changed = {
        "control.lease_ms": 9_001,
        "control.margin_ms": 901,
        "control.assign_deadline_ms": 5_001,
        "control.accept_deadline_ms": 5_002,
        "control.release_deadline_ms": 5_003,
        "control.split_deadline_ms": 5_004,
        "control.lag_limit_entries": 77,
        "guard.min_brokers": 4,
        "guard.silent_fraction": 0.3,
        "guard.window_s": 61,
        "guard.thaw_after_s": 62,
        "rounds.mode": "paused",
        "pulsar_cluster.orders_in_flight": 3,
        "pulsar_cluster.orders_per_broker": 1,
        "pulsar_cluster.order_back_off_s": 7.5,
    }
    settings = load_settings(None, overrides=[f"{k}={v}" for k, v in changed.items()], env={})
    control = policy_values.control_settings(settings)
    assert control == ControlSettings(
        9_001, 901, 5_001, 5_002, 5_003, 5_004, 77, 4, 0.3, 61_000, 62_000, "paused",
        config_version=settings.version, orders_in_flight=3, orders_per_broker=1, order_back_off_ms=7_500,
    )  # fmt: skip


@pytest.mark.covers("resource-weights")
def test_weights_are_in_the_order_of_the_resources() -> None:
    sets = [f"shedding.{name}_weight={i}" for i, name in enumerate(RESOURCES)]
    weights = policy_values.resource_weights(load_settings(None, overrides=sets, env={}))
    assert weights.in_order() == (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)


@pytest.mark.parametrize(
    ("file", "text"), [(render.YAML_FILE, render.yaml_text), (render.PAGE_FILE, render.page_text)], ids=["yaml", "page"]
)
def test_generated_files_are_current(file: Path, text: object) -> None:
    assert callable(text)
    assert file.read_text() == text(), "run: python -m controller.config.render"


def test_the_shipped_file_overrides_nothing() -> None:
    bare, shipped = load_settings(None, "cluster", env={}), load_settings(render.YAML_FILE, "cluster", env={})
    assert shipped.dump() == bare.dump()


def test_the_shipped_file_uncommented_is_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(re.sub(r"(?m)^( *)#(\S)", r"\1\2", render.YAML_FILE.read_text()))
    tree = yaml.safe_load(path.read_text())
    assert {f"{s}.{k}" for s, keys in tree.items() if s != "profile" for k in keys} == set(DEFINITIONS)
    settings = load_settings(path, env={})
    written = {p: settings.written_path(p) or v["value"] for p, v in settings.dump().items()}
    assert written == {p: v["value"] for p, v in Settings().dump().items()}
    assert all(v["origin"] == f"file {path}" for v in settings.dump().values())


def test_every_key_has_a_line_a_source_and_its_unit_in_the_name() -> None:
    suffixes = {"ms": "_ms", "s": "_s", "minutes": "_minutes", "hours": "_hours", "days": "_days", "rows": "_rows"}
    for definition in DEFINITIONS.values():
        assert definition.doc.endswith("."), definition.path
        assert definition.source, definition.path
        if definition.section != "pulsar":  # Pulsar's names are what they are
            assert definition.name.endswith(suffixes.get(definition.unit, "")), definition.path


def test_the_plain_values_need_no_pydantic() -> None:
    source = Path(sys.modules["controller.domain.settings.policy"].__file__ or "").read_text()
    imported = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    others = {name for name in imported if name and not name.startswith("controller.domain.")}
    assert others == {"__future__", "dataclasses"}


def test_the_default_strategy_is_one_that_policy_has() -> None:
    assert get(Settings().rounds.strategy).name == Settings().rounds.strategy
