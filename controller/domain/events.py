"""Records of the control topics, parsed strictly into values.

Every parser takes the raw bytes of one record and returns a value or raises BadRecord with the id of the rule, which
goes into the quarantine table. Unknown fields are ignored; an unknown version `v` is a BadRecord: never guess. A record
that passes can be stored anywhere: it is UTF-8, its numbers are finite, its keys are unique, and its nesting is
bounded. A record that only a later stage refused would stop this controller and every successor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controller.domain.decision import RoundResult
from controller.domain.errors import BadRecord, printable, shown
from controller.domain.ids import (
    MAX_BUNDLE_CHARS,
    MAX_NONCE_CHARS,
    RING_END,
    Bundle,
    Session,
    check_broker_id,
    check_nonce,
)
from controller.domain.strict_json import is_whole, parse_strictly

VERSION = 1
MAX_CONTROL_BYTES = 1_048_576  # an inventory of 10,000 bundles is half of this
MAX_SMALL_BYTES = 131_072  # of all other records; they may be journaled whole
EVENT_KINDS = frozenset(
    {
        "accepted", "rejected", "serving", "released", "fenced", "split_done", "split_proposed",
        "inventory", "leaving", "goodbye", "observed", "ring", "fact", "order_ended",
    }
)  # fmt: skip
COMMAND_KINDS = frozenset(
    {
        "create_namespace", "create_topic", "unload_bundle", "unload_namespace", "unload_topic", "split_bundle",
        "drain", "undrain", "mode", "strategy", "override", "end_override", "round_now", "thaw", "approve", "decline",
        "adopt", "release", "end_release",
    }
)  # fmt: skip
UNLISTED = "unlisted"  # the reason of a goodbye: the broker's own cluster lists it no more
_NEEDS_BUNDLE = frozenset(["accepted", "rejected", "serving", "released", "fenced", "split_done", "split_proposed"])


class Origin(NamedTuple):
    """A record's position in Kafka."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life of a session; the first one registers it. `info`: addresses, runtime, capacity, process.

    `journal_id`: the journal that the agent follows; empty while it has read none, None from older versions.
    """

    session: Session
    applied_seq: int
    info: Mapping[str, Any] = field(default_factory=dict)
    journal_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """The controller's own record on the heartbeats topics. `journal_id` None: from an older version.

    `boot_ms`: its boot clock before it was sent, which only the sender can use. `group`: of the agents in
    whose topic it was read; set by whoever read it.
    """

    instance: str
    seq: int
    journal_id: str | None = None
    boot_ms: int | None = None
    group: str = ""


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """An agent's answer or observation; `kind` is one of EVENT_KINDS."""

    kind: str
    session: Session
    applied_seq: int
    bundle: Bundle | None = None
    epoch: int | None = None
    boundary: int | None = None
    reason: str = ""
    serving: Mapping[str, int] = field(default_factory=dict)  # inventory, observed: bundle -> epoch
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignRequest:
    """A client looked up a topic of a bundle that has no owner."""

    broker: str
    bundle: Bundle


@dataclass(frozen=True, slots=True)
class Command:
    """An operator's command. Its `id` makes it happen once. `journal_id`: the journal that it is meant for; None from
    older versions, and where the tables name none yet."""

    id: str
    kind: str
    args: Mapping[str, Any]
    who: str = ""
    why: str = ""
    journal_id: str | None = None


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """The worker process has finished a round."""

    result: RoundResult


Event = Heartbeat | Tick | BrokerEvent | AssignRequest | Command | RoundFinished


def parse_heartbeat(raw: bytes) -> Heartbeat | Tick:
    """Parse a record of the heartbeats topic. Raises BadRecord."""
    doc = _document(raw, MAX_SMALL_BYTES)
    if doc.get("kind") == "tick":
        boot_ms = _int(doc, "boot_ms") if doc.get("boot_ms") is not None else None
        return Tick(_text(doc, "instance", 64), _int(doc, "seq"), _journal_id(doc), boot_ms)
    info = doc.get("info") or {}
    if not isinstance(info, dict):
        raise BadRecord("heartbeat_info", f"info is {type(info).__name__}, not an object")
    journal_id = "" if doc.get("journal_id") == "" else _journal_id(doc)
    return Heartbeat(_session(doc), _int(doc, "applied_seq"), info, journal_id)


def parse_broker_event(raw: bytes) -> BrokerEvent:
    """Parse a record of the broker-events topic. Raises BadRecord."""
    doc = _document(raw, MAX_CONTROL_BYTES)
    kind = doc.get("kind")
    if not isinstance(kind, str) or kind not in EVENT_KINDS:
        raise BadRecord("event_kind", f"{shown(kind)} is none of {', '.join(sorted(EVENT_KINDS))}")
    bundle = Bundle.parse(_text(doc, "bundle", MAX_BUNDLE_CHARS)) if doc.get("bundle") is not None else None
    if kind in _NEEDS_BUNDLE and (bundle is None or "epoch" not in doc):
        raise BadRecord("event_bundle", f"{kind} without bundle and epoch")
    boundary = _int(doc, "boundary") if doc.get("boundary") is not None else None
    if boundary is not None and boundary > RING_END:
        raise BadRecord("split_boundary", f"{boundary} is beyond the ring")
    return BrokerEvent(
        kind=kind,
        session=_session(doc),
        applied_seq=_int(doc, "applied_seq"),
        bundle=bundle,
        epoch=_int(doc, "epoch") if doc.get("epoch") is not None else None,
        boundary=boundary,
        reason=_words(doc, "reason", 256),
        serving=_serving(doc),
        data=doc["data"] if isinstance(doc.get("data"), dict) else {},
    )


def parse_assign_request(raw: bytes) -> AssignRequest:
    """Parse a record of the assign-requests topic. Raises BadRecord."""
    doc = _document(raw, MAX_SMALL_BYTES)
    return AssignRequest(
        check_broker_id(_text(doc, "broker", 255)), Bundle.parse(_text(doc, "bundle", MAX_BUNDLE_CHARS))
    )


def parse_command(raw: bytes) -> Command:
    """Parse a record of the commands topic. Raises BadRecord; the arguments are validated by the control step."""
    doc = _document(raw, MAX_SMALL_BYTES)
    args = doc.get("args") or {}
    if not isinstance(args, dict):
        raise BadRecord("command_args", f"args is {type(args).__name__}, not an object")
    return Command(
        id=_text(doc, "id", 64),
        kind=_text(doc, "kind", 64),
        args=args,
        who=_words(doc, "who", 256),
        why=_words(doc, "why", 1024),
        journal_id=_journal_id(doc),
    )


def _document(raw: bytes | None, limit: int) -> dict[str, Any]:
    doc = parse_strictly(raw, limit)
    if not isinstance(doc, dict):
        raise BadRecord("not_object", f"a JSON {type(doc).__name__}, not an object")
    version = doc.get("v")
    if version is True or version != VERSION:
        raise BadRecord("version", f"schema version {shown(version)}, known: {VERSION}")
    return doc


def _session(doc: Mapping[str, Any]) -> Session:
    nonce = check_nonce(_text(doc, "nonce", MAX_NONCE_CHARS))
    broker = check_broker_id(_text(doc, "broker", 255))
    return Session(broker, _int(doc, "incarnation", 1), nonce, _int(doc, "session", 1))


def _serving(doc: Mapping[str, Any]) -> dict[str, int]:
    """Bundle -> epoch. Names are spelled as the journal spells them: it misses a bundle under any other name."""
    given = doc.get("serving") or {}
    if not isinstance(given, dict):
        raise BadRecord("event_serving", "serving is not an object of bundle -> epoch")
    if all(map(Bundle.is_as_journaled, given)) and all(map(is_whole, given.values())):
        return given  # as agents send it: a hundred thousand names a second, in large clusters
    serving: dict[str, int] = {}
    for spelled, epoch in given.items():
        name = str(Bundle.parse(spelled))
        if name in serving:
            raise BadRecord("event_serving", f"{shown(name)} is listed twice")
        if not is_whole(epoch):
            raise BadRecord("event_serving", f"epoch {shown(epoch)} of {shown(name)}")
        serving[name] = epoch
    return serving


def _journal_id(doc: Mapping[str, Any]) -> str | None:
    return _text(doc, "journal_id", 64) if doc.get("journal_id") not in (None, "") else None


def _text(doc: Mapping[str, Any], key: str, limit: int) -> str:
    value = doc.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= limit or not value.isprintable():
        raise BadRecord(f"field_{key}", f"{key} is {shown(value)}, wanted printable text of 1..{limit}")
    return value


def _words(doc: Mapping[str, Any], key: str, limit: int) -> str:
    """What somebody says to people: the beginning, on one line, without what would control a terminal."""
    return printable(str(doc.get(key) or "")[:limit], instead=" ")


def _int(doc: Mapping[str, Any], key: str, least: int = 0) -> int:
    value = doc.get(key)
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if not is_whole(value, least):
        raise BadRecord(f"field_{key}", f"{key} is {shown(value)}, wanted a whole number >= {least}")
    return value
