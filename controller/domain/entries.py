"""The journal entry: one flat record for every decision and every event.

Entries are numbered densely by `seq`; agents apply exactly seq + 1. Fields that only some kinds use are in `data`
(JSON). The record on the journal feed and the Delta row have the same fields (schemas/journal.py).

A kind of a newer version is read as `UnknownKind`: a reader advances its seq and changes nothing else, so older agents
keep working. A newer version may write such a kind only where that is enough.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

from controller.domain.errors import InvariantBroken
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State

log = logging.getLogger(__name__)

STRAY_CONTROLLER, STRAY_AGENT, STRAY_COMMAND = "stray_controller", "stray_agent", "stray_command"  # alarms
UNKNOWN_KINDS_KEPT = 100  # unknown kinds that are logged only once


class Kind(str, Enum):
    """What an entry states."""

    CONTROLLER_STARTED = "controller_started"  # data: version, config_version, lease_ms, journal_id, epoch_floor
    CONTROLLER_STOPPED = "controller_stopped"  # data: failed, why the job ended by itself
    OFFSETS = "offsets"  # data: cluster_id, topics {name: {partition: next offset}}
    REGISTERED = "registered"  # session; data: info
    SESSION_ENDED = "session_ended"  # session, reason: lease, goodbye, superseded
    DRAIN = "drain"  # broker; data: drained, leaving
    NAMESPACE_CREATED = "namespace_created"  # data: namespace, bundles [names]
    TOPIC_CREATED = "topic_created"  # data: topic, partitions
    OWNERSHIP = "ownership"  # bundle, state, epoch, by, to; data: released, fence, fencer, boundary, ...
    SPLIT = "split"  # bundle (parent), by; data: children {name: epoch}
    TOPIC_UNLOAD = "topic_unload"  # bundle, by; data: topic
    COMMAND_ACCEPTED = "command_accepted"  # command_id, reason: what it left as it is; data: kind, args, who, why
    COMMAND_REJECTED = "command_rejected"  # same, reason says why
    MODE = "mode"  # data: mode
    STRATEGY = "strategy"  # data: strategy, challengers; null: as configured
    OVERRIDE = "override"  # data: override {...} for a new one, ended (its id) for one that ends; reason: expired
    ROUND = "round"  # attempt_id; data: round_id, at_ms, plan_hash, memory, counts, moved
    GUARD = "guard"  # data: frozen, silent, alive
    ALARM = "alarm"  # reason, bundle or broker, command_id of a command that is not carried out whole; data
    OBSERVED = "observed"  # broker, session; data: bundles [names], or added, removed, confirmed, disputed, agreed
    RING = "ring"  # data: namespace, boundaries; of an observed cluster
    FACT = "fact"  # data: key, value; null: it no longer holds
    ORDER = "order"  # bundle, reason, decision_id or command_id; data: id, kind, source, target, boundary, executor
    PLAN = "plan"  # reason: its phase, carried_on, or how it ended; data: round_id, moves, who, why, dropped, outcomes
    ADOPTION = "adoption"  # command_id; data: phase, before {setting: override or null}, cluster, who, why, dropped
    ORDER_ENDED = "order_ended"  # bundle, broker (owner); data: id, outcome, boundary, took_ms, detail, not_before_ms


class UnknownKind(str):
    """The name of a kind that is unknown to this version."""

    __slots__ = ()

    @property
    def value(self) -> str:
        """The name, as for a `Kind`."""
        return str(self)


def kind_of(name: object) -> Kind | UnknownKind:
    """The kind of that name. Raises ValueError for anything but a non-empty string."""
    try:
        return Kind(name)
    except ValueError:
        if not isinstance(name, str) or not name:
            raise
        return _note_unknown(name)


@lru_cache(maxsize=UNKNOWN_KINDS_KEPT)
def _note_unknown(name: str) -> UnknownKind:
    log.warning("the journal has entries of kind %.80r, which is unknown to this version: skipping them", name)
    return UnknownKind(name)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the journal. `at_ms` is wall-clock time for people; no decision depends on it."""

    seq: int
    kind: Kind | UnknownKind
    instance: str
    batch: int
    at_ms: int
    bundle: str | None = None
    state: str | None = None
    epoch: int | None = None
    by: str | None = None
    to: str | None = None
    broker: str | None = None
    session: str | None = None
    reason: str | None = None
    command_id: str | None = None
    decision_id: str | None = None
    attempt_id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """The flat row: a column for every field, `data` as canonical JSON text."""
        row = {name: getattr(self, name) for name in FIELDS}
        row["kind"] = self.kind.value
        row["data"] = json.dumps(self.data, sort_keys=True, separators=(",", ":")) if self.data else None
        return row

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Entry:
        """The entry in a table row or feed record; unknown columns, which newer writers add, are ignored."""
        values: dict[str, Any] = {name: row.get(name) for name in FIELDS}
        values["kind"] = kind_of(row["kind"])
        data = row.get("data")
        values["data"] = json.loads(data) if isinstance(data, str) else (data or {})
        return cls(**values)

    def ownership(self, moved_at_ms: int = 0) -> Ownership:
        """The ownership record that an OWNERSHIP entry states."""
        if self.bundle is None or self.state is None or self.epoch is None:
            raise InvariantBroken(f"entry {self.seq} of kind {self.kind.value} lacks bundle, state or epoch")
        data = self.data
        return Ownership(
            bundle=Bundle.parse(self.bundle),
            state=State(self.state),
            epoch=self.epoch,
            by=Session.parse(self.by) if self.by else None,
            to=Session.parse(self.to) if self.to else None,
            seq=self.seq,
            released=bool(data.get("released")),
            fence=bool(data.get("fence")),
            fencer=Session.parse(data["fencer"]) if data.get("fencer") else None,
            boundary=data.get("boundary"),
            send_on=bool(data.get("send_on")),
            cause=self.decision_id or self.command_id or "",
            ever_owned=bool(data.get("ever_owned")),
            moved_at_ms=int(data.get("moved_at_ms") or moved_at_ms),
            moving_at_ms=int(data.get("moving_at_ms") or 0),
        )


FIELDS = tuple(Entry.__dataclass_fields__)


def ownership_fields(record: Ownership) -> dict[str, Any]:
    """The entry fields for this record; the inverse of `Entry.ownership`."""
    data: dict[str, Any] = {}
    if record.released:
        data["released"] = True
    if record.fence:
        data["fence"] = True
    if record.fencer:
        data["fencer"] = str(record.fencer)
    if record.boundary is not None:
        data["boundary"] = record.boundary
    if record.send_on:
        data["send_on"] = True
    if record.ever_owned:
        data["ever_owned"] = True
    if record.moving_at_ms:
        data["moving_at_ms"] = record.moving_at_ms
    if record.moved_at_ms:
        data["moved_at_ms"] = record.moved_at_ms
    return {
        "bundle": str(record.bundle),
        "state": record.state.value,
        "epoch": record.epoch,
        "by": str(record.by) if record.by else None,
        "to": str(record.to) if record.to else None,
        "data": data,
    }
