"""One mapping of security settings for every client, Spark included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.bus.security import client_options, reveal_secrets, spark_options, wrap_secrets
from controller.domain.errors import ConfigError


def test_without_settings_spark_gets_none() -> None:
    assert spark_options({}) == {}


def test_sasl_over_tls_in_sparks_words() -> None:
    settings = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ballast",
        "sasl_plain_password": 'a"b\\c',
        "ssl_cafile": "/etc/ca.pem",
        "ssl_certfile": "/etc/client.pem",
        "ssl_check_hostname": False,
    }
    assert reveal_secrets(spark_options(settings)) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="ballast" password="a\\"b\\\\c";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/etc/ca.pem",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": "/etc/client.pem",
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ssl_keyfile": "/k"}, "ssl_keyfile.*one PEM file of ssl_certfile"),
        ({"acks": 1}, "'acks' is not known; allowed are security_protocol"),
        ({"security_protocol": "TLS"}, "security_protocol='TLS': allowed are PLAINTEXT"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "sasl_mechanism='GSSAPI': allowed are PLAIN"),
        (
            {"sasl_plain_username": "u"},
            "sasl_plain_username has no effect without SASL: give security_protocol SASL",
        ),
        (
            {"security_protocol": "SSL", "sasl_mechanism": "PLAIN", "sasl_plain_password": "hunter2"},
            r"sasl_mechanism and sasl_plain_password have no effect with security_protocol=SSL",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "u"},
            "sasl_plain_password is missing",
        ),
    ],
)
def test_what_not_every_client_understands_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        spark_options(settings)


def test_secrets_show_themselves_to_the_clients_alone() -> None:
    plain = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ballast",
        "sasl_plain_password": "hunter2",
        "ssl_certfile": "/etc/client.pem",
        "ssl_password": "hunter2",
    }
    settings = wrap_secrets(plain)
    assert client_options(settings) == plain
    assert spark_options(settings) == spark_options(plain)
    assert reveal_secrets(spark_options(settings))["kafka.ssl.key.password"] == "hunter2"
    assert "hunter2" not in f"{settings} {spark_options(settings)} {list(spark_options(settings).values())}"


def test_a_password_of_several_lines_stays_one_word() -> None:
    login = wrap_secrets({"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "a\nb\rc"})
    jaas = reveal_secrets(spark_options({"security_protocol": "SASL_SSL", **login}))["kafka.sasl.jaas.config"]
    assert jaas.endswith('password="a\\nb\\rc";')


def test_whoever_makes_a_client_opens_its_secrets() -> None:
    """A client that is handed a secret as it is kept logs in with stars."""
    made = re.compile(r"\bKafka(Consumer|Producer|AdminClient)\(")
    root = Path(__file__).resolve().parents[3]
    makers = [file for folder in ("controller", "jobs") for file in (root / folder).rglob("*.py")]
    makers = [file for file in makers if made.search(file.read_text(encoding="utf-8"))]
    assert {file.name for file in makers} == {"cluster.py", "producer.py"}
    assert [file.name for file in makers if "client_options(" not in file.read_text(encoding="utf-8")] == []
