"""What Kafka tells a repair of the tables: whether a controller lives, and what the journal held.

A repair must not run beside a controller, nor lose what somebody has acted upon. So it listens for one lease, as a
starting controller does; and whatever seq the feed, the controller's ticks or an agent's heartbeats name, it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafka.errors import KafkaError

from controller.agent.feed import parse_feed
from controller.bus.failures import TopicUnreadable
from controller.bus.scan import scan
from controller.bus.topic_owner import OwnerTopic, is_at
from controller.config.policy_values import control_settings
from controller.config.settings import Settings
from controller.domain.entries import Entry
from controller.domain.errors import AnotherController, BadRecord, without_login
from controller.domain.events import Heartbeat, Tick, parse_heartbeat
from controller.ledger.repair.heard import Heard, gather
from controller.ledger.repair.identity import find_journal_id
from controller.ledger.tables import TableRoot
from controller.service.start import LISTEN_EXTRA_MS, listen_for_another

LOOK_BACK_MS = 600_000  # in heartbeats: each names all that its agent has ever applied


def journal_of_tables(settings: Settings, root: TableRoot) -> str:
    """The id of the journal in the tables, or, where they do not tell, of the journal that its topics name for them;
    empty if neither does. Raises KafkaUnavailable, TopicUnreadable, ConfigError."""
    kafka = settings.kafka
    found = find_journal_id(root)
    if found is None:
        with _name_topic(kafka.topics.owner):
            owner = OwnerTopic(kafka.bootstrap_servers, kafka.topics.owner, kafka.client).read().owner
        if owner is not None and is_at(owner, without_login(root.root)):
            found = owner.journal_id
    return found or ""


def hear_of_journal(settings: Settings, journal_id: str) -> Heard:
    """What the topics have of this journal. Raises KafkaUnavailable, TopicUnreadable."""
    kafka, told = settings.kafka, Told(journal_id)

    def read(topic: str, note: Callable[[bytes | None], None], back_ms: int | None = None) -> None:
        with _name_topic(topic):
            scan(kafka.bootstrap_servers, topic, lambda offset, value: note(value), kafka.client, back_ms=back_ms)

    if journal_id:
        read(kafka.topics.journal_feed, told.note_feed)
        for topic in kafka.topics.all_heartbeats:
            read(topic, told.note_heartbeat, LOOK_BACK_MS)
    return told.heard


def check_no_controller(settings: Settings, journal_id: str) -> None:
    """Listen for one lease; raise AnotherController if a controller of this journal ticks. Of an unknown journal, any
    controller on these topics counts."""
    kafka = settings.kafka
    holder = listen_for_another(
        kafka.bootstrap_servers,
        kafka.client,
        kafka.topics,
        journal_id,
        control_settings(settings).lease_ms + LISTEN_EXTRA_MS,
    )
    if holder is not None:
        raise AnotherController(
            f"controller {holder} is alive and may write to the tables at any moment: stop it first (SIGTERM), then "
            "run `ballast repair --execute` again; nothing was changed"
        )


@contextmanager
def _name_topic(topic: str) -> Iterator[None]:
    """Raise TopicUnreadable for what the client library raises, as of a topic that does not exist."""
    try:
        yield
    except KafkaError as error:
        raise TopicUnreadable(f"topic {topic} cannot be read ({type(error).__name__}: {error})") from error


@dataclass(slots=True)
class Told:
    """Gathers what records tell of one journal; each `note_…` takes a record as it lies in Kafka."""

    journal_id: str
    entries: list[Entry] = field(default_factory=list)
    newest_seq: int = 0
    newest_from: str = ""

    @property
    def heard(self) -> Heard:
        """All of it."""
        return gather(self.entries, self.newest_seq, self.newest_from)

    def note_feed(self, raw: bytes | None) -> None:
        """Note a record of the feed: entries of a commit, or the newest seq."""
        try:
            feed = parse_feed(raw or b"")
        except BadRecord:
            return
        if feed.journal_id == self.journal_id:
            self.entries += feed.entries
            self._note(feed.seq, "the journal feed")

    def note_heartbeat(self, raw: bytes | None) -> None:
        """Note a tick of the controller, or how far an agent has come."""
        try:
            beat = parse_heartbeat(raw or b"")
        except BadRecord:
            return
        if isinstance(beat, Tick) and beat.journal_id == self.journal_id:
            self._note(beat.seq, f"controller {beat.instance}")
        elif isinstance(beat, Heartbeat) and beat.journal_id == self.journal_id:
            self._note(beat.applied_seq, f"the agent of {beat.session.broker}")

    def _note(self, seq: int, who: str) -> None:
        if seq > self.newest_seq:
            self.newest_seq, self.newest_from = seq, who
