"""What the leader does about bundles whose brokers are gone or stuck: overrides, monitor, delayed cleanups.

Source: ServiceUnitStateChannelImpl (overrideOwnership, monitorOwnerships, handleBrokerDeletionEvent). Pure: the caller
carries out what is returned. Times in ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.channel.states import (
    ACTIVE,
    IN_FLIGHT,
    SEMI_TERMINAL,
    ServiceUnitState,
    ServiceUnitStateData,
    next_version,
)
from controller.pulsar.system_namespaces import SYSTEM_NAMESPACE, namespace_of_bundle_name

MAX_CLEAN_UP_DELAY_MS = 180_000  # a metadata session younger than this is not trusted yet
S = ServiceUnitState


class MetadataState(str, Enum):
    """How far the metadata store's word about lost brokers is to be trusted."""

    STABLE = "Stable"
    JITTERY = "Jittery"
    UNSTABLE = "Unstable"


class Findings(NamedTuple):
    """What one run of the monitor found: bundles by what is to be done, and brokers to clean up after."""

    inactive_brokers: tuple[str, ...]
    orphans: tuple[str, ...]
    tombstones: tuple[str, ...]


def metadata_state(session_lost: bool, established_at_ms: int, now_ms: int) -> MetadataState:
    """From the metadata session: lost, or (re-)established at that time."""
    if session_lost:
        return MetadataState.UNSTABLE
    return MetadataState.STABLE if now_ms - established_at_ms > MAX_CLEAN_UP_DELAY_MS else MetadataState.JITTERY


def cleanup_delay_ms(state: MetadataState, is_leader: bool) -> int | None:
    """How long after a broker's registration vanished its bundles are taken away; None: not at all, by this broker."""
    if not is_leader or state is MetadataState.UNSTABLE:
        return None
    return 0 if state is MetadataState.STABLE else MAX_CLEAN_UP_DELAY_MS


class CleanupJobs:
    """What the leader plans when registrations vanish. `counter`: Skip, Schedule, Cancel, Success."""

    def __init__(self) -> None:
        self.due_at_ms: dict[str, int] = {}
        self.counter: Counter[str] = Counter()

    def broker_deleted(self, broker: str, state: MetadataState, is_leader: bool, now_ms: int) -> None:
        """A registration is gone. Without a metadata session that means nothing."""
        if not is_leader:
            return
        delay_ms = cleanup_delay_ms(state, is_leader)
        if delay_ms is None:
            self.counter["Skip"] += 1
        elif broker not in self.due_at_ms:
            self.counter["Schedule"] += 1
            self.due_at_ms[broker] = now_ms + delay_ms

    def broker_created(self, broker: str, healthy: bool = True) -> None:
        """The broker is back, and answers the health check: its cleanup is called off."""
        if healthy and self.due_at_ms.pop(broker, None) is not None:
            self.counter["Cancel"] += 1

    def take_due(self, now_ms: int) -> list[str]:
        """Brokers to clean up after now; each is named once."""
        due = sorted(broker for broker, at_ms in self.due_at_ms.items() if at_ms <= now_ms)
        for broker in due:
            del self.due_at_ms[broker]
            self.counter["Success"] += 1
        return due


def names_broker(data: ServiceUnitStateData, broker: str) -> bool:
    """Whether a lost broker leaves this entry without somebody to act."""
    if data.state in ACTIVE and data.dst_broker == broker:
        return True
    return data.state in IN_FLIGHT and data.source_broker == broker


def cleanup_order(entries: Mapping[str, ServiceUnitStateData], broker: str) -> list[str]:
    """Bundles to override after this broker's end: those of pulsar/system last."""
    found = [bundle for bundle, data in entries.items() if names_broker(data, broker)]
    return sorted(found, key=lambda bundle: namespace_of_bundle_name(bundle) == SYSTEM_NAMESPACE)


def override(
    data: ServiceUnitStateData, selected: str | None, now_ms: int, graceful: bool = False
) -> ServiceUnitStateData:
    """The forced entry that takes a bundle away. `selected` None: there is nobody to take it.

    `graceful`: the owner shuts down itself and can still close its topics, so what it owns is released to the target.
    """
    forced = replace(data, force=True, version_id=next_version(data), timestamp_ms=now_ms)
    previous = data.dst_broker if data.state is S.OWNED else data.source_broker or data.dst_broker
    if selected is None:
        return replace(forced, state=S.FREE, dst_broker=None, source_broker=previous, children=())
    if data.state is S.SPLITTING:
        return replace(forced, source_broker=selected)
    source = data.dst_broker if data.state is S.OWNED else data.source_broker
    state = S.RELEASING if graceful and data.state is S.OWNED else S.OWNED
    return replace(forced, state=state, dst_broker=selected, source_broker=None if source == selected else source)


def monitor(
    entries: Mapping[str, ServiceUnitStateData], active: Collection[str], now_ms: int, knobs: PulsarKnobs
) -> Findings:
    """What the leader looks for every minute. Only a leader whose metadata state is stable does so."""
    waiting = knobs.load_balancer_in_flight_service_unit_state_waiting_time_in_millis
    tombstone_after = knobs.load_balancer_service_unit_state_tombstone_delay_time_in_seconds * 1_000
    inactive: dict[str, None] = {}
    orphans: list[str] = []
    tombstones: list[str] = []
    for bundle, data in entries.items():
        age = now_ms - data.timestamp_ms
        gone = [broker for broker in _involved(data) if broker not in active]
        if gone:
            inactive |= dict.fromkeys(gone)
        elif data.state in IN_FLIGHT and age > waiting:
            orphans.append(bundle)
        elif data.state in SEMI_TERMINAL and age > tombstone_after:
            tombstones.append(bundle)
    return Findings(tuple(inactive), tuple(orphans), tuple(tombstones))


def _involved(data: ServiceUnitStateData) -> list[str]:
    """Brokers that must be there for this entry to be good: the owner, or both ends of what is in flight."""
    if data.state is S.OWNED:
        return [data.dst_broker] if data.dst_broker else []
    if data.state in IN_FLIGHT:
        return [broker for broker in (data.source_broker, data.dst_broker) if broker]
    return []
