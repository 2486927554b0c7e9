"""How the leader recovers bundles whose brokers are gone or stuck: overrides, the monitor, delayed cleanups.

Source: ServiceUnitStateChannelImpl (overrideOwnership, monitorOwnerships, handleBrokerDeletionEvent). These functions
are pure: the caller carries out what they return. Times are in ms.
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
    """How far to trust the metadata store when it reports that brokers are lost."""

    STABLE = "Stable"
    JITTERY = "Jittery"
    UNSTABLE = "Unstable"


class Findings(NamedTuple):
    """What one run of the monitor found: brokers to clean up after, and bundles by the action they need."""

    inactive_brokers: tuple[str, ...]
    orphans: tuple[str, ...]
    tombstones: tuple[str, ...]


def metadata_state(session_lost: bool, established_at_ms: int, now_ms: int) -> MetadataState:
    """The state of a metadata session that is lost, or that was (re-)established at `established_at_ms`."""
    if session_lost:
        return MetadataState.UNSTABLE
    return MetadataState.STABLE if now_ms - established_at_ms > MAX_CLEAN_UP_DELAY_MS else MetadataState.JITTERY


def cleanup_delay_ms(state: MetadataState, is_leader: bool) -> int | None:
    """How long to wait after a broker's registration vanished until its bundles move. None: this broker never acts."""
    if not is_leader or state is MetadataState.UNSTABLE:
        return None
    return 0 if state is MetadataState.STABLE else MAX_CLEAN_UP_DELAY_MS


class CleanupJobs:
    """The cleanups that the leader schedules when registrations vanish. `counter`: Skip, Schedule, Cancel, Success."""

    def __init__(self) -> None:
        self.due_at_ms: dict[str, int] = {}
        self.counter: Counter[str] = Counter()

    def on_broker_deleted(self, broker: str, state: MetadataState, is_leader: bool, now_ms: int) -> None:
        """Schedule a cleanup: a registration is gone. While the metadata session is lost, that proves nothing."""
        if not is_leader:
            return
        delay_ms = cleanup_delay_ms(state, is_leader)
        if delay_ms is None:
            self.counter["Skip"] += 1
        elif broker not in self.due_at_ms:
            self.counter["Schedule"] += 1
            self.due_at_ms[broker] = now_ms + delay_ms

    def on_broker_created(self, broker: str, healthy: bool = True) -> None:
        """Cancel the cleanup of a broker that is back and passes the health check."""
        if healthy and self.due_at_ms.pop(broker, None) is not None:
            self.counter["Cancel"] += 1

    def take_due(self, now_ms: int) -> list[str]:
        """Return the brokers whose cleanup is due, and forget them."""
        due = sorted(broker for broker, at_ms in self.due_at_ms.items() if at_ms <= now_ms)
        for broker in due:
            del self.due_at_ms[broker]
            self.counter["Success"] += 1
        return due


def names_broker(data: ServiceUnitStateData, broker: str) -> bool:
    """Whether this entry waits for the broker, so that nobody would act on it if the broker is lost."""
    if data.state in ACTIVE and data.dst_broker == broker:
        return True
    return data.state in IN_FLIGHT and data.source_broker == broker


def cleanup_order(entries: Mapping[str, ServiceUnitStateData], broker: str) -> list[str]:
    """Bundles to override once this broker is lost, those of pulsar/system last."""
    found = [bundle for bundle, data in entries.items() if names_broker(data, broker)]
    return sorted(found, key=lambda bundle: namespace_of_bundle_name(bundle) == SYSTEM_NAMESPACE)


def override(
    data: ServiceUnitStateData, selected: str | None, now_ms: int, graceful: bool = False
) -> ServiceUnitStateData:
    """The forced entry that takes a bundle from its broker. `selected` None: no broker can take it.

    `graceful`: the owner is shutting down and can still close its topics, so it releases the bundle to the target.
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
    """What the leader checks every minute. Only a leader with a stable metadata session does so."""
    waiting = knobs.load_balancer_in_flight_service_unit_state_waiting_time_in_millis
    tombstone_after = knobs.load_balancer_service_unit_state_tombstone_delay_time_in_seconds * 1_000
    inactive: dict[str, None] = {}
    orphans: list[str] = []
    tombstones: list[str] = []
    for bundle, data in entries.items():
        age = now_ms - data.timestamp_ms
        gone = [broker for broker in _required_brokers(data) if broker not in active]
        if gone:
            inactive |= dict.fromkeys(gone)
        elif data.state in IN_FLIGHT and age > waiting:
            orphans.append(bundle)
        elif data.state in SEMI_TERMINAL and age > tombstone_after:
            tombstones.append(bundle)
    return Findings(tuple(inactive), tuple(orphans), tuple(tombstones))


def _required_brokers(data: ServiceUnitStateData) -> list[str]:
    """The brokers that this entry depends on: the owner, or both ends of a transfer in flight."""
    if data.state is S.OWNED:
        return [data.dst_broker] if data.dst_broker else []
    if data.state in IN_FLIGHT:
        return [broker for broker in (data.source_broker, data.dst_broker) if broker]
    return []
