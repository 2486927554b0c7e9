"""`--new-journal`: take the topics over from a journal whose tables are gone.

Refused while anybody of it is heard, and where it cannot be known how high its epochs went. The order matters: first
nobody is heard for a lease and the margin, so that no agent is granted or serves anything any more; then store and
topics are asked.
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
from controller.bus.consumer import Record, TopicReader
from controller.bus.scan import scan
from controller.bus.topics import TopicNames
from controller.config.settings import Settings
from controller.domain.errors import AnotherController, ConfigError, StoreError
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState
from controller.service.lost_journal import LostJournal

LOOK_BACK_MS = 3_600_000  # of events: an agent lists what it serves every ten seconds
STORE_ANSWER_S = 10.0
NAMED = 10  # brokers in a message


class Living(NamedTuple):
    """Somebody of another journal: a broker's id or a controller's instance, and the journal that it names."""

    who: str
    journal: str


def take_over_topics(
    settings: Settings, control: ControlSettings, state: ClusterState, journal_id: str, tables: str
) -> LostJournal:
    """What is known of the journal that had them; its highest epoch is where this one's begin.

    Raises ConfigError for tables that were not wiped and for epochs that nobody can tell, AnotherController while
    somebody of the other journal lives.
    """
    check_unused(state, tables)
    names = TopicNames(settings.kafka.topic_prefix)
    living = listen_for_others(settings, names, journal_id, control.lease_ms + control.margin_ms)
    if living:
        raise AnotherController(living_text(living))
    return gather(settings, names)


def living_text(living: Collection[Living]) -> str:
    """Why the topics cannot be taken over while these live."""
    named = ", ".join(f"{who} ({journal})" for who, journal in sorted(living)[:NAMED])
    of, them, they_serve = (
        ("one of the other journal is", "it", "it serves") if len(living) == 1
        else (f"{len(living)} of the other journal are", "them", "they serve")
    )  # fmt: skip
    return f"--new-journal: {of} alive: {named}. Stop {them} first: what {they_serve} would be given to others as well"


def check_unused(state: ClusterState, tables: str) -> None:
    """Raises ConfigError when the journal has more to tell than that it was begun."""
    if state.brokers or state.namespaces or state.topics or state.commands or state.overrides:
        raise ConfigError(
            f"--new-journal is for tables that were lost: those at {tables} hold a journal of {state.seq} entries; "
            "name another tables.root, or another kafka.topic_prefix"
        )


def listen_for_others(settings: Settings, names: TopicNames, journal_id: str, listen_ms: int) -> set[Living]:
    """Agents and controllers that are heard on the topics, but for those that follow no journal or this one."""
    found: set[Living] = set()
    lock = threading.Lock()

    def on_batch(batch: list[Record]) -> None:
        with lock:
            found.update(each for record in batch if (each := living_of(record.value, journal_id)) is not None)

    kafka = settings.kafka
    reader = TopicReader(
        kafka.bootstrap_servers, [names.heartbeats], on_batch, settings=kafka.client, name="listen-for-agents"
    )
    reader.start()
    try:
        time.sleep(listen_ms / 1000)
    finally:
        reader.stop()
    with lock:
        return set(found)


def living_of(value: bytes, journal_id: str) -> Living | None:
    """Who speaks in a record of the heartbeats topic, unless it can have nothing of another journal.

    An agent that says "" follows none yet. One that says nothing is of an older version, and follows whatever it does.
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
    """Ask the store and read the topics. Raises ConfigError when the store does not answer or a runtime cannot tell."""
    lost, kafka = LostJournal(), settings.kafka
    fences, topics = asyncio.run(_ask_store(settings.store.address))
    lost.saw_fences(fences)
    lost.saw_topics(topics)

    def read(topic: str, saw: Callable[[bytes | None], None], back_ms: int | None = None) -> None:
        scan(kafka.bootstrap_servers, topic, lambda offset, value: saw(value), kafka.client, back_ms=back_ms)

    read(names.heartbeats, lost.saw_heartbeat)
    read(names.broker_events, lost.saw_event, LOOK_BACK_MS)
    read(names.journal_feed, lost.saw_feed)
    read(names.commands, lost.saw_command)
    lost.check_epochs_known()
    return lost


def tell(lost: LostJournal, journal_id: str, before: str) -> None:
    """On the terminal: what began, and what has to be created again."""
    begun = f"journal {journal_id} takes these topics over from {before}; its epochs begin above {lost.epoch}"
    for line in (begun, *lost.lines()):
        print(f"ballast: --new-journal: {line}", file=sys.stderr, flush=True)


async def _ask_store(address: str) -> tuple[list[Fence], Iterable[str]]:
    client = StoreClient(address, timeout_s=STORE_ANSWER_S)
    try:
        await client.start()
        return await client.fences(), await client.stats()
    except (StoreError, OSError) as error:
        raise ConfigError(
            f"--new-journal: the segment store at store.address = {address} does not say which epochs were granted "
            f"({error}): start it, with this version"
        ) from error
    finally:
        await client.stop()
