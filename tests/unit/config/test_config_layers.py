"""Layers of the configuration: which wins, where a value comes from, what a profile changes."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from controller.bus.security import client_options
from controller.config.checks import check_lease
from controller.config.load import load_settings
from controller.config.settings import DEFINITIONS, Settings
from controller.config.variables import FOR_DEVELOPERS, FOR_OPERATORS, is_no_setting
from controller.domain.errors import ConfigError

PLACES = {"tables.root", "tables.checkpoints"}


def write(folder: Path, text: str) -> Path:
    path = folder / "ballast.yaml"
    path.write_text(text)
    return path


@pytest.mark.covers("configured-by-file")
def test_later_layers_win_and_say_where_they_are(tmp_path: Path) -> None:
    text = "control: {lease_ms: 7000, heartbeat_ms: 700, tick_ms: 70}"
    env = {"BALLAST_CONTROL__LEASE_MS": "8000", "BALLAST_CONTROL__HEARTBEAT_MS": "800", "PATH": "/bin"}
    path = write(tmp_path, text)
    settings = load_settings(path, "cluster", ["control.lease_ms=9000"], env)
    dumped = settings.dump()
    assert dumped["control.lease_ms"] == {"value": 9000, "origin": "override"}
    assert dumped["control.heartbeat_ms"] == {
        "value": 800,
        "origin": "environment variable BALLAST_CONTROL__HEARTBEAT_MS",
    }
    assert dumped["control.tick_ms"] == {"value": 70, "origin": f"file {path}"}
    assert dumped["kafka.replication_factor"] == {"value": 3, "origin": "profile cluster"}
    assert dumped["guard.min_brokers"] == {"value": 3, "origin": "default"}
    assert list(dumped) == list(DEFINITIONS)


def test_profile_is_taken_from_argument_then_environment_then_file(tmp_path: Path) -> None:
    path = write(tmp_path, "profile: demo")
    env = {"BALLAST_PROFILE": "recording"}
    assert load_settings(path, "cluster", env=env).profile == "cluster"
    assert load_settings(path, env=env).profile == "recording"
    assert load_settings(path, env={}).profile == "demo"
    assert load_settings(None, env={}).profile == "local"


def test_the_process_environment_is_read_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALLAST_GUARD__MIN_BROKERS", "5")
    assert load_settings(None).guard.min_brokers == 5
    assert load_settings(None, env={}).guard.min_brokers == 3


def test_a_profile_of_ones_own_beside_the_file_comes_first(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "demo.yaml").write_text("control: {tick_ms: 123}")
    settings = load_settings(write(tmp_path, "profile: demo"), env={})
    assert (settings.control.tick_ms, settings.rounds.mode) == (123, "shadow")


@pytest.mark.parametrize(
    ("profile", "changed"),
    [
        ("local", {"logging.json_lines": False}),
        (
            "cluster",
            {
                "kafka.replication_factor": 3,
                "kafka.load_report_partitions": 12,
                "control.lease_ms": 15000,
                "agent.bind_host": "0.0.0.0",
                "store.fsync": True,
                "http.bind_host": "0.0.0.0",
                "http.job_port": 8190,
                "http.agent_port": 8191,
            },
        ),
        (
            "demo",
            {
                "loads.pane_s": 5,
                "loads.short_horizon_s": 20,
                "rounds.round_interval_s": 5,
                "rounds.mode": "live",
                "logging.json_lines": False,
                "reference.cpu_pct": 100,
                "reference.cpu_us_per_message": 2000,
                "shedding.grace_period_minutes": 0.5,
                "split.max_msg_rate_per_s": 150,
            },
        ),
        (
            "recording",
            {
                "loads.short_horizon_s": 20,
                "rounds.round_interval_s": 10,
                "rounds.strategy": "headroom",
                "shedding.cpu_weight": 0.0,
                "agent.message_throughput_as_bandwidth": True,
                "agent.override_broker_nic_speed_gbps": 0.08,
            },
        ),
    ],
)
def test_what_each_profile_changes(profile: str, changed: dict[str, object]) -> None:
    settings, defaults = load_settings(None, profile, env={}), Settings()
    found = {path: settings.value(path) for path in DEFINITIONS if settings.value(path) != defaults.value(path)}
    assert found.keys() >= PLACES  # absolute when loaded: tests/unit/config/test_config_places.py
    assert {path: value for path, value in found.items() if path not in PLACES} == changed


def test_profile_lease_fits_kafkas_session_timeout() -> None:
    cluster, local = load_settings(None, "cluster", env={}), load_settings(None, "local", env={})
    check_lease(cluster, cluster.kafka.session_timeout_ms, single_node=False)
    check_lease(local, local.kafka.session_timeout_ms, single_node=True)
    with pytest.raises(ConfigError, match=r"control\.lease_ms = 6000 is not allowed .* give more than 12000"):
        check_lease(local, 9_000, single_node=False)
    with pytest.raises(ConfigError):  # exactly 3 s above is not longer
        check_lease(cluster, 12_000, single_node=False)
    check_lease(cluster, 11_999, single_node=False)


def test_kafka_client_settings_add_up_over_layers_and_hide_secrets(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "kafka:\n  client: {security_protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_plain_username: ballast}",
    )
    env = {"BALLAST_KAFKA__CLIENT__SASL_PLAIN_PASSWORD": "hunter2"}
    settings = load_settings(path, overrides=["kafka.client.ssl_check_hostname=false"], env=env)
    assert client_options(settings.kafka.client) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ballast",
        "sasl_plain_password": "hunter2",
        "ssl_check_hostname": False,
    }
    assert "hunter2" not in f"{settings.dump()} {settings!r} {settings.kafka.client} {settings.model_dump()}"
    assert settings.dump()["kafka.client"]["value"]["sasl_plain_password"] == "***"


def test_environment_takes_text_numbers_switches_lists_and_nothing() -> None:
    env = {
        "BALLAST_CLUSTER__NAME": "123",
        "BALLAST_SHEDDING__ENABLED": "false",
        "ballast_split__max_topics": "",
        "BALLAST_ROUNDS__CHALLENGERS": "first,",
        "BALLAST_BROKER__MAX_NET_USAGE": "100MB/s",
        "BALLAST_PULSAR__LOADBALANCERBROKERMAXTOPICS": "77",
        "HOME_OF_SOMEONE": "ignored",
    }
    settings = load_settings(None, env=env)
    assert settings.cluster.name == "123"
    assert settings.shedding.enabled is False
    assert settings.split.max_topics is None
    assert settings.rounds.challengers == ("first",)
    assert settings.broker.max_net_usage == 100 * 2**20
    assert settings.broker.max_topics == 77


def test_variables_that_are_no_settings_are_left_alone() -> None:
    of_kubernetes = {
        "BALLAST_SERVICE_HOST": "10.0.0.7",
        "BALLAST_UI_SERVICE_HOST": "10.0.0.7",
        "BALLAST_UI_SERVICE_PORT": "8190",
        "BALLAST_UI_SERVICE_PORT_HTTP": "8190",
        "BALLAST_UI_PORT": "tcp://10.0.0.7:8190",
        "BALLAST_UI_PORT_8190_TCP": "tcp://10.0.0.7:8190",
        "BALLAST_UI_PORT_8190_TCP_ADDR": "10.0.0.7",
    }
    ours = dict.fromkeys((*FOR_OPERATORS, *FOR_DEVELOPERS), "")
    assert load_settings(None, env={**of_kubernetes, **ours}).version == load_settings(None, env={}).version


def test_every_variable_that_anything_reads_is_known() -> None:
    root = Path(__file__).resolve().parents[3]
    read = re.compile(r"\bBALLAST_(?!YAML)[A-Z]+(?:_[A-Z]+)*\b(?!_)")
    files = [root / "Makefile", *(root / "conf" / "systemd").glob("*.service")]
    files += [file for folder in ("controller", "jobs", "tests") for file in (root / folder).rglob("*.py")]
    files = [file for file in files if file.parent != Path(__file__).parent]  # they misspell some
    found = {name for file in files for name in read.findall(file.read_text(encoding="utf-8"))}
    assert {"BALLAST_HOME", "BALLAST_SOAK_MINUTES", "BALLAST_UI_SERVICE_HOST"} <= found
    assert {name for name in found if not is_no_setting(name, "")} == set()


def test_version_follows_the_values_and_nothing_else(tmp_path: Path) -> None:
    defaults = load_settings(None, env={})
    same = load_settings(write(tmp_path, "shedding: {overloaded_threshold_pct: 85}"), env={})
    other = load_settings(write(tmp_path, "shedding: {overloaded_threshold_pct: 84}"), env={})
    assert same.version == defaults.version != other.version
    assert len(same.version) == 12
    assert same.origin("shedding.overloaded_threshold_pct") != "default"


def test_settings_are_frozen_and_travel_to_another_process() -> None:
    settings = load_settings(None, "demo", env={})
    with pytest.raises(ValueError, match="frozen"):
        settings.control.lease_ms = 1  # type: ignore[misc]
    copy = pickle.loads(pickle.dumps(settings))
    assert (copy, copy.version, copy.dump()) == (settings, settings.version, settings.dump())
