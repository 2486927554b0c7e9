"""The TLS files of `kafka.client`, tried before anything starts: a client would take a missing one for no Kafka."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping

from pydantic import SecretStr

from controller.config.settings import Settings
from controller.domain.errors import ConfigError
from controller.process.access.tls import NO_PASSPHRASE


def check_kafka_files(settings: Settings) -> None:
    """Raise ConfigError for a file that no Kafka client could use; without TLS none is read."""
    client = settings.kafka.client
    if not str(client.get("security_protocol", "")).endswith("SSL"):
        return
    context = ssl.create_default_context()
    authority, certificate = (str(client.get(key) or "") for key in ("ssl_cafile", "ssl_certfile"))
    if authority:
        _load(settings, "ssl_cafile", lambda: context.load_verify_locations(authority), "certificates")
    if certificate:
        password = _password(client)
        content = "a certificate and its key, which ssl_password opens"
        _load(settings, "ssl_certfile", lambda: context.load_cert_chain(certificate, password=password), content)


def _load(settings: Settings, key: str, load: Callable[[], None], content: str) -> None:
    try:
        load()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; its words are those of OpenSSL's code
        of_system = isinstance(error, OSError) and not isinstance(error, ssl.SSLError)
        reason = getattr(error, "strerror", None) if of_system else None
        raise ConfigError(
            f"kafka.client.{key} = {settings.kafka.client[key]} ({settings.origin('kafka.client')}) cannot be used: "
            f"{reason or 'it is not what it should be'}; give a PEM file with {content}"
        ) from None


def _password(client: Mapping[str, object]) -> str:
    """Never empty: OpenSSL would ask the terminal."""
    given = client.get("ssl_password")
    return (given.get_secret_value() if isinstance(given, SecretStr) else "") or NO_PASSPHRASE
