"""A Kafka behind TLS and a login."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from controller.bus.security import LOGIN_MODULES
from controller.process.setup_java import find_java
from controller.testbed.fault_proxy import free_port
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.kafka_settings import Door

USER, STORE_PASSWORD = "ballast", "changeit"


class Secured(NamedTuple):
    """Where it listens, and what opens it."""

    bootstrap: str
    client: dict[str, object]


@contextmanager
def secured_kafka(folder: Path, password: str) -> Iterator[Secured]:
    """An embedded Kafka with a SASL_SSL listener, its certificate made by the JDK's keytool."""
    port = free_port()
    store, ca_file = _certificate(folder)
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    login = f'{LOGIN_MODULES["PLAIN"]} required user_{USER}="{escaped}";'
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": login,
        "ssl.keystore.location": str(store),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": STORE_PASSWORD,
    }
    client: dict[str, object] = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
        "ssl_cafile": str(ca_file),
    }
    with EmbeddedKafka(folder / "kafka", doors=[Door(port, port, "SASL_SSL", settings)]):
        yield Secured(f"127.0.0.1:{port}", client)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A key store for the server, and its self-signed certificate as PEM for clients."""
    keytool, store, ca_file = find_java().home / "bin" / "keytool", folder / "server.p12", folder / "ca.pem"
    common = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD, "-alias", "kafka"]
    name = ["-dname", "CN=localhost", "-ext", "SAN=ip:127.0.0.1,dns:localhost", "-validity", "2", "-keyalg", "RSA"]
    subprocess.run([keytool, "-genkeypair", *common, *name], check=True, capture_output=True)
    subprocess.run([keytool, "-exportcert", "-rfc", *common, "-file", str(ca_file)], check=True, capture_output=True)
    return store, ca_file
