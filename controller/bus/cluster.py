"""Connections to a Kafka cluster: admin client, consumer without a group, reachability, cluster and topic ids.

Offsets are valid only within one cluster id and topic id; a wiped or replaced Kafka has others, which the journal
detects.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import TopicAuthorizationFailedError

from controller.bus import NOISY_LOGGERS
from controller.bus.failures import READ, NoRight, describe_refusal, telling_refusals
from controller.bus.security import client_options
from controller.domain.errors import BallastError
from controller.process.reachable import why_unreachable

NO_SETTINGS: Mapping[str, object] = {}
CONNECT_S = 3.0
ANSWER_MS = 5_000  # for a Kafka that accepts connections to answer


class KafkaUnavailable(BallastError):
    """Raised when no Kafka answers at the given address."""


def unavailable(bootstrap: str, error: Exception, settings: Mapping[str, object]) -> KafkaUnavailable:
    """The error to raise when a client could not be opened."""
    # A refused login closes the connection just as a dead server does: the client cannot tell them apart.
    protocol = str(settings.get("security_protocol", "PLAINTEXT"))
    hint = (
        "is it up? (`ballast kafka up`)" if protocol == "PLAINTEXT"
        else f"is it up, does it speak {protocol} there, and are login and certificate right?"
    )  # fmt: skip
    name, text = type(error).__name__, str(error)
    why = text if text.startswith(name) else f"{name}: {text}"  # some of the client's errors begin with their name
    return KafkaUnavailable(f"no Kafka answers at {bootstrap} ({why}): {hint}")


def check_reachable(bootstrap: str) -> None:
    """Raise KafkaUnavailable at once when no address accepts a connection; the client itself tries for 30 s."""
    if reasons := why_unreachable(bootstrap.split(","), CONNECT_S):
        raise KafkaUnavailable(
            f"no Kafka answers at {'; '.join(reasons)}; start it, or name another one with --conf FILE or --set "
            "kafka.bootstrap_servers=HOST:PORT"
        )


def check_answers(bootstrap: str, settings: Mapping[str, object] = NO_SETTINGS, timeout_ms: int = ANSWER_MS) -> None:
    """Raise KafkaUnavailable within seconds when no address accepts a connection, or no Kafka answers to these
    settings.

    The client library logs every attempt; here the raised error is the only message.
    """
    check_reachable(bootstrap)
    with _silence_library(), admin_client(bootstrap, settings, timeout_ms):
        pass


@contextmanager
def _silence_library() -> Iterator[None]:
    """Suppress all log lines of the client library within the block."""
    loggers = [logging.getLogger(name) for name in ("kafka", *NOISY_LOGGERS)]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


@contextmanager
def admin_client(
    bootstrap: str, settings: Mapping[str, object] = NO_SETTINGS, timeout_ms: int = 30_000
) -> Iterator[Any]:
    """An admin client, closed on exit. Raises KafkaUnavailable when no Kafka answers within `timeout_ms`, and NoRight
    for what it refuses inside."""
    opened = client_options(settings)
    try:
        client = KafkaAdminClient(
            bootstrap_servers=bootstrap,
            bootstrap_timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
            client_id="ballast-admin",
            **opened,
        )
    except Exception as error:
        raise unavailable(bootstrap, error, settings) from error
    try:
        with telling_refusals(settings):
            yield client
    finally:
        client.close()


def open_consumer(
    bootstrap: str, client_id: str, settings: Mapping[str, object], timeout_ms: int, **options: Any
) -> KafkaConsumer:
    """A consumer without a group: it commits nothing, and the caller assigns its partitions.

    `options` are those of kafka-python. Raises KafkaUnavailable when no Kafka answers within `timeout_ms`.
    """
    opened = client_options(settings)
    try:
        return KafkaConsumer(
            bootstrap_servers=bootstrap,
            client_id=client_id,
            group_id=None,
            enable_auto_commit=False,
            bootstrap_timeout_ms=timeout_ms,
            allow_auto_create_topics=False,
            **options,
            **opened,
        )
    except Exception as error:
        raise unavailable(bootstrap, error, settings) from error


def cluster_id(bootstrap: str, settings: Mapping[str, object] = NO_SETTINGS, timeout_ms: int = 30_000) -> str:
    """The id that the cluster got when its storage was formatted."""
    with admin_client(bootstrap, settings, timeout_ms) as admin:
        return str(admin.describe_cluster()["cluster_id"])


def topic_ids(bootstrap: str, names: Sequence[str], settings: Mapping[str, object] = NO_SETTINGS) -> dict[str, str]:
    """Topic name -> id for the topics that exist. A topic that was deleted and created again has a new id."""
    with admin_client(bootstrap, settings) as admin:
        found = admin.describe_topics(list(names))
    return {topic["name"]: str(topic["topic_id"]) for topic in found if topic["error_code"] == 0}


def check_visible(bootstrap: str, topic: str, settings: Mapping[str, object], timeout_ms: int) -> None:
    """Raise NoRight for a topic that this login may not read nor see; one that does not exist passes.

    In a list of all topics Kafka leaves such a topic out, as if it were missing; only asked by name it says why.
    """
    with admin_client(bootstrap, settings, timeout_ms) as admin:
        (found,) = admin.describe_topics([topic])
    if found["error_code"] == TopicAuthorizationFailedError.errno:
        raise NoRight(describe_refusal(TopicAuthorizationFailedError(topic), settings, READ))
