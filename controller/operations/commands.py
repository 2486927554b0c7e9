"""Sends an operator's command to the topics of the tables' own journal, and waits for the journal's answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.bus.cluster import KafkaUnavailable, check_reachable
from controller.bus.topic_owner import is_at, newest_owner
from controller.config.settings import Settings
from controller.domain.errors import BallastError
from controller.domain.state import is_foreign
from controller.operations.operator import Operator, Outcome
from controller.operations.reading import Reader
from controller.operations.stopped import DEMO, OVER, has_stopped

READ_MS = 10_000  # longest wait for the record that says whose topics these are


class NothingRuns(KafkaUnavailable):
    """Raised for a command to a demo that is over, or to a captured slice: no Kafka is to be started for either."""


class ForeignTopics(BallastError):
    """Raised for a command to topics that belong to another journal."""


def send_and_wait(
    settings: Settings, kind: str, why: str, timeout_s: float, args: Mapping[str, Any], who: str | None = None
) -> Outcome:
    """Send a command and wait for the answer. `who`: the name for the journal; by default who runs this process.

    Raises KafkaUnavailable, ForeignTopics, NoAnswer.
    """
    reader = Reader(settings)  # fails early without tables, as nothing could answer
    _check_reachable(settings, reader)
    with Operator(settings, who) as operator:
        refuse_if_foreign(settings, operator.follower.state.journal_id)
        return operator.run(kind, args, why, timeout_s)


def _check_reachable(settings: Settings, reader: Reader) -> None:
    """Raise KafkaUnavailable, and NothingRuns where no other address would help."""
    if reader.slice_end_ms is not None:
        raise NothingRuns("nothing was sent: these tables are a captured slice, and no cluster runs on them")
    try:
        check_reachable(settings.kafka.bootstrap_servers)
    except KafkaUnavailable:
        if settings.profile == DEMO and has_stopped(reader.outline().state):
            raise NothingRuns(f"nothing was sent: {OVER}") from None
        raise


def refuse_if_foreign(settings: Settings, ours: str | None) -> None:
    """Raise ForeignTopics if the topics belong to another journal, according to the record of their owner.

    That journal's controller would ignore the command, and no other controller may read it.
    """
    kafka = settings.kafka
    topic = kafka.topics.owner
    owner = newest_owner(kafka.bootstrap_servers, topic, kafka.client, READ_MS)
    if owner is None or (ours is None and is_at(owner, settings.tables.root)):
        return  # no controller has started yet, or the one of these very tables is starting
    if ours is None or is_foreign(ours, owner.journal_id):
        held = f"are journal {ours}" if ours else "hold no journal"
        raise ForeignTopics(
            f"nothing was sent: the topics{kafka.topic_prefix and f' {kafka.topic_prefix}*'} at "
            f"{kafka.bootstrap_servers} are those of {owner.text}, the tables at {settings.tables.root} {held}: name "
            "the tables that are meant with --conf FILE or --set tables.root=PATH, or another kafka.topic_prefix"
        )
