"""A Kafka with TLS and a login: the one mapping of client settings opens it for every client, Spark's included."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller.bus.cluster import KafkaUnavailable, cluster_id
from controller.bus.consumer import Record, TopicReader
from controller.bus.producer import JsonProducer
from controller.bus.security import LOGIN_MODULES, spark_options
from controller.bus.topics import TopicNames, ensure_topics, live_topics
from controller.demo.cut import free_port
from controller.demo.kafka import EmbeddedKafka
from controller.demo.kafka_settings import Door
from controller.ops.setup_java import find_java
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.e2e]

USER, PASSWORD = "ballast", 'quote " and \\ backslash'
STORE_PASSWORD = "changeit"


class Secured(NamedTuple):
    """Where it listens, and what opens it."""

    bootstrap: str
    client: dict[str, object]


@pytest.fixture(scope="module")
def secured(short_lived_jvms: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """An embedded Kafka with a SASL_SSL listener, its certificate made by the JDK's keytool."""
    folder, port = tmp_path_factory.mktemp("secured"), free_port()
    store, ca_file = _certificate(folder)
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    login = f'{LOGIN_MODULES["PLAIN"]} required user_{USER}="{escaped}";'
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": login.replace("\\", "\\\\"),  # a properties file eats one level
        "ssl.keystore.location": str(store),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": STORE_PASSWORD,
    }
    client: dict[str, object] = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": str(ca_file),
    }
    with EmbeddedKafka(folder / "kafka", doors=[Door(port, port, "SASL_SSL", settings)]):
        yield Secured(f"127.0.0.1:{port}", client)


def test_every_client_comes_in(secured: Secured) -> None:
    names = TopicNames("secured.")
    assert cluster_id(secured.bootstrap, secured.client)
    facts = ensure_topics(secured.bootstrap, live_topics(names), secured.client)
    assert names.commands in facts
    heard: list[Record] = []
    reader = TopicReader(secured.bootstrap, [names.commands], heard.extend, settings=secured.client, name="secured")
    reader.start()
    try:
        producer = JsonProducer(secured.bootstrap, "secured", secured.client)
        producer.send(names.commands, {"hello": 1}, key="k").result(60)
        producer.close()
        wait_until(lambda: any(record.value == b'{"hello":1}' for record in heard), 60)
    finally:
        reader.stop()


@pytest.mark.spark
def test_spark_comes_in_by_the_same_settings(secured: Secured, spark: Any) -> None:
    names = TopicNames("spark.")
    ensure_topics(secured.bootstrap, live_topics(names), secured.client)
    producer = JsonProducer(secured.bootstrap, "secured", secured.client)
    producer.send(names.load_reports, {"number": 7}, key="k").result(60)
    producer.close()
    options = {
        "kafka.bootstrap.servers": secured.bootstrap,
        "subscribe": names.load_reports,
        **spark_options(secured.client),
    }
    rows = spark.read.format("kafka").options(**options).load().selectExpr("CAST(value AS STRING) AS v").collect()
    assert [row.v for row in rows] == ['{"number":7}']


def test_a_wrong_password_is_refused_and_the_message_thinks_of_it(secured: Secured) -> None:
    with pytest.raises(KafkaUnavailable, match="login and certificate"):
        cluster_id(secured.bootstrap, {**secured.client, "sasl_plain_password": "wrong"}, timeout_ms=5_000)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A key store for the server, and its self-signed certificate as PEM for clients."""
    keytool, store, ca_file = find_java().home / "bin" / "keytool", folder / "server.p12", folder / "ca.pem"
    common = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD, "-alias", "kafka"]
    name = ["-dname", "CN=localhost", "-ext", "SAN=ip:127.0.0.1,dns:localhost", "-validity", "2", "-keyalg", "RSA"]
    subprocess.run([keytool, "-genkeypair", *common, *name], check=True, capture_output=True)
    subprocess.run([keytool, "-exportcert", "-rfc", *common, "-file", str(ca_file)], check=True, capture_output=True)
    return store, ca_file
