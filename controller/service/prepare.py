"""Everything that a starting controller checks before its first entries, and those entries.

Called with the state as read, and again when another commit was quicker (`controller.service.start.become_controller`).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from controller.bus.reach import Reach, Reaches, SourceSettings, read_reach
from controller.bus.topic_owner import Seen, TopicOwner
from controller.config.policy_values import control_settings
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.entries import Entry
from controller.domain.errors import without_login
from controller.domain.state import ClusterState
from controller.process.clock import wall_ms
from controller.service.arguments import Arguments
from controller.service.kafka_identity import settle_kafka
from controller.service.new_journal import print_lost, take_over_topics
from controller.service.start import check_alone, first_entries, listen_for_another
from controller.service.topic_claim import TopicClaim, journal_of, nobody_can_be_alive
from schemas.journal import JOURNAL

log = logging.getLogger(__name__)


class Preparation:
    """One start of one instance. `reach`: the offsets of the control topics, read after the state that was checked: a
    controller that lives goes on meanwhile, and its journal would be ahead of ends that were read before."""

    def __init__(
        self, settings: Settings, arguments: Arguments, claimant: TopicClaim, kafka: Mapping[str, Any], instance: str
    ) -> None:
        self._settings, self._arguments = settings, arguments
        self._control = control_settings(settings)
        self._claimant, self._kafka, self._instance = claimant, kafka, instance
        self._names = settings.kafka.topics
        self._root = table_root(settings)
        self._tables = without_login(self._root.root)
        self._new_id = uuid.uuid4().hex
        self.reach: Reaches = {}
        feed = self._reach_of(self._names.journal_feed)[self._names.journal_feed]
        self._spoken = any(reach.end > 0 for reach in feed.values())  # some controller has published here
        self._seen: Seen | None = None  # as `before_tables` saw it
        self.replaced: TopicOwner | None = None  # another journal's record that this start may replace

    def before_tables(self) -> None:
        """Check that a journal may be started where none exists yet; before anything is created."""
        if not self._root.exists(JOURNAL.name):
            self._seen = self._claimant.look()
            if not self._arguments.new_journal:
                self._journal_of(ClusterState(), self._seen, accepted=self._arguments.accept_new_kafka is not None)

    def __call__(self, state: ClusterState, take_over: bool) -> list[Entry]:
        """Check everything; returns the first entries. Raises ConfigError, AnotherController."""
        bootstrap, accepted = self._settings.kafka.bootstrap_servers, self._arguments.accept_new_kafka
        self.reach = self._reach_of(*self._names.control)
        positions = settle_kafka(state, self._kafka, self.reach, bootstrap, accepted)
        seen, self._seen = self._seen or self._claimant.look(), None
        if self._arguments.new_journal and self._is_another(state, seen):
            return self._start_new_journal(state, seen)
        self.replaced = None
        journal_id = self._journal_of(state, seen, positions is not None, take_over)
        nobody = nobody_can_be_alive(state, seen.owner, self._spoken)
        check_alone(state, nobody, take_over, self._control, lambda listen_ms: self._listen(journal_id, listen_ms))
        return self._entries(state, journal_id, positions)

    def _journal_of(self, state: ClusterState, seen: Seen, accepted: bool, take_over: bool = False) -> str:
        return journal_of(
            state,
            seen,
            spoken=self._spoken,
            kafka=self._kafka,
            accepted=accepted,
            tables=self._tables,
            take_over=take_over,
            new_id=self._new_id,
        )

    def _is_another(self, state: ClusterState, seen: Seen) -> bool:
        """Whether there is a journal to take over from; left behind in a unit file, the option has no effect."""
        another = self._spoken if seen.owner is None else seen.owner.journal_id != state.journal_id
        if not another:
            log.info("--new-journal: these topics belong to no other journal, so this is an ordinary start")
        return another

    def _start_new_journal(self, state: ClusterState, seen: Seen) -> list[Entry]:
        journal_id = state.journal_id or self._new_id
        lost = take_over_topics(self._settings, self._control, state, journal_id, self._tables)
        print_lost(lost, journal_id, seen.owner.text if seen.owner else "one of an older version")
        self.replaced = seen.owner
        self.reach = self._reach_of(*self._names.control)
        ends = {topic: {name: part.end for name, part in parts.items()} for topic, parts in self.reach.items()}
        return self._entries(state, journal_id, ends, "the topics were another journal's", lost.epoch)

    def _entries(
        self,
        state: ClusterState,
        journal_id: str,
        positions: Mapping[str, Mapping[str, int]] | None,
        why: str = "another Kafka was accepted",
        epoch_floor: int = 0,
    ) -> list[Entry]:
        return first_entries(
            state, self._instance, wall_ms(), self._control, self._kafka, journal_id, positions, why, epoch_floor
        )

    def _listen(self, journal_id: str, listen_ms: int) -> str | None:
        kafka = self._settings.kafka
        return listen_for_another(kafka.bootstrap_servers, kafka.client, self._names, journal_id, listen_ms)

    def _reach_of(self, *topics: str) -> dict[str, dict[str, Reach]]:
        kafka = self._settings.kafka
        return read_reach(SourceSettings(kafka.bootstrap_servers, topics, kafka.client))
