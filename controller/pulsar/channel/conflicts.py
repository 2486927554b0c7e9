"""Which of two writes to the same bundle counts: ServiceUnitStateDataConflictResolver of the extensible manager.

Every reader of the channel applies the same rule to the same sequence of messages, so all of them agree without a
coordinator: of two concurrent assignments the first in the topic wins everywhere.
"""

from __future__ import annotations

from controller.pulsar.channel.states import (
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    is_valid_transition,
    state_of,
)

_LONG_MAX, _LONG_MIN = 2**63 - 1, -(2**63)
S = ServiceUnitState


def should_keep_existing(
    existing: ServiceUnitStateData | None,
    new: ServiceUnitStateData | None,
    storage: StorageType = StorageType.SYSTEM_TOPIC,
) -> bool:
    """Whether the new write is to be ignored (Pulsar: shouldKeepLeft)."""
    if new is None:  # a tombstone is always taken
        return False
    by_version = _judged_by_version(existing, new, storage)
    if by_version is not None:
        return by_version
    if new.force:  # skips the checks below; the version rule above has applied already
        return False
    if not is_valid_transition(state_of(existing), new.state, storage):
        return True
    return existing is not None and _brokers_disagree(existing, new)


def _judged_by_version(
    existing: ServiceUnitStateData | None, new: ServiceUnitStateData, storage: StorageType
) -> bool | None:
    """What the version alone decides; None: the write is the next one, look further."""
    if existing is None:
        # over the metadata store nothing can be missing, so a first write has version 1 and is taken unseen
        return new.version_id != 1 if storage is StorageType.METADATA_STORE else None
    if existing.version_id == _LONG_MAX and new.version_id == _LONG_MIN:  # wrapped round
        return None
    if new.version_id <= existing.version_id:
        return True
    if new.version_id > existing.version_id + 1:
        # Surprise: a gap in the versions of a system topic is taken for compaction, so the write is accepted whatever
        # its state is: neither the transition nor the brokers are checked
        return storage is not StorageType.SYSTEM_TOPIC
    return None


def _brokers_disagree(existing: ServiceUnitStateData, new: ServiceUnitStateData) -> bool:
    """Whether the brokers named do not fit this (legal) transition."""
    same = existing.dst_broker == new.dst_broker and existing.source_broker == new.source_broker
    match existing.state, new.state:
        case S.OWNED, S.SPLITTING:
            return not _blank(new.dst_broker) or existing.dst_broker != new.source_broker
        case S.OWNED, S.RELEASING:
            return (
                _blank(new.source_broker)
                or existing.dst_broker != new.source_broker
                or existing.dst_broker == new.dst_broker
            )
        case (S.ASSIGNING, S.OWNED) | (S.RELEASING, S.FREE) | (S.SPLITTING, S.DELETED):
            return not same
        case S.RELEASING, S.ASSIGNING:
            return _blank(new.dst_broker) or not same
        case S.FREE, S.ASSIGNING:
            return not _blank(new.source_broker) or _blank(new.dst_broker)
    return False


def _blank(broker: str | None) -> bool:
    return broker is None or not broker.strip()
