"""What a Kafka cluster says about itself: its id and the ids of its topics.

Offsets mean something only within one cluster id and topic id: a wiped or swapped Kafka has others, and the journal
notices.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient

from controller.bus import CHATTY
from controller.bus.security import client_options
from controller.domain.errors import BallastError

NO_SETTINGS: Mapping[str, object] = {}
CONNECT_S = 3.0
ANSWER_MS = 5_000  # from a Kafka that takes connections


class KafkaUnavailable(BallastError):
    """Raised when no Kafka answers at the given address."""


def unavailable(bootstrap: str, error: Exception, settings: Mapping[str, object]) -> KafkaUnavailable:
    """What to raise when a client could not be opened."""
    # A refused login closes the connection as a dead server does: the client cannot tell them apart.
    protocol = str(settings.get("security_protocol", "PLAINTEXT"))
    hint = (
        "is it up? (`ballast kafka up`)" if protocol == "PLAINTEXT"
        else f"is it up, does it speak {protocol} there, and are login and certificate right?"
    )  # fmt: skip
    name, text = type(error).__name__, str(error)
    why = text if text.startswith(name) else f"{name}: {text}"  # the client's own errors begin with their name
    return KafkaUnavailable(f"no Kafka answers at {bootstrap} ({why}): {hint}")


def check_reachable(bootstrap: str) -> None:
    """Raise KafkaUnavailable at once when no address takes a connection: the client itself tries for half a minute."""
    reasons = []
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
            return
        except (OSError, UnicodeError) as error:  # a label of a host's name that is too long
            reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
    raise KafkaUnavailable(
        f"no Kafka answers at {'; '.join(reasons)}; name it with --conf FILE or --set kafka.bootstrap_servers=HOST:PORT"
    )


def check_answers(bootstrap: str, settings: Mapping[str, object] = NO_SETTINGS, timeout_ms: int = ANSWER_MS) -> None:
    """Raise KafkaUnavailable in seconds when nobody takes a connection, or no Kafka that knows these settings is
    behind it. The client library tells of every try of its own; here the one line tells."""
    check_reachable(bootstrap)
    with _library_silent(), admin_client(bootstrap, settings, timeout_ms):
        pass


@contextmanager
def _library_silent() -> Iterator[None]:
    """While inside, nothing that the client library logs is heard."""
    loggers = [logging.getLogger(name) for name in ("kafka", *CHATTY)]
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
    """An admin client that is closed at the end; raises KafkaUnavailable when nobody answers within `timeout_ms`."""
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
        yield client
    finally:
        client.close()


def cluster_id(bootstrap: str, settings: Mapping[str, object] = NO_SETTINGS, timeout_ms: int = 30_000) -> str:
    """The id that the cluster got when it was formatted."""
    with admin_client(bootstrap, settings, timeout_ms) as admin:
        return str(admin.describe_cluster()["cluster_id"])


def topic_ids(bootstrap: str, names: Sequence[str], settings: Mapping[str, object] = NO_SETTINGS) -> dict[str, str]:
    """Topic name → id, for those that exist. A topic deleted and created again has a new id."""
    with admin_client(bootstrap, settings) as admin:
        found = admin.describe_topics(list(names))
    return {topic["name"]: str(topic["topic_id"]) for topic in found if topic["error_code"] == 0}
