"""Whose journal the topics are: judged before a controller claims its journal, claimed right after it.

The journal's own commit comes first, so that a crash in between leaves nothing behind but a journal that has said it
started. Who is named in the topic stays, whatever others say: only a record there can end it (decision 10).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import controller
from controller.bus.cluster import KafkaUnavailable
from controller.bus.owner import RUNNING, STOPPED, Owner, OwnerTopic, Seen, stopped
from controller.bus.scan import TopicUnreadable
from controller.domain.errors import AnotherController, ConfigError, ForeignCommit, without_login
from controller.domain.state import ClusterState
from controller.process.clock import wall_ms
from controller.process.paths import located

log = logging.getLogger(__name__)

QUICKLY_MS = 5_000  # for Kafka to answer a controller that runs or stops: neither may hang on it


def names_these_topics(state: ClusterState, kafka: Mapping[str, Any]) -> bool:
    """Whether the journal's offsets are of these very topics.

    One that has an id and has read nothing does not count: it lost them to another in the moment of its start.
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

    `spoken`: some controller has published here. `accepted`: an operator said that this Kafka is the journal's.
    """
    owner = seen.owner
    if owner is None:
        if spoken and not accepted and not names_these_topics(state, kafka):
            raise AnotherController(
                f"a controller has used these topics, and the journal at {tables} has read nothing of them: "
                f"they are another journal's{WAYS_OUT}"
            )
        return state.journal_id or new_id
    ours = state.journal_id
    same_place = located(without_login(owner.tables), Path("/")) == tables  # older versions wrote both
    if ours is None and same_place and names_these_topics(state, kafka):
        ours = owner.journal_id  # an older version ran in between, which forgets it
    if ours != owner.journal_id:
        raise AnotherController(
            f"these topics belong to {owner.text}; the tables of this start, {tables}, hold "
            f"{f'journal {ours}' if ours else 'no journal of these topics'}{WAYS_OUT}"
        )
    if not same_place and owner.seq > state.seq and not take_over:
        raise AnotherController(
            f"{owner.text} has reached seq {owner.seq}, the copy at {tables} ends at {state.seq}: start with "
            f"tables.root={owner.tables}, or with --take-over if that one is gone"
        )
    return ours


WAYS_OUT = (
    ": start with its tables.root, give this one another kafka.topic_prefix, or, if its tables are gone for good, "
    "start once with --new-journal (docs/recovery.md)"
)


def nobody_to_hear(state: ClusterState, owner: Owner | None, spoken: bool) -> bool:
    """Whether no controller can be alive: this journal's last one said so on both sides, or none was ever here."""
    if state.controller_running:
        return False
    if owner is None:
        return not spoken
    return owner.journal_id == state.journal_id and owner.state == STOPPED and owner.instance == state.instance


class Claimant:
    """One controller instance and the record that names its journal."""

    def __init__(self, bootstrap: str, topic: str, client: Mapping[str, object], instance: str, tables: str) -> None:
        self._instance, self._tables = instance, tables
        self._topic = OwnerTopic(bootstrap, topic, client)
        self._quick = OwnerTopic(bootstrap, topic, client, QUICKLY_MS)
        self._seen: Seen | None = None
        self.journal_id = ""

    def look(self) -> Seen:
        """What the topic says now; `claim` goes on from there."""
        self._seen = self._topic.read()
        return self._seen

    def claim(self, state: ClusterState, replaced: Owner | None = None) -> None:
        """Be named, in the place of nobody, of an earlier instance, or of `replaced`. Raises AnotherController."""
        assert self._seen is not None, "look first"
        self.journal_id = str(state.journal_id)
        owner = Owner(
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

    def stop(self, seq: int) -> None:
        """The controller has said in its journal that it stopped. A Kafka that does not answer costs the next start one
        lease of listening, nothing else."""
        try:
            seen = self._quick.read()
            if seen.owner is not None and self._is_ours(seen.owner) and seen.owner.instance == self._instance:
                self._quick.write(stopped(seen.owner, seq, wall_ms()), seen, self._mine)
        except (KafkaUnavailable, TopicUnreadable, ConfigError) as error:
            log.warning("the owner's record still says that this controller runs: %s", error)

    def check(self) -> None:
        """Raises ForeignCommit when the topics have been given to another journal."""
        try:
            owner = self._quick.read().owner
        except (KafkaUnavailable, TopicUnreadable, ConfigError) as error:
            log.error("whether the topics are still this journal's: %s", error)
            return
        if owner is not None and not self._is_ours(owner):
            raise ForeignCommit(f"these topics have been given to {owner.text}: this instance must stop")

    def _is_ours(self, owner: Owner | None) -> bool:
        return owner is not None and owner.journal_id == self.journal_id

    def _mine(self, owner: Owner | None) -> bool:
        return owner is not None and self._is_ours(owner) and owner.instance == self._instance
