"""The states of a bundle in the extensible manager's channel, and their legal transitions (Pulsar: ServiceUnitState).

The transitions depend on where the channel is stored: in a compacted system topic any state may be the first one of a
bundle, because earlier messages have been compacted away; the metadata store shows every write.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ServiceUnitState(str, Enum):
    """The states by Pulsar's names."""

    INIT = "Init"  # no entry, or tombstoned
    FREE = "Free"
    OWNED = "Owned"
    ASSIGNING = "Assigning"
    RELEASING = "Releasing"
    SPLITTING = "Splitting"
    DELETED = "Deleted"


class StorageType(str, Enum):
    """Where the channel is stored."""

    SYSTEM_TOPIC = "SystemTopic"
    METADATA_STORE = "MetadataStore"


S = ServiceUnitState
IN_FLIGHT = frozenset({S.ASSIGNING, S.RELEASING, S.SPLITTING})
ACTIVE = IN_FLIGHT | {S.OWNED}
SEMI_TERMINAL = frozenset({S.FREE, S.DELETED})

_ANYWHERE = {
    S.OWNED: frozenset({S.SPLITTING, S.RELEASING}),
    S.ASSIGNING: frozenset({S.OWNED}),
    S.RELEASING: frozenset({S.ASSIGNING, S.FREE}),
    S.SPLITTING: frozenset({S.DELETED}),
    S.DELETED: frozenset({S.INIT}),
}
TRANSITIONS: dict[StorageType, dict[ServiceUnitState, frozenset[ServiceUnitState]]] = {
    StorageType.SYSTEM_TOPIC: {
        **_ANYWHERE,
        S.INIT: frozenset(S) - {S.INIT},
        S.FREE: frozenset({S.ASSIGNING, S.INIT}),
    },
    StorageType.METADATA_STORE: {
        **_ANYWHERE,
        S.INIT: frozenset({S.ASSIGNING}),
        S.FREE: frozenset({S.ASSIGNING}),
    },
}


def is_valid_transition(before: ServiceUnitState, after: ServiceUnitState, storage: StorageType) -> bool:
    """Whether a bundle may change from one state to the other."""
    return after in TRANSITIONS[storage][before]


@dataclass(frozen=True, slots=True)
class ServiceUnitStateData:
    """One entry of the channel (Pulsar: ServiceUnitStateData). `timestamp_ms`: when it was written.

    `version_id` starts at 1 and grows by one with each write. `children`: (range, destination) of each child of a
    split; the destination is None where the parent's broker keeps the child.
    """

    state: ServiceUnitState
    dst_broker: str | None = None
    source_broker: str | None = None
    children: tuple[tuple[str, str | None], ...] = ()
    force: bool = False
    timestamp_ms: int = 0
    version_id: int = 1


def state_of(data: ServiceUnitStateData | None) -> ServiceUnitState:
    """The entry's state; Init without an entry."""
    return S.INIT if data is None else data.state


def next_version(data: ServiceUnitStateData | None) -> int:
    """The version of the next write after this entry. It overflows like a Java long."""
    if data is None:
        return 1
    return data.version_id + 1 if data.version_id < 2**63 - 1 else -(2**63)
