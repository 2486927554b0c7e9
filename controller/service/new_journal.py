"""`--new-journal`: takes the topics over from a journal whose tables are lost.

Refused while any of its agents or controllers is alive, and when its highest epoch cannot be determined. The order
matters: first nobody is heard for a lease and the margin, so that no agent serves any more; then the store and the
topics are read.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from controller.brokers.reference.store.client import StoreClient
from controller.brokers.reference.store.fences import Fence
from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.scan import scan
from controller.bus.topics import TopicNames
from controller.config.settings import Settings
from controller.domain.errors import AnotherController, ConfigError, StoreError
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState
from controller.operations.text import count_text
from controller.service.lost_journal import LostJournal

LOOK_BACK_MS = 3_600_000  # in events; agents send an inventory every ten seconds
STORE_ANSWER_S = 10.0
NAMED = 10  # brokers in a message


class Living(NamedTuple):
    """A live party of another journal: a broker's id or a controller's instance, and the journal that it names."""

    who: str
    journal: str


def take_over_topics(
    settings: Settings, control: ControlSettings, state: ClusterState, journal_id: str, tables: str
) -> LostJournal:
    """Take the topics over; returns what is known of their journal, above whose highest epoch this one's start.

    Raises ConfigError when our own tables are in use or epochs are unknown, AnotherController while an agent or
    controller of the other journal is alive.
    """
    check_unused(state, tables)
    names = settings.kafka.topics
    living = listen_for_others(settings, names, journal_id, control.lease_ms + control.margin_ms)
    if living:
        raise AnotherController(describe_living(living))
    return gather(settings, names)


def describe_living(living: Collection[Living]) -> str:
    """Why the topics cannot be taken over while these are alive."""
    named = ", ".join(f"{who} ({journal})" for who, journal in sorted(living)[:NAMED])
    of, them, they_serve = (
        ("one of the other journal is", "it", "it serves") if len(living) == 1
        else (f"{len(living)} of the other journal are", "them", "they serve")
    )  # fmt: skip
    return f"--new-journal: {of} alive: {named}. Stop {them} first: what {they_serve} would be given to others as well"


def check_unused(state: ClusterState, tables: str) -> None:
    """Raise ConfigError when our own journal is already in use."""
    if state.brokers or state.namespaces or state.topics or state.commands or state.overrides:
        raise ConfigError(
            f"--new-journal is for tables that were lost: those at {tables} hold a journal of "
            f"{count_text(state.seq, 'entry', 'entries')}; name another tables.root, or another kafka.topic_prefix"
        )


def listen_for_others(settings: Settings, names: TopicNames, journal_id: str, listen_ms: int) -> set[Living]:
    """The agents and controllers heard on the topics, except those of this journal or of none yet."""
    found: set[Living] = set()
    lock = threading.Lock()

    def on_batch(batch: list[KafkaRecord]) -> None:
        with lock:
            found.update(each for record in batch if (each := parse_living(record.value, journal_id)) is not None)

    kafka = settings.kafka
    reader = TopicReader(
        kafka.bootstrap_servers, names.all_heartbeats, on_batch, settings=kafka.client, name="listen-for-agents"
    )
    reader.start()
    try:
        time.sleep(listen_ms / 1000)
    finally:
        reader.stop()
    with lock:
        return set(found)


def parse_living(value: bytes, journal_id: str) -> Living | None:
    """The sender of a record of the heartbeats topic; None if it cannot be of another journal.

    An agent with an empty journal id follows none yet. One without the field is of an older version and may follow any.
    """
    try:
        doc = json.loads(value)
    except ValueError:
        return None
    if not isinstance(doc, dict) or doc.get("journal_id") in ("", journal_id):
        return None
    who = doc.get("instance") if doc.get("kind") == "tick" else doc.get("broker")
    return Living(str(who), f"journal {doc['journal_id']}" if doc.get("journal_id") else "of an older version")


def gather(settings: Settings, names: TopicNames) -> LostJournal:
    """Query the store and read the topics. Raises ConfigError when the store does not answer or epochs are unknown."""
    lost, kafka = LostJournal(), settings.kafka
    fences, topics = asyncio.run(_ask_store(settings.store.address))
    lost.note_fences(fences)
    lost.note_topics(topics)

    def read(topic: str, note: Callable[[bytes | None], None], back_ms: int | None = None) -> None:
        scan(kafka.bootstrap_servers, topic, lambda offset, value: note(value), kafka.client, back_ms=back_ms)

    for topic in names.all_heartbeats:
        read(topic, lost.note_heartbeat)
    for topic in names.all_broker_events:
        read(topic, lost.note_event, LOOK_BACK_MS)
    read(names.journal_feed, lost.note_feed)
    read(names.commands, lost.note_command)
    lost.check_epochs_known()
    return lost


def print_lost(lost: LostJournal, journal_id: str, before: str) -> None:
    """Print to stderr which journal starts, and what the operator has to create again."""
    started = f"journal {journal_id} takes these topics over from {before}; its epochs start above {lost.epoch}"
    for line in (started, *lost.lines()):
        print(f"ballast: --new-journal: {line}", file=sys.stderr, flush=True)


async def _ask_store(address: str) -> tuple[list[Fence], Iterable[str]]:
    client = StoreClient(address, timeout_s=STORE_ANSWER_S)
    try:
        await client.start()
        return await client.fences(), await client.stats()
    except (StoreError, OSError) as error:
        raise ConfigError(
            f"--new-journal: the segment store at store.address = {address} does not tell which epochs were granted "
            f"({error}): start it, with this version"
        ) from error
    finally:
        await client.stop()
