"""Becoming the only controller: listen for another one, then commit `controller_started`.

All of this happens before Spark touches a checkpoint. Two starting controllers that hear nobody race for the same
commit, and the journal's compare-and-set lets one of them win.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import controller
from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.topics import TopicNames
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import AnotherController, BadRecord, ForeignCommit
from controller.domain.events import Tick, parse_heartbeat
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import SHADOW, ClusterState, is_foreign
from controller.service.records import Offsets

log = logging.getLogger(__name__)

LISTEN_EXTRA_MS = 500  # for a tick in flight when the lease has just expired
CLAIM_ATTEMPTS = 10  # a busy controller commits several times while it is taken over from in a slow store


def listen_for_another(
    bootstrap: str, client: Mapping[str, object], names: TopicNames, journal_id: str, listen_ms: int
) -> str | None:
    """The instance id of a controller of this journal that goes on ticking; None when none was heard for `listen_ms`.

    In topics of agent groups nobody listens: controllers tick in the plain topic too, and agents may write to the
    others.
    """
    heard, ticks = threading.Event(), Ticks(journal_id)

    def on_batch(batch: list[KafkaRecord]) -> None:
        for record in batch:
            ticks.hear(record.value)
        if ticks.living is not None:
            heard.set()

    reader = TopicReader(bootstrap, [names.heartbeats], on_batch, settings=client, name="listen-for-controller")
    reader.start()
    try:
        heard.wait(listen_ms / 1000)
    finally:
        reader.stop()
    return ticks.living


class Ticks:
    """Which controller of a journal lives, by the records on the heartbeats topic: one of which two different ticks
    were read. A single one may have been under way when its controller died, and may be read twice.

    A controller that names no journal counts, being of an older version; one of another journal does not.
    """

    def __init__(self, journal_id: str) -> None:
        self.living: str | None = None
        self._journal_id = journal_id
        self._first: dict[str, bytes] = {}  # tick by instance

    def hear(self, value: bytes) -> None:
        """A record of that topic."""
        instance = ticking_instance(value, self._journal_id)
        if instance is not None and self._first.setdefault(instance, value) != value:
            self.living = self.living or instance


def check_alone(
    state: ClusterState,
    nobody: bool,
    take_over: bool,
    settings: ControlSettings,
    listen: Callable[[int], str | None],
) -> None:
    """Raise AnotherController, naming the holder, when a live one is heard.

    `nobody`: none can be alive (`controller.service.topic_claim.nobody_can_be_alive`).
    """
    if nobody:
        return
    if take_over:
        log.warning("taking over from controller %s without listening for it", state.instance)
        return
    log.info("it is unknown whether the last controller %s has stopped: listening for one lease", state.instance)
    refuse_holder(listen(settings.lease_ms + LISTEN_EXTRA_MS))


def refuse_holder(holder: str | None) -> None:
    """Raise AnotherController if one was heard."""
    if holder is not None:
        raise AnotherController(
            f"controller {holder} is alive and holds the journal: stop it first, or start with --take-over"
        )


def first_entries(
    state: ClusterState,
    instance: str,
    at_ms: int,
    settings: ControlSettings,
    kafka: Mapping[str, Any],
    journal_id: str,
    positions: Mapping[str, Mapping[str, int]] | None = None,
    why: str = "another Kafka was accepted",
    epoch_floor: int = 0,
) -> list[Entry]:
    """The entries of a controller before its first batch; for a new cluster they include its mode.

    `positions`: the offsets to continue at, and `why`, in another Kafka (`kafka_identity.settle_kafka`) or in topics
    that were another journal's. `epoch_floor`: new bundles start above it.
    """
    data: dict[str, Any] = {
        "version": controller.__version__,
        "config_version": settings.config_version,
        "lease_ms": settings.lease_ms,
        "margin_ms": settings.margin_ms,
        "journal_id": journal_id,
        **({"epoch_floor": epoch_floor} if epoch_floor else {}),
    }
    started = Entry(
        seq=state.seq + 1,
        kind=Kind.CONTROLLER_STARTED,
        instance=instance,
        batch=-1,
        at_ms=at_ms,
        data=data,
    )
    entries = [started]
    new_cluster = state.seq == 0
    if new_cluster and settings.initial_mode != SHADOW:
        data = {"mode": settings.initial_mode}
        entries.append(
            Entry(started.seq + 1, Kind.MODE, instance, -1, at_ms, reason="mode of a new cluster", data=data)
        )
    if not state.kafka or positions is not None:
        data = {**kafka, "topics": dict(positions or {})}
        reason = None if positions is None else why
        entries.append(Entry(entries[-1].seq + 1, Kind.OFFSETS, instance, -1, at_ms, reason=reason, data=data))
    return entries


def last_entries(
    state: ClusterState, instance: str, batch: int, at_ms: int, offsets: Offsets, kafka: Mapping[str, Any],
    failed: str = "",
) -> list[Entry]:  # fmt: skip
    """The entries of a stop: offsets that are not journaled yet, and the stop itself, so that the next start need not
    listen. `failed`: why the job ended by itself."""
    entries = []
    if offsets:
        data = {**kafka, "topics": {topic: dict(partitions) for topic, partitions in offsets.items()}}
        entries.append(Entry(state.seq + 1, Kind.OFFSETS, instance, batch, at_ms, data=data))
    why = {"failed": failed} if failed else {}
    return [*entries, Entry(state.seq + len(entries) + 1, Kind.CONTROLLER_STOPPED, instance, batch, at_ms, data=why)]


def claim(
    state: ClusterState,
    entries: list[Entry],
    commit: Callable[[Sequence[Entry]], None],
) -> ClusterState:
    """Commit the first entries; returns the state after them. Raises ForeignCommit when another one was quicker."""
    commit(entries)
    return fold(state, entries)


class Claimable(Protocol):
    """The journal for a starting controller; opened before the state is read, so that commits in between are
    detected."""

    def load_state(self) -> ClusterState:
        """The cluster state at the journal's newest entry."""

    def commit(self, entries: Sequence[Entry]) -> None:
        """Append the entries as one commit. Raises ForeignCommit."""


T = TypeVar("T", bound=Claimable)


def become_controller(
    open_tables: Callable[[], T], prepare: Callable[[ClusterState, bool], list[Entry]], take_over: bool
) -> tuple[T, ClusterState, list[Entry]]:
    """Claim the journal; returns the tables, the state, and the entries that claimed it.

    `prepare` checks the state, listens, and returns the first entries; it may raise AnotherController. When another
    commit came in between, the controller checks and listens again: the commit may be of a live rival, which is then
    heard and named, even with --take-over, or a late write of a dead one, which must not prevent the start. The one
    that --take-over is to replace may commit meanwhile as often as it does; nobody listens for it.
    """
    replaced: str | None = None
    for attempt in range(CLAIM_ATTEMPTS):
        tables = open_tables()
        state = tables.load_state()
        replaced = state.instance if attempt == 0 else replaced
        entries = prepare(state, take_over and state.instance == replaced)
        try:
            return tables, claim(state, entries, tables.commit), entries
        except ForeignCommit as error:
            if attempt + 1 == CLAIM_ATTEMPTS:
                raise
            log.warning("another commit was quicker, checking again: %s", error)
    raise AssertionError("unreachable")


def ticking_instance(value: bytes, journal_id: str) -> str | None:
    """The sender of a tick on the heartbeats topic; None for any other record, and for ticks of another journal."""
    try:
        event = parse_heartbeat(value)
    except BadRecord:
        return None
    if not isinstance(event, Tick):
        return None
    if is_foreign(journal_id, event.journal_id):
        log.warning(
            "a controller of another journal ticks on these topics: %s of journal %s", event.instance, event.journal_id
        )
        return None
    return event.instance
