"""SASL and TLS settings, given once in kafka-python's names and passed to every client, Spark included.

Only the keys listed here are accepted, so that one mapping works for both: what the JVM client could not follow is
refused at the start. Secrets are a type that prints as `***` from the loader on; `revealed` opens them, and is called
nowhere but in the call that hands them to a client library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from controller.domain.errors import ConfigError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
KEYS = (
    "security_protocol",
    "sasl_mechanism",
    "sasl_plain_username",
    "sasl_plain_password",
    "ssl_cafile",
    "ssl_certfile",
    "ssl_password",
    "ssl_check_hostname",
)
SECRET_KEYS = ("sasl_plain_password", "ssl_password")


def check_client_settings(settings: Mapping[str, object]) -> None:
    """Raises ConfigError for a key or value that not every client understands, or a half-given SASL login."""
    for key in settings:
        if key not in KEYS:
            key = re.split("[=:]", key, maxsplit=1)[0]  # `password=x` for a key: x is not to be shown
            hint = " (put key and certificate into the one PEM file of ssl_certfile)" if key == "ssl_keyfile" else ""
            raise ConfigError(f"Kafka client setting {key!r} is not known{hint}; allowed are {', '.join(KEYS)}")
    for key in SECRET_KEYS:
        if not isinstance(settings.get(key, ""), str | SecretStr):
            raise ConfigError(f"{key} is no text ({type(settings[key]).__name__}): put it in quotes")
    protocol = settings.get("security_protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise ConfigError(f"security_protocol={protocol!r}: allowed are {', '.join(PROTOCOLS)}")
    if str(protocol).startswith("SASL"):
        mechanism = settings.get("sasl_mechanism")
        if mechanism not in LOGIN_MODULES:
            raise ConfigError(f"sasl_mechanism={mechanism!r}: allowed are {', '.join(LOGIN_MODULES)}")
        for key in ("sasl_plain_username", "sasl_plain_password"):
            if not _text(settings.get(key)):
                raise ConfigError(f"{key} is missing: security_protocol={protocol} needs it")


def with_secrets(settings: Mapping[str, object]) -> dict[str, object]:
    """The same settings, what is secret in the type that does not show it."""
    return {key: SecretStr(v) if key in SECRET_KEYS and isinstance(v, str) else v for key, v in settings.items()}


def client_options(settings: Mapping[str, object]) -> dict[str, Any]:
    """What a client of kafka-python is made with. Raises ConfigError as `check_client_settings` does."""
    check_client_settings(settings)
    return revealed(settings)


def revealed(settings: Mapping[str, object]) -> dict[str, Any]:
    """The same settings with their secrets as text, for the client library that this is handed to and nobody else."""
    return {key: v.get_secret_value() if isinstance(v, SecretStr) else v for key, v in settings.items()}


def spark_options(settings: Mapping[str, object]) -> dict[str, str | SecretStr]:
    """The same settings as `kafka.*` options of Spark's Kafka source and sink."""
    check_client_settings(settings)
    options: dict[str, str | SecretStr] = {}
    if "security_protocol" in settings:
        options["kafka.security.protocol"] = str(settings["security_protocol"])
    if str(settings.get("security_protocol", "")).startswith("SASL"):
        options["kafka.sasl.mechanism"] = str(settings["sasl_mechanism"])
        options["kafka.sasl.jaas.config"] = SecretStr(_jaas(settings))
    if settings.get("ssl_cafile"):
        options["kafka.ssl.truststore.type"] = "PEM"
        options["kafka.ssl.truststore.location"] = str(settings["ssl_cafile"])
    if settings.get("ssl_certfile"):
        options["kafka.ssl.keystore.type"] = "PEM"
        options["kafka.ssl.keystore.location"] = str(settings["ssl_certfile"])
    if _text(settings.get("ssl_password")):
        options["kafka.ssl.key.password"] = SecretStr(_text(settings["ssl_password"]))
    if settings.get("ssl_check_hostname") is False:
        options["kafka.ssl.endpoint.identification.algorithm"] = ""
    return options


def _jaas(settings: Mapping[str, object]) -> str:
    module = LOGIN_MODULES[str(settings["sasl_mechanism"])]
    user, password = (_quoted(_text(settings[key])) for key in ("sasl_plain_username", "sasl_plain_password"))
    return f"{module} required username={user} password={password};"


def _quoted(text: str) -> str:
    """As Kafka's parser reads it. A line's end would end the word for it, and the rest be named in its exception."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def _text(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value or "")
