"""Who owns a bundle according to the channel: the owner lookup of ServiceUnitStateChannelImpl, without its waiting.

A pending lookup is answered when the state changes, or after the in-flight waiting time with whoever owns the bundle
then.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from controller.pulsar.channel.states import ServiceUnitState, ServiceUnitStateData, state_of

S = ServiceUnitState


class Answer(str, Enum):
    """The immediate answer to a lookup."""

    OWNER = "owner"
    NOBODY = "nobody"
    PENDING = "pending"
    ERROR = "error"


class Lookup(NamedTuple):
    """`broker`: the owner, or the broker that is about to become it."""

    answer: Answer
    broker: str | None = None


def look_up(data: ServiceUnitStateData | None, asked: str, active: Collection[str]) -> Lookup:
    """The answer of the broker `asked`. `active`: brokers in the registry.

    If the owner is no longer registered, the lookup waits for the leader's cleanup. A broker that is not registered
    itself has lost the metadata store and cannot know: it returns the owner unchecked.
    """
    match state_of(data):
        case S.OWNED | S.SPLITTING:
            assert data is not None
            owner = data.dst_broker if data.state is S.OWNED else data.source_broker
            if owner in active or asked not in active:
                return Lookup(Answer.OWNER, owner)
            return Lookup(Answer.PENDING)
        case S.ASSIGNING | S.RELEASING:
            assert data is not None
            if data.dst_broker == asked:
                return Lookup(Answer.PENDING)
            # another destination is returned before it serves the bundle: the lookup waits there
            return Lookup(Answer.OWNER, data.dst_broker) if data.dst_broker else Lookup(Answer.NOBODY)
        case S.DELETED:
            return Lookup(Answer.ERROR)
    return Lookup(Answer.NOBODY)


def after_waiting(data: ServiceUnitStateData | None, active: Collection[str]) -> Lookup:
    """The answer to a pending lookup that has waited long enough: an active owner, nobody, or an error."""
    if data is None or data.state is S.FREE:
        return Lookup(Answer.NOBODY)
    if data.state is S.OWNED and data.dst_broker in active:
        return Lookup(Answer.OWNER, data.dst_broker)
    return Lookup(Answer.ERROR)
