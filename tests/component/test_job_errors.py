"""How the job tells why it ends: one line, with the cause."""

from __future__ import annotations

from deltalake.exceptions import DeltaError

from controller.domain.errors import ConfigError
from jobs.balance_job import _one_line


def test_a_table_store_that_fails_is_told_with_its_cause() -> None:
    """delta-rs draws the causes as a tree, the last of which says what happened."""
    error = DeltaError("Generic S3 error\n\x1b[31m↳\x1b[0m error sending request\n\x1b[31m↳\x1b[0m Connection refused")
    error.add_note("table s3://lake/ballast/_probe")
    line = _one_line(error, {})
    assert "\n" not in line
    assert "\x1b" not in line
    assert line.startswith("table s3://lake/ballast/_probe: Generic S3 error")
    assert line.endswith("Connection refused")


def test_a_right_that_kafka_misses_is_told_by_who_lacks_it() -> None:
    """Spark's executors name a consumer group of their own."""
    client = {"security_protocol": "SASL_SSL", "sasl_plain_username": "job"}
    error = RuntimeError(
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure\n\tat java\n"
        "Caused by: org.apache.kafka.common.errors.GroupAuthorizationException: Not authorized to access group: "
        "spark-kafka-source-1-executor\n\tat java"
    )
    assert _one_line(error, client) == (
        "Kafka refuses it: User:job (kafka.client) lacks the right Read on group spark-kafka-source-1-executor: "
        "`ballast kafka acls` prints the ACLs that each role needs (docs/security.md#kafka)"
    )


def test_of_spark_the_first_line_is_enough() -> None:
    assert _one_line(RuntimeError("it failed\n at java\n at java"), {}) == "it failed"
    assert _one_line(ConfigError("loads.pane_s = 0 is too small"), {}) == "loads.pane_s = 0 is too small"
