"""The JARs of the cache fit Spark: a Kafka topic read by a query and written to Delta, with the settings of
local.conf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames
from controller.testbed.kafka import EmbeddedKafka

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.thorough
def test_spark_reads_a_topic_into_delta_that_delta_rs_can_read(
    spark: Any, kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path
) -> None:
    producer = JsonProducer(kafka.bootstrap, "test")
    for number in range(20):
        producer.send(topics.load_reports, {"number": number}, key=str(number)).result(60)
    producer.close()
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("subscribe", topics.load_reports)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        source.selectExpr("CAST(value AS STRING) AS value", "partition", "timestampType")
        .writeStream.format("delta")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "table"))
    )
    assert query.awaitTermination(120)
    rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    assert sorted(row["value"] for row in rows) == sorted(f'{{"number":{n}}}' for n in range(20))
    assert {row["timestampType"] for row in rows} == {1}, "1 is LogAppendTime"
    assert len({row["partition"] for row in rows}) > 1, "keys spread over the four partitions"
