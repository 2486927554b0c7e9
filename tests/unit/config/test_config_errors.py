"""Every way to write a wrong configuration ends in one line. The lines are golden: tests/golden/config/errors.txt.

`BALLAST_REWRITE_GOLDEN=1 pytest tests/unit/config/test_config_errors.py` writes them anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller.config.load import load_settings
from controller.domain.errors import ConfigError

GOLDEN = Path(__file__).parents[2] / "golden" / "config" / "errors.txt"

FILES = {
    "number above the range": "shedding: {overloaded_threshold_pct: 850}",
    "number below the range": "guard: {min_brokers: 0}",
    "text for a number": "shedding: {overloaded_threshold_pct: '85'}",
    "switch for a number": "control: {lease_ms: true}",
    "fraction for a whole number": "control: {lease_ms: 6000.5}",
    "number for a switch": "shedding: {enabled: 1}",
    "not a number": "shedding: {grace_period_minutes: .nan}",
    "infinite": "shedding: {grace_period_minutes: .inf}",
    "margin above one second": "control: {margin_ms: 1001}",
    "unknown choice": "loads: {writer: flink}",
    "unknown mode": "rounds: {mode: on}",
    "bits for bytes": "broker: {max_memory: 100Mb}",
    "rate for a size": "broker: {max_memory: 100MB/s}",
    "size for a rate": "broker: {max_net_usage: 100MB}",
    "negative size": "broker: {max_memory: -1}",
    "servers without a port": "kafka: {bootstrap_servers: kafka-1}",
    "a port that cannot be": "kafka: {bootstrap_servers: 'kafka-1:9092,kafka-2:90920'}",
    "a port just above the last": "store: {address: '127.0.0.1:65536'}",
    "name in capitals": "cluster: {name: Prod}",
    "name of digits without quotes": "cluster: {name: 123}",
    "name that is a switch to YAML": "cluster: {name: on}",
    "name that is no text and would be none that fits": "cluster: {name: 1.5}",
    "cluster of Pulsar that is a date to YAML": "pulsar_cluster: {cluster: 2026-01-02}",
    "empty where nothing may be empty": "control: {lease_ms: }",
    "Pulsar's name, out of range in Pulsar's unit": "loadBalancerSheddingIntervalMinutes: 0",
    "Pulsar's name, no number": "pulsar: {loadBalancerSheddingIntervalMinutes: often}",
    "both names, different values": "loadBalancerSheddingGracePeriodMinutes: 10\nshedding: {grace_period_minutes: 30}",
    "Pulsar's name at two places": "loadBalancerBrokerMaxTopics: 5\npulsar: {loadBalancerBrokerMaxTopics: 6}",
    "mistyped key": "shedding: {grace_periode_minutes: 30}",
    "mistyped section": "sheding: {enabled: true}",
    "mistyped Pulsar name": "loadBalancerSheddingEnable: true",
    "key without its section": "lease_ms: 6000",
    "key in another section": "guard: {lease_ms: 6000}",
    "our key below pulsar": "pulsar: {lease_ms: 6000}",
    "unknown key": "frobnicate: 7",
    "unknown key that looks secret": "kafka: {sasl_plain_password: hunter2}",
    "unknown key with a passphrase": "kafka: {ssl_key_passphrase: hunter2}",
    "unknown key that nobody takes for a secret": "frobnicate: {hunter2: hunter2}",
    "unknown key whose name holds its value": "kafka: {'sasl_pw=hunter2': 1}",
    "short word for a secret without a blank": "kafka: sasl_pw:hunter2",
    "API key without a blank": "kafka: api_key:hunter2",
    "credential in the query part of an address": "tables: {root: 's3://bucket/x?aws_secret_access_key=hunter2'}",
    "query part without any name": "tables: {checkpoints: 's3a://bucket/x?hunter2'}",
    "section without keys": "rounds: 5",
    "key given twice": "control:\n  lease_ms: 6000\n  lease_ms: 7000",
    "no YAML": "control: [",
    "no mapping": "[1, 2]",
    "unknown profile": "profile: prod",
    "unknown Kafka client setting": "kafka: {client: {ssl_truststore: x}}",
    "Kafka client setting that is no value": "kafka: {client: {sasl_plain_password: [hunter2]}}",
    "secret that is a mapping": "kafka: {client: {security_protocol: SASL_SSL, sasl_plain_password: {hunter2: 1}}}",
    "secret that is empty": "kafka: {client: {security_protocol: SASL_SSL, sasl_plain_password: }}",
    "secret before a bracket that nobody closes": "kafka: {client: {sasl_plain_password: [hunter2",
    "secret before a brace that nobody closes": "kafka: {client: {sasl_plain_password: hunter2",
    "secret with a quote, in its name": 'kafka: {client: {"sasl_plain_password=hunter2\'x": [1]}}',
    "secret that is an alias to YAML": "kafka: {client: {sasl_plain_password: *hunter2}}",
    "secret that is a tag to YAML": "kafka:\n  client:\n    sasl_plain_password: !hunter2",
    "secret without a blank": "kafka:\n  client:\n    sasl_plain_password:hunter2",
    "secret without a blank, one level up": "kafka:\n  sasl_plain_password=hunter2",
    "secret of a mistyped name that is no value": "kafka: {client: {sasl_plain_pass: [hunter2]}}",
    "secret below a mistyped key": "kafka: {clients: {security: {sasl_plain_password: hunter2}}}",
    "secret in the name": "kafka: {client: {'sasl_plain_password=hunter2': ''}}",
    "secret that is no text": "kafka: {client: {ssl_password: 4711}}",
    "secret without its user": (
        "kafka: {client: {security_protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_plain_password: hunter2}}"
    ),
    "SASL login without SASL": "kafka: {client: {sasl_plain_username: u, sasl_plain_password: hunter2}}",
    "round interval is no multiple of the pane": "rounds: {round_interval_s: 15}",
    "short horizon is no multiple of the pane": "loads: {short_horizon_s: 25}",
    "poll slower than a third of a deadline": "agent: {journal_poll_ms: 2000}",
    "heartbeat slower than a third of the lease": "control: {heartbeat_ms: 2001}",
    "reports rarer than they may be old": "rounds: {max_report_age_s: 9}",
    "more bundles at first than at most": "split: {namespace_maximum_bundles: 2}",
    "challenger is the strategy": "rounds: {challengers: [steady]}",
    "challenger twice": "rounds: {challengers: [first, first]}",
    "unknown strategy": "rounds: {strategy: best}",
    "unknown challenger": "rounds: {challengers: [best]}",
    "challenger is no list": "rounds: {challengers: 3}",
    "isolation by no regular expression": "placement: {isolation: {a: {namespaces: [a/.*], primary: ['p[12']}}}",
    "isolation without primaries": "placement: {isolation: {alpha: {namespaces: [alpha/.*], primary: []}}}",
    "isolation with a key that is none": "placement: {isolation: {alpha: {namespace: [alpha/.*], primary: [p]}}}",
    "isolation with too few available": (
        "placement: {isolation: {alpha: {namespaces: [a/.*], primary: [p], min_available: 0}}}"
    ),
    "broker in two failure domains": "placement: {failure_domains: {r1: ['a:8080'], r2: [b, 'a:8080']}}",
    "broker and its host in two failure domains": "placement: {failure_domains: {r1: ['a:8080'], r2: [a]}}",
    "failure domain without brokers": "placement: {failure_domains: {r1: []}}",
    "namespace in two anti-affinity groups": "placement: {anti_affinity: {g: [t/a], h: [t/a]}}",
    "anti-affinity group of no namespace": "placement: {anti_affinity: {g: [ta]}}",
    "no weight": "shedding: {cpu_weight: 0, bandwidth_in_weight: 0, bandwidth_out_weight: 0, disk_io_weight: 0}",
}

ENVIRONMENTS = {
    "one underscore": {"BALLAST_CONTROL_LEASE_MS": "6000"},
    "one underscore in a Pulsar name": {"BALLAST_PULSAR_LOADBALANCERBROKERMAXTOPICS": "7"},
    "one underscore and mistyped": {"BALLAST_CONTROL_LEASE_M": "6000"},
    "one underscore and without its unit": {"BALLAST_SHEDDING_OVERLOADED_THRESHOLD": "90"},
    "one underscore in a Kafka client setting": {"BALLAST_KAFKA_CLIENT_SASL_PLAIN_PASSWORD": "hunter2"},
    "two underscores at the other place": {"BALLAST_KAFKA_CLIENT__SASL_PLAIN_PASSWORD": "hunter2"},
    "three underscores": {"BALLAST_CONTROL___LEASE_MS": "6000"},
    "another variable, mistyped": {"BALLAST_CONFIG": "/etc/ballast.yaml"},
    "another variable, in small letters": {"ballast_conf": "/etc/ballast.yaml"},
    "a port of one's own": {"BALLAST_UI_PORT": "8080"},
    "unknown variable": {"BALLAST_FROBNICATE": "hunter2"},
    "unknown key in the environment": {"BALLAST_CONTROL__LEASE": "6000"},
    "bad value in the environment": {"BALLAST_CONTROL__LEASE_MS": "soon"},
    "secret in a mistyped variable": {"BALLAST_KAFKA__CLIENTS": "{sasl_plain_password: hunter2}"},
    "passphrase in a mistyped variable": {"BALLAST_KAFKA__SSL_PASSPHRASE": "hunter2"},
    "API key in a mistyped variable": {"BALLAST_KAFKA__APIKEY": "hunter2"},
    "secret that is no mapping": {"BALLAST_KAFKA__CLIENT": "sasl_plain_password=hunter2"},
    "secret twice": {"BALLAST_KAFKA__CLIENT": "{ssl_password: hunter2}", "BALLAST_KAFKA__CLIENT__SSL_PASSWORD": "x"},
    "secret of an unknown setting": {"BALLAST_KAFKA__CLIENT__SASL_PASSWORD": "hunter2"},
    "unknown profile in the environment": {"BALLAST_PROFILE": "prod"},
}

OVERRIDES = {
    "override without a value": ["control.lease_ms"],
    "override of an unknown key": ["control.leas_ms=5"],
    "override with a bad value": ["control.lease_ms=1"],
    "override with a secret": ["kafka.client.sasl_plain_password=hunter2"],
    "override with a secret among others": ["kafka.client={sasl_plain_password: hunter2}"],
    "override with a secret and no equals sign": ["kafka.client.sasl_plain_password:hunter2"],
    "override under both names": ["rounds.round_interval_s=20", "loadBalancerSheddingIntervalMinutes=1"],
}


def line_of(folder: Path, text: str = "", env: dict[str, str] | None = None, overrides: tuple[str, ...] = ()) -> str:
    path = folder / "ballast.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(path, overrides=overrides, env=env or {})
    return str(caught.value).replace(str(folder), "/etc/ballast")


def test_every_mistake_has_its_one_line(tmp_path: Path) -> None:
    lines = {name: line_of(tmp_path, text) for name, text in FILES.items()}
    lines |= {name: line_of(tmp_path, env=env) for name, env in ENVIRONMENTS.items()}
    lines |= {name: line_of(tmp_path, overrides=tuple(sets)) for name, sets in OVERRIDES.items()}
    assert [name for name, line in lines.items() if "\n" in line or "hunter2" in line or "4711" in line] == []
    text = "".join(f"# {name}\n{line}\n" for name, line in lines.items())
    if os.environ.get("BALLAST_REWRITE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_a_mistake_that_a_later_layer_hides_is_one_still(tmp_path: Path) -> None:
    line = line_of(tmp_path, "control: {lease_ms: 1}", overrides=("control.lease_ms=6000",))
    assert line.startswith("control.lease_ms = 1 in file")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read configuration file .*none\.yaml: No such file"):
        load_settings(tmp_path / "none.yaml", env={})


def test_a_profile_cannot_name_another(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.yaml").write_text("profile: demo")
    assert "a profile cannot name another" in line_of(tmp_path, "profile: mine")


def test_a_long_value_is_cut_and_stays_one_line(tmp_path: Path) -> None:
    line = line_of(tmp_path, "cluster:\n  name: |\n" + "".join(f"    line {i}\n" for i in range(100)))
    assert "\n" not in line
    assert len(line) < 250


@pytest.mark.parametrize("by_env", [True, False])
def test_a_value_that_no_file_could_hold_is_refused(tmp_path: Path, by_env: bool) -> None:
    file, value = tmp_path / "ballast.yaml", "x" * 40_000
    file.write_text("")
    env, sets = ({"BALLAST_AGENT__BIND_HOST": value}, ()) if by_env else ({}, (f"agent.bind_host={value}",))
    with pytest.raises(ConfigError, match=r"agent\.bind_host .*40000 characters, at most 32768") as refused:
        load_settings(file, env=env, overrides=sets)
    assert len(str(refused.value)) < 250
