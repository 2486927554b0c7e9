"""SASL and TLS settings under kafka-python's names, for every client, Spark's included.

Only the keys listed here are accepted, so that one mapping works for both: settings that the JVM client could not
follow are refused at the start. From the loader on, secrets are of a type that prints as `***`; `reveal_secrets`
unwraps them and is called only where they are passed to a client library.
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
    """Raise ConfigError for a key or value that some client does not support, and for a SASL login that is
    incomplete or has no effect."""
    for key in settings:
        if key not in KEYS:
            key = re.split("[=:]", key, maxsplit=1)[0]  # a key like `password=x`: do not show x
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
    else:
        _check_no_login(settings)


def _check_no_login(settings: Mapping[str, object]) -> None:
    unused = [key for key in KEYS if key.startswith("sasl_") and _text(settings.get(key))]
    if unused:
        given = settings.get("security_protocol")
        without = f"with security_protocol={given}" if given else "without SASL"
        raise ConfigError(
            f"{' and '.join(unused)} {'have' if len(unused) > 1 else 'has'} no effect {without}: "
            "give security_protocol SASL_SSL or SASL_PLAINTEXT"
        )


def wrap_secrets(settings: Mapping[str, object]) -> dict[str, object]:
    """The same settings, with secrets wrapped in the type that does not print them."""
    return {key: SecretStr(v) if key in SECRET_KEYS and isinstance(v, str) else v for key, v in settings.items()}


def client_options(settings: Mapping[str, object]) -> dict[str, Any]:
    """The options for a client of kafka-python. Raises ConfigError as `check_client_settings` does."""
    check_client_settings(settings)
    return reveal_secrets(settings)


def reveal_secrets(settings: Mapping[str, object]) -> dict[str, Any]:
    """The same settings with secrets as plain text, to be passed to a client library and nothing else."""
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
    user, password = (_quote(_text(settings[key])) for key in ("sasl_plain_username", "sasl_plain_password"))
    return f"{module} required username={user} password={password};"


def _quote(text: str) -> str:
    """Quote for Kafka's JAAS parser, for which a line break ends the word; its exception would show the rest."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def _text(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value or "")
