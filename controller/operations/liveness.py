"""Tells whether a controller is alive, from the last record of the journal feed: it repeats its seq every second.

The journal cannot tell: a killed controller leaves no entry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.operations.text import count_text

if TYPE_CHECKING:
    from controller.bus.topics import TopicNames

SILENT_AFTER_MS = 5_000
OFFLINE = "--offline"  # stands in for Kafka's error if Kafka was not asked
ASKING = "being asked"  # and this while its answer is not there yet
SLICE = "a captured slice has no Kafka"  # and this where there is none to ask
NO_CONTROLLER = "no controller runs: start one with `ballast run`"


@dataclass(frozen=True, slots=True)
class Heard:
    """The last sign of a controller: who, when by Kafka's clock, and of which journal (None for older versions)."""

    instance: str
    at_ms: int
    journal_id: str | None = None
    engine: Mapping[str, Any] | None = None  # what it runs on: spark, master, executors, cores


def failure_of_kafka(not_asked: str | None) -> str | None:
    """Why Kafka does not answer; None if it does, was not asked, or has had no time to answer."""
    return None if not_asked in (OFFLINE, ASKING, SLICE) else not_asked


def engine_text(engine: Mapping[str, Any]) -> str:
    """What a controller runs on, as its log and `ballast status` say it."""
    executors = f"{count_text(engine['executors'], 'executor')}, " if engine["executors"] else ""
    return f"Spark {engine['spark']} at {engine['master']}, {executors}{count_text(engine['cores'], 'core')}"


def last_word(bootstrap: str, client: Mapping[str, object], names: TopicNames, timeout_ms: int = 3_000) -> Heard | None:
    """The last record of the feed; None if the topic is missing or empty. Raises KafkaUnavailable."""
    from controller.bus.scan import read_newest  # the Kafka client takes long to import, and --offline asks nobody

    newest = read_newest(bootstrap, names.journal_feed, client, timeout_ms=timeout_ms)
    if newest is None:
        return None
    said = json.loads(newest.value)
    return Heard(str(said.get("instance", "")), newest.timestamp_ms, said.get("journal_id"), said.get("engine"))
