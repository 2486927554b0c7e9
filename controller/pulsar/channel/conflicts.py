"""Which of two writes to the same bundle wins: ServiceUnitStateDataConflictResolver of the extensible manager.

Every reader of the channel applies the same rule to the same sequence of messages, so all readers agree without a
coordinator: of two concurrent assignments, the first one in the topic wins everywhere.
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
    """Whether to ignore the new write (Pulsar: shouldKeepLeft)."""
    if new is None:  # a tombstone is always accepted
        return False
    by_version = _decide_by_version(existing, new, storage)
    if by_version is not None:
        return by_version
    if new.force:  # skips the checks below; the version rule above has applied already
        return False
    if not is_valid_transition(state_of(existing), new.state, storage):
        return True
    return existing is not None and _brokers_disagree(existing, new)


def _decide_by_version(
    existing: ServiceUnitStateData | None, new: ServiceUnitStateData, storage: StorageType
) -> bool | None:
    """Decide by the version alone. None: the write has the next version, so the other checks decide."""
    if existing is None:
        # the metadata store never loses a write, so a first write has version 1 and is accepted without further checks
        return new.version_id != 1 if storage is StorageType.METADATA_STORE else None
    if existing.version_id == _LONG_MAX and new.version_id == _LONG_MIN:  # wrapped round
        return None
    if new.version_id <= existing.version_id:
        return True
    if new.version_id > existing.version_id + 1:
        # Surprise: a gap in the versions of a system topic is attributed to compaction, so the write is accepted
        # whatever its state: neither the transition nor the brokers are checked
        return storage is not StorageType.SYSTEM_TOPIC
    return None


def _brokers_disagree(existing: ServiceUnitStateData, new: ServiceUnitStateData) -> bool:
    """Whether the brokers of the new write contradict the existing entry, given a legal transition."""
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
