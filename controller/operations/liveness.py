"""Is a controller alive? It repeats its newest seq on the journal feed every second; the last record there tells.

The journal alone cannot: a controller that was killed says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from controller.bus.scan import read_newest
from controller.bus.topics import TopicNames

SILENT_AFTER_MS = 5_000
OFFLINE = "--offline"  # instead of what went wrong with Kafka, where it was not asked


@dataclass(frozen=True, slots=True)
class Heard:
    """The newest word of a controller: who, how long ago by Kafka's clock against ours, and of which journal (None: an
    older version does not say)."""

    instance: str
    at_ms: int
    journal_id: str | None = None


def last_word(bootstrap: str, client: Mapping[str, object], names: TopicNames, timeout_ms: int = 3_000) -> Heard | None:
    """The feed's last record, None when the topic is missing or empty. Raises KafkaUnavailable."""
    newest = read_newest(bootstrap, names.journal_feed, client, timeout_ms=timeout_ms)
    if newest is None:
        return None
    said = json.loads(newest.value)
    return Heard(str(said.get("instance", "")), newest.timestamp_ms, said.get("journal_id"))
