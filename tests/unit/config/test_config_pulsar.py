"""Pulsar's names beside ours: each alone, both the same, both different; units; the misspelt weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controller.config.load import load_settings
from controller.config.policy_values import pulsar_knobs
from controller.config.pulsar_names import PULSAR_NAMES
from controller.config.sections.pulsar import Pulsar
from controller.config.settings import Settings
from controller.domain.errors import ConfigError
from controller.domain.settings.pulsar import KNOBS_BY_PULSAR_NAME, PulsarKnobs

# name, value as Pulsar has it, our key, its value; values differ from the defaults
CASES = [
    ("loadBalancerSheddingEnabled", "false", "shedding.enabled", False),
    ("loadBalancerAutoBundleSplitEnabled", "false", "split.enabled", False),
    ("loadBalancerAutoUnloadSplitBundlesEnabled", "false", "split.auto_unload", False),
    ("loadBalancerSheddingIntervalMinutes", "2", "rounds.round_interval_s", 120),
    ("loadBalancerSheddingGracePeriodMinutes", "7", "shedding.grace_period_minutes", 7),
    ("loadBalancerBrokerOverloadedThresholdPercentage", "70", "shedding.overloaded_threshold_pct", 70),
    ("loadBalancerBrokerThresholdShedderPercentage", "12", "shedding.difference_points", 12),
    ("loadBalancerNamespaceBundleMaxTopics", "11", "split.max_topics", 11),
    ("loadBalancerNamespaceBundleMaxSessions", "12", "split.max_sessions", 12),
    ("loadBalancerNamespaceBundleMaxMsgRate", "13", "split.max_msg_rate_per_s", 13),
    ("loadBalancerNamespaceBundleMaxBandwidthMbytes", "14", "split.max_bandwidth_mbytes", 14),
    ("loadBalancerNamespaceMaximumBundles", "15", "split.namespace_maximum_bundles", 15),
    ("defaultNumberOfNamespaceBundles", "16", "split.default_number_of_namespace_bundles", 16),
    ("loadBalancerBrokerMaxTopics", "17", "broker.max_topics", 17),
    ("loadBalancerBrokerMaxMemory", "1GiB", "broker.max_memory", 2**30),
    ("loadBalancerBrokerMaxNetUsage", "100MB/s", "broker.max_net_usage", 100 * 2**20),
    ("failureDomainsEnabled", "false", "placement.failure_domains_enabled", False),
    ("preferLaterVersions", "true", "placement.prefer_later_versions", True),
    ("loadBalancerOverrideBrokerNicSpeedGbps", "2.5", "agent.override_broker_nic_speed_gbps", 2.5),
    ("loadBalancerReportUpdateMinIntervalMillis", "4000", "agent.report_interval_ms", 4000),
    ("loadBalancerMaxNumberOfBundlesInBundleLoadReport", "20", "loads.top_k_bundles", 20),
    ("loadBalancerCPUResourceWeight", "0.5", "shedding.cpu_weight", 0.5),
    ("loadBalancerMemoryResourceWeight", "0.5", "shedding.memory_weight", 0.5),
    ("loadBalancerDirectMemoryResourceWeight", "0.5", "shedding.direct_memory_weight", 0.5),
    ("loadBalancerBandwidthInResourceWeight", "0.5", "shedding.bandwidth_in_weight", 0.5),
    ("loadBalancerBandwidthOutResourceWeight", "0.5", "shedding.bandwidth_out_weight", 0.5),
    ("loadBalancerBandwithInResourceWeight", "0.5", "shedding.bandwidth_in_weight", 0.5),
    ("loadBalancerBandwithOutResourceWeight", "0.5", "shedding.bandwidth_out_weight", 0.5),
]


def load(folder: Path, text: str) -> Settings:
    path = folder / "ballast.yaml"
    path.write_text(text)
    return load_settings(path, env={})


@pytest.mark.covers("configured-by-file")
def test_every_name_is_covered_by_a_case() -> None:
    others = {name for name, (_, key) in PULSAR_NAMES.items() if key.section == "weighted"}  # not Pulsar's own
    assert {name for name, *_ in CASES} == set(PULSAR_NAMES) - set(Pulsar.model_fields) - others


def other(default: object) -> tuple[str, object]:
    """A value that is not the default, as text and as it will be read."""
    if isinstance(default, str):
        changed_class = default.replace("LeastLongTermMessageRate", "RoundRobinBrokerSelector")
        return changed_class, changed_class
    if isinstance(default, tuple):
        return "a/b,c/d", ("a/b", "c/d")
    if isinstance(default, bool):
        return str(not default).lower(), not default
    assert isinstance(default, int | float)
    changed = type(default)(default + 1) if default > 1 or isinstance(default, int) else default / 2
    return str(changed), changed


@pytest.mark.covers("debug-mode")
@pytest.mark.parametrize("name", Pulsar.model_fields)
def test_what_only_pulsars_strategies_have_reaches_them(tmp_path: Path, name: str) -> None:
    knob = KNOBS_BY_PULSAR_NAME[name]
    text, value = other(getattr(PulsarKnobs(), knob))
    for written in (f"{name}: {text}", f"pulsar:\n  {name}: {text}"):
        assert pulsar_knobs(load(tmp_path, written)) == replace(PulsarKnobs(), **{knob: value})
    named = load_settings(None, overrides=[f"{name}={text}"], env={})
    assert getattr(pulsar_knobs(named), knob) == value
    settings = load_settings(None, env={f"BALLAST_PULSAR__{name.upper()}": text})
    assert getattr(pulsar_knobs(settings), knob) == value


@pytest.mark.parametrize(("name", "written", "path", "value"), CASES, ids=[c[0] for c in CASES])
def test_what_both_have_reaches_pulsars_strategies_too(name: str, written: str, path: str, value: object) -> None:
    knob = KNOBS_BY_PULSAR_NAME.get(name)
    if knob is None:  # caps of brokers and the network card's speed: no strategy of Pulsar's reads them
        assert path.startswith(("broker.", "agent."))
        return
    well_spelt = knob.replace("bandwith", "bandwidth")
    settings = load_settings(None, overrides=[f"{name}={written}"], env={})
    factor = PULSAR_NAMES[name][0].factor
    assert getattr(pulsar_knobs(settings), well_spelt) == (value if factor == 1 else int(str(written)))


def test_a_limit_that_is_off_is_pulsars_largest_number() -> None:
    knobs = pulsar_knobs(load_settings(None, overrides=["split.max_topics=", "broker.max_topics="], env={}))
    assert knobs.load_balancer_namespace_bundle_max_topics == knobs.load_balancer_broker_max_topics == 2**31 - 1


@pytest.mark.covers("top-k-bundles")
def test_nobody_changes_what_a_report_of_pulsars_lists_but_the_operator() -> None:
    assert Settings().loads.top_k_bundles == 100
    assert pulsar_knobs(Settings()) == PulsarKnobs()
    named = load_settings(None, overrides=["loads.top_k_bundles=30"], env={})
    assert pulsar_knobs(named).load_balancer_max_number_of_bundles_in_bundle_load_report == 30


@pytest.mark.covers(
    "default-bundles",
    "report-continuously",
    "nic-override",
    "top-k-bundles",
    "overload-threshold",
    "resource-weights",
    "shedding-switch",
    "shedding-interval",
    "grace-period",
    "configured-by-file",
    "rate-units",
    "split-max-topics",
    "split-max-sessions",
    "split-max-msg-rate",
    "split-max-bandwidth",
    "split-max-bundles",
    "broker-max-topics",
    "broker-max-memory",
    "broker-max-net-usage",
)
@pytest.mark.parametrize(("name", "written", "path", "value"), CASES, ids=[c[0] for c in CASES])
def test_pulsars_name_alone_twice_and_against_ours(
    tmp_path: Path, name: str, written: str, path: str, value: object
) -> None:
    section, key = path.split(".")
    quoted = repr(value).lower() if isinstance(value, bool) else repr(value)
    assert Settings().value(path) != value
    assert load(tmp_path, f"{name}: {written}").value(path) == value
    assert load(tmp_path, f"pulsar:\n  {name}: {written}").value(path) == value
    assert load(tmp_path, f"{name}: {written}\n{section}:\n  {key}: {quoted}").value(path) == value
    default = Settings().value(path)
    default_text = str(default).lower() if isinstance(default, bool) else "" if default is None else str(default)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"{name}: {written}\n{section}:\n  {key}: {default_text}")
    assert name in str(caught.value)
    assert path in str(caught.value)
    assert "different values" in str(caught.value)


@pytest.mark.covers(
    "default-bundles",
    "overload-threshold",
    "shedding-interval",
    "grace-period",
    "configured-by-file",
    "broker-max-topics",
    "broker-max-memory",
    "broker-max-net-usage",
)
@pytest.mark.parametrize(("name", "written", "path", "value"), CASES, ids=[c[0] for c in CASES])
def test_pulsars_name_in_the_environment_and_as_an_override(name: str, written: str, path: str, value: object) -> None:
    assert load_settings(None, env={f"BALLAST_PULSAR__{name.upper()}": written}).value(path) == value
    assert load_settings(None, overrides=[f"{name}={written}"], env={}).value(path) == value


@pytest.mark.covers("shedding-interval")
def test_a_later_layer_may_use_the_other_name(tmp_path: Path) -> None:
    path = tmp_path / "ballast.yaml"
    path.write_text("loadBalancerSheddingIntervalMinutes: 1")
    settings = load_settings(path, "demo", ["rounds.round_interval_s=20"], {})
    assert settings.rounds.round_interval_s == 20
    assert load_settings(path, "demo", env={}).rounds.round_interval_s == 60  # the file beats the profile's 5 s


@pytest.mark.covers("shedding-switch", "split-switch", "split-unload-switch")
@pytest.mark.parametrize("switch", [c for c in CASES if c[1] == "false"], ids=lambda c: c[0])
@pytest.mark.parametrize("on", [True, False])
def test_each_switch_on_and_off(tmp_path: Path, switch: tuple[str, str, str, object], on: bool) -> None:
    assert load(tmp_path, f"{switch[0]}: {str(on).lower()}").value(switch[2]) is on


@pytest.mark.covers("resource-weights")
@pytest.mark.parametrize(
    ("well_spelt", "misspelt", "effective"),
    [(0.7, 0.5, 0.7), (1.0, 0.5, 0.5), (0.7, 1.0, 0.7), (1.0, 1.0, 1.0), (0.0, 0.5, 0.0)],
)
def test_the_misspelt_weight_counts_only_beside_exactly_one(
    tmp_path: Path, well_spelt: float, misspelt: float, effective: float
) -> None:
    text = f"loadBalancerBandwidthInResourceWeight: {well_spelt}\nloadBalancerBandwithInResourceWeight: {misspelt}"
    assert load(tmp_path, text).shedding.bandwidth_in_weight == effective


def test_our_weight_against_pulsars_effective_one(tmp_path: Path) -> None:
    text = "loadBalancerBandwidthInResourceWeight: 1.0\nloadBalancerBandwithInResourceWeight: 0.5\n"
    assert load(tmp_path, text + "shedding: {bandwidth_in_weight: 0.5}").shedding.bandwidth_in_weight == 0.5
    with pytest.raises(ConfigError, match="loadBalancerBandwithInResourceWeight"):
        load(tmp_path, text + "shedding: {bandwidth_in_weight: 1.0}")


def test_pulsars_name_twice_in_one_file(tmp_path: Path) -> None:
    text = "loadBalancerSheddingEnabled: {}\npulsar:\n  loadBalancerSheddingEnabled: false"
    assert load(tmp_path, text.format("false")).shedding.enabled is False
    with pytest.raises(ConfigError, match=r"pulsar\.loadBalancerSheddingEnabled"):
        load(tmp_path, text.format("true"))


@pytest.mark.covers("nic-empty")
@pytest.mark.parametrize("written", ["", "''", "null"])
def test_an_empty_nic_speed_means_what_the_system_says(tmp_path: Path, written: str) -> None:
    settings = load(tmp_path, f"loadBalancerOverrideBrokerNicSpeedGbps: {written}")
    assert settings.agent.override_broker_nic_speed_gbps is None
