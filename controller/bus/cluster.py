"""What a Kafka cluster says about itself: its id and the ids of its topics.

Offsets mean something only within one cluster id and topic id: a wiped or swapped Kafka has others, and the journal
notices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient

from controller.bus.security import client_options
from controller.domain.errors import BallastError

NO_SETTINGS: Mapping[str, object] = {}


class KafkaUnavailable(BallastError):
    """Raised when no Kafka answers at the given address."""


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
        # A refused login closes the connection as a dead server does: the client cannot tell them apart.
        locked = str(settings.get("security_protocol", "PLAINTEXT")) != "PLAINTEXT"
        hint = "is it up, and are login and certificate right?" if locked else "is it up? (`ballast kafka up`)"
        raise KafkaUnavailable(f"no Kafka answers at {bootstrap} ({type(error).__name__}: {error}): {hint}") from error
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
