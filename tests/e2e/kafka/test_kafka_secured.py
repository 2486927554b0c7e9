"""A Kafka with TLS and a login: the one mapping of client settings opens it for every client, Spark's included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.bus.cluster import KafkaUnavailable, cluster_id
from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.producer import JsonProducer
from controller.bus.security import reveal_secrets, spark_options
from controller.bus.topics import TopicNames, ensure_topics, live_topics
from tests.e2e.kafka.secured_kafka import Secured, secured_kafka
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.e2e]

PASSWORD = 'quote " and \\ backslash'


@pytest.fixture(scope="module")
def secured(short_lived_jvms: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_kafka(tmp_path_factory.mktemp("secured"), PASSWORD) as found:
        yield found


def test_every_client_comes_in(secured: Secured) -> None:
    names = TopicNames("secured.")
    assert cluster_id(secured.bootstrap, secured.client)
    facts = ensure_topics(secured.bootstrap, live_topics(names), secured.client)
    assert names.commands in facts
    heard: list[KafkaRecord] = []
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
@pytest.mark.thorough
def test_spark_comes_in_by_the_same_settings(secured: Secured, spark: Any) -> None:
    names = TopicNames("spark.")
    ensure_topics(secured.bootstrap, live_topics(names), secured.client)
    producer = JsonProducer(secured.bootstrap, "secured", secured.client)
    producer.send(names.load_reports, {"number": 7}, key="k").result(60)
    producer.close()
    options = {
        "kafka.bootstrap.servers": secured.bootstrap,
        "subscribe": names.load_reports,
        **reveal_secrets(spark_options(secured.client)),
    }
    rows = spark.read.format("kafka").options(**options).load().selectExpr("CAST(value AS STRING) AS v").collect()
    assert [row.v for row in rows] == ['{"number":7}']


def test_a_wrong_password_is_refused_and_the_message_thinks_of_it(secured: Secured) -> None:
    with pytest.raises(KafkaUnavailable, match="login and certificate"):
        cluster_id(secured.bootstrap, {**secured.client, "sasl_plain_password": "wrong"}, timeout_ms=5_000)
