"""One mapping of security settings for every client, Spark included."""

from __future__ import annotations

import pytest

from controller.bus.security import spark_options
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
    assert spark_options(settings) == {
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
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "u"},
            "sasl_plain_password is missing",
        ),
    ],
)
def test_what_not_every_client_understands_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        spark_options(settings)
