"""The limits of `weighted` in the configuration: our names, the walkthrough's with and without their prefix, units."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.config.load import load_settings
from controller.config.policy_values import weighted_settings
from controller.config.settings import DEFINITIONS, Settings
from controller.domain.errors import ConfigError
from controller.domain.settings.weighted import ALL_BUILT_IN, WeightedSettings
from controller.policy.strategies.weighted.figures import providers_of
from controller.policy.strategies.weighted.providers import CpuProvider

MIB = 2**20
# the walkthrough's name, what is written, the field of WeightedSettings, its value
NAMES = [
    ("maxTopicsPerBroker", "70", "max_topics_per_broker", 70),
    ("maxPartitionsPerBroker", "100", "max_partitions_per_broker", 100),
    ("cpuThreshold", "70", "cpu_threshold", 0.7),
    ("memoryThreshold", "90", "memory_threshold", 0.9),
    ("offloadThreshold", "5GB", "offload_threshold_bytes", 5 * 2**30),
    ("bandwidthInThreshold", "50MB/s", "bandwidth_in_threshold_bytes_per_s", 50 * MIB),
    ("bandwidthOutThreshold", "100MB/s", "bandwidth_out_threshold_bytes_per_s", 100 * MIB),
    ("maxUnackedMessagesPerBroker", "50000", "max_unacked_messages_per_broker", 50_000),
    ("maxActiveRpcQueueTime", "2.5", "max_active_rpc_queue_ms", 2.5),
    (
        "loadAwarenessProviders",
        "org.apache.pulsar.broker.load.LoadAwarenessProvider",
        "load_awareness_providers",
        ("org.apache.pulsar.broker.load.LoadAwarenessProvider",),
    ),
]


def load(folder: Path, text: str) -> WeightedSettings:
    path = folder / "ballast.yaml"
    path.write_text(text)
    return weighted_settings(load_settings(path, env={}))


def test_every_name_is_covered_by_a_case() -> None:
    declared = {a.name for d in DEFINITIONS.values() if d.section == "weighted" for a in d.pulsar}
    assert declared == {prefix + name for name, *_ in NAMES for prefix in ("", "loadBalancer.")}


@pytest.mark.covers(
    "weighted-cpu",
    "weighted-memory",
    "weighted-bandwidth-in",
    "weighted-bandwidth-out",
    "weighted-max-topics",
    "weighted-max-partitions",
    "weighted-offload",
    "weighted-unacked",
    "weighted-rpc-queue",
    "weighted-providers",
)
@pytest.mark.parametrize(("name", "written", "field", "value"), NAMES, ids=[n[0] for n in NAMES])
def test_the_walkthroughs_name_sets_the_limit_wherever_it_stands(
    tmp_path: Path, name: str, written: str, field: str, value: object
) -> None:
    assert getattr(WeightedSettings(), field) != value
    full = f"loadBalancer.{name}"
    for text in (f"{full}: {written}", f"pulsar:\n  {full}: {written}", f"{name}: {written}"):
        assert getattr(load(tmp_path, text), field) == value
    by_override = load_settings(None, overrides=[f"{full}={written}"], env={})
    by_environment = load_settings(None, env={f"BALLAST_PULSAR__{name.upper()}": written})
    for settings in (by_override, by_environment):
        assert getattr(weighted_settings(settings), field) == value


@pytest.mark.covers("configured-by-file", "rate-units")
def test_the_walkthroughs_own_snippet_is_understood(tmp_path: Path) -> None:
    text = (
        "loadBalancer.maxPartitionsPerBroker: 100\n"
        "loadBalancer.bandwidthOutThreshold: 100MB/s\n"
        "loadBalancer.loadAwarenessProviders: org.apache.pulsar.broker.load.LoadAwarenessProvider\n"
    )
    found = load(tmp_path, text)
    assert found.max_partitions_per_broker == 100
    assert found.bandwidth_out_threshold_bytes_per_s == 100 * MIB
    assert found.cpu_threshold == WeightedSettings().cpu_threshold


def test_the_defaults_are_those_of_the_plain_values() -> None:
    assert weighted_settings(Settings()) == WeightedSettings()


def test_every_limit_can_be_switched_off(tmp_path: Path) -> None:
    limits = [d.name for d in DEFINITIONS.values() if d.section == "weighted" and d.optional]
    assert len(limits) == 11
    off = load(tmp_path, "weighted:\n" + "".join(f"  {name}:\n" for name in limits))
    assert {getattr(off, field) for field in WeightedSettings.__dataclass_fields__} == {None, (), True}


@pytest.mark.parametrize(
    ("written", "allowed"),
    [("cpuThreshold: 0", "from 1 to 100"), ("bandwidthOutThreshold: 100MB", "a rate such as 100MB/s")],
)
def test_a_bad_limit_is_refused_with_what_is_allowed(tmp_path: Path, written: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=allowed) as caught:
        load(tmp_path, written)
    assert written.split(":")[0] in str(caught.value)
    assert "weighted." in str(caught.value)


def test_two_names_that_contradict_each_other_stop_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="different values"):
        load(tmp_path, "loadBalancer.cpuThreshold: 70\nweighted:\n  cpu_threshold_pct: 80")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Cpu", "no dotted name"),
        ("no.such.module.Cpu", "cannot be imported"),
        ("controller.policy.weighted.providers.Nothing", "cannot be imported"),
        ("controller.policy.weighted.providers.BUILT_IN", "is no class"),
        ("controller.policy.strategies.weighted.figures.Figures", "cannot be made"),
        ("controller.domain.settings.policy.PolicySettings", "lacks usage, limit, part, name, fluctuates"),
    ],
)
@pytest.mark.covers("weighted-providers")
def test_a_provider_that_cannot_be_used_stops_the_start_and_is_named(name: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        load_settings(None, overrides=[f"loadAwarenessProviders={name}"], env={})
    assert repr(name) in str(caught.value)
    assert "weighted.load_awareness_providers" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_walkthrough_s_short_name_means_all_of_them_too() -> None:
    short = load_settings(None, overrides=["loadAwarenessProviders=LoadAwarenessProvider"], env={})
    named, all_of_them = weighted_settings(short).load_awareness_providers, (ALL_BUILT_IN,)
    assert list(map(type, providers_of(named))) == list(map(type, providers_of(all_of_them)))


def test_two_providers_of_one_name_are_refused() -> None:
    mine = "tests.unit.config.test_config_weighted.MyCpu"
    with pytest.raises(ConfigError, match="both called 'cpu'"):
        load_settings(None, overrides=[f"loadAwarenessProviders={ALL_BUILT_IN},{mine}"], env={})
    alone = load_settings(None, overrides=[f"loadAwarenessProviders={mine}"], env={})
    assert weighted_settings(alone).load_awareness_providers == (mine,)


class MyCpu(CpuProvider):
    """The same under the same name."""
