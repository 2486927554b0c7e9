"""Claims the topics for a journal: checked before a controller claims the journal, written right after.

The journal's own commit comes first, so that a crash in between leaves only a journal that has started. The owner in
the record keeps the topics, whatever others send: only another record can end its ownership (decision 10).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from typing import Any

import controller
from controller.bus.cluster import KafkaUnavailable
from controller.bus.failures import TopicUnreadable
from controller.bus.topic_owner import RUNNING, STOPPED, OwnerTopic, Seen, TopicOwner, is_at, mark_stopped
from controller.domain.errors import AnotherController, ConfigError, ForeignCommit
from controller.domain.state import ClusterState
from controller.process.clock import wall_ms

log = logging.getLogger(__name__)

QUICKLY_MS = 5_000  # for Kafka to answer a running or stopping controller, which must not hang


def names_these_topics(state: ClusterState, kafka: Mapping[str, Any]) -> bool:
    """Whether the journal's offsets belong to these very topics.

    A journal with an id that has read nothing does not count: it lost the topics to another one during its start.
    """
    journaled = state.kafka.get("topic_ids", {})
    same = {topic: kafka["topic_ids"].get(topic) for topic in journaled} == journaled
    known = bool(journaled) and same and state.kafka.get("cluster_id") == kafka["cluster_id"]
    return known and (state.journal_id is None or bool(state.offsets))


def journal_of(
    state: ClusterState,
    seen: Seen,
    *,
    spoken: bool,
    kafka: Mapping[str, Any],
    accepted: bool,
    tables: str,
    take_over: bool,
    new_id: str,
) -> str:
    """The journal's id, `new_id` where it has none. Raises AnotherController when the topics are another journal's.

    `spoken`: some controller has published here. `accepted`: an operator confirmed that this Kafka is the journal's.
    """
    owner = seen.owner
    if owner is None:
        if spoken and not accepted and not names_these_topics(state, kafka):
            raise AnotherController(
                f"a controller has used these topics, and the journal at {tables} has read nothing from them: "
                f"they belong to another journal{WAYS_OUT}"
            )
        return state.journal_id or new_id
    ours, same_place = state.journal_id, is_at(owner, tables)
    if ours is None and same_place and names_these_topics(state, kafka):
        ours = owner.journal_id  # an older version, which does not keep the id, ran in between
    if ours != owner.journal_id:
        raise _belongs_to(owner, ours, tables)
    if not same_place and owner.seq > state.seq and not take_over:
        raise AnotherController(
            f"{owner.text} has reached seq {owner.seq}, the copy at {tables} ends at {state.seq}: start with "
            f"tables.root={owner.tables}, or with --take-over if that one is gone"
        )
    return ours


def refuse_another(state: ClusterState, owner: TopicOwner, tables: str) -> None:
    """Raise AnotherController where `journal_of` is certain to: two ids that differ, or other tables without one.

    It needs the owner record alone, so that a start which cannot succeed is refused before its JVM.
    """
    forgotten = state.seq > 0 and state.journal_id is None and is_at(owner, tables)  # perhaps by an older version
    if state.journal_id != owner.journal_id and not forgotten:
        raise _belongs_to(owner, state.journal_id, tables)


def _belongs_to(owner: TopicOwner, ours: str | None, tables: str) -> AnotherController:
    return AnotherController(
        f"these topics belong to {owner.text}; the tables of this start, {tables}, hold "
        f"{f'journal {ours}' if ours else 'no journal of these topics'}{WAYS_OUT}"
    )


WAYS_OUT = (
    ": start with its tables.root, give this one another kafka.topic_prefix, or, if its tables are gone for good, "
    "start once with --new-journal (docs/recovery.md)"
)


def nobody_can_be_alive(state: ClusterState, owner: TopicOwner | None, spoken: bool) -> bool:
    """Whether no controller can be alive: the last one has stopped by journal and owner record, or there was none."""
    if state.controller_running:
        return False
    if owner is None:
        return not spoken
    return owner.journal_id == state.journal_id and owner.state == STOPPED and owner.instance == state.instance


class TopicClaim:
    """One controller instance's claim on the topics."""

    def __init__(self, bootstrap: str, topic: str, client: Mapping[str, object], instance: str, tables: str) -> None:
        self._instance, self._tables = instance, tables
        self._topic = OwnerTopic(bootstrap, topic, client)
        self._quick = OwnerTopic(bootstrap, topic, client, QUICKLY_MS)
        self._seen: Seen | None = None
        self.journal_id = ""

    def look(self) -> Seen:
        """Read the owner record; `claim` builds on it."""
        self._seen = self._topic.read()
        return self._seen

    def claim(self, state: ClusterState, replaced: TopicOwner | None = None) -> None:
        """Write the owner record, in place of none, of an earlier instance's, or of `replaced`.

        Raises AnotherController when another journal was quicker.
        """
        assert self._seen is not None, "look first"
        self.journal_id = str(state.journal_id)
        owner = TopicOwner(
            journal_id=self.journal_id,
            instance=self._instance,
            tables=self._tables,
            state=RUNNING,
            seq=state.seq,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=controller.__version__,
            sent_ms=wall_ms(),
        )
        named = self._topic.write(owner, self._seen, lambda o: o in (None, replaced) or self._is_ours(o))
        if named is None or not self._is_ours(named):
            raise AnotherController(
                f"{named.text if named else 'another journal'} was quicker: these topics are its own, and this one, "
                f"{self._tables}, has decided nothing{WAYS_OUT}"
            )

    def stop(self, seq: int) -> bool:
        """Mark the owner record as stopped. If Kafka does not answer, the next start has to listen for one lease.

        Returns whether Kafka answered.
        """
        try:
            seen = self._quick.read()
            if seen.owner is not None and self._is_ours(seen.owner) and seen.owner.instance == self._instance:
                self._quick.write(mark_stopped(seen.owner, seq, wall_ms()), seen, self._is_mine)
        except (KafkaUnavailable, TopicUnreadable, ConfigError) as error:
            log.warning("the owner record still names this controller as running: %s", error)
            return False
        return True

    def check(self) -> None:
        """Raise ForeignCommit when the topics now belong to another journal."""
        try:
            owner = self._quick.read().owner
        except (KafkaUnavailable, TopicUnreadable, ConfigError) as error:
            log.error("cannot tell whether the topics still belong to this journal: %s", error)
            return
        if owner is not None and not self._is_ours(owner):
            raise ForeignCommit(f"these topics now belong to {owner.text}: this instance must stop")

    def _is_ours(self, owner: TopicOwner | None) -> bool:
        return owner is not None and owner.journal_id == self.journal_id

    def _is_mine(self, owner: TopicOwner | None) -> bool:
        return owner is not None and self._is_ours(owner) and owner.instance == self._instance
