"""Records of the control topics, parsed strictly into values.

Every parser takes the raw bytes of one record and returns a value or raises BadRecord with the id of the rule, which
goes into the quarantine table. Unknown fields are ignored; an unknown version `v` is a BadRecord: never guess. A record
that passes can be stored anywhere: it is UTF-8, its numbers are finite, its keys are unique, and its nesting is
bounded. A record that only a later stage refused would stop this controller and every successor.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controller.domain.decision import RoundResult
from controller.domain.errors import BadRecord, shown
from controller.domain.ids import MAX_BUNDLE_CHARS, RING_END, Bundle, Session, check_broker_id

VERSION = 1
MAX_CONTROL_BYTES = 1_048_576  # an inventory of 10,000 bundles is half of this
MAX_SMALL_BYTES = 131_072  # of all other records; they may be journaled whole
MAX_DEPTH = 32  # of nesting
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
    return AssignRequest(check_broker_id(_text(doc, "broker", 255)), Bundle.parse(_text(doc, "bundle", MAX_BUNDLE_CHARS)))


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
    if raw is None or not raw:
        raise BadRecord("empty", "record without a value")
    if len(raw) > limit:
        raise BadRecord("too_large", f"{len(raw)} bytes, at most {limit}")
    try:
        text = raw.decode()  # strictly: `json.loads` takes UTF-16 and half surrogate pairs as well
        doc = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise BadRecord("not_json", str(error)[:200]) from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _deeper_than(doc, MAX_DEPTH):
        raise BadRecord("too_deep", f"nested deeper than {MAX_DEPTH} levels")
    if "\\u" in text and not _is_unicode(doc):
        raise BadRecord("not_unicode", "text with half a surrogate pair")
    if not isinstance(doc, dict):
        raise BadRecord("not_object", f"a JSON {type(doc).__name__}, not an object")
    version = doc.get("v")
    if version is True or version != VERSION:
        raise BadRecord("version", f"schema version {shown(version)}, known: {VERSION}")
    return doc


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def _parse_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{shown(text)} is beyond any number")
    return value


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are unique: of two values of one key, every reader would pick another one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise BadRecord("duplicate_key", f"{shown(twice)} stands more than once")
    return found


# Made once: `json.loads` with these arguments makes one for every record, which takes half of the parser's time.
_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_parse_finite, object_pairs_hook=_refuse_duplicates
)


def _deeper_than(value: Any, depth: int) -> bool:
    """Whether lists and objects are nested deeper than `depth` levels. Checked level by level, without recursion."""
    level = [value]
    for _ in range(depth):
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, dict | list)]
        level = [part for parts in inner for part in parts]
    return any(isinstance(v, dict | list) for v in level)


def _is_unicode(doc: Any) -> bool:
    try:
        json.dumps(doc, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _session(doc: Mapping[str, Any]) -> Session:
    nonce = _text(doc, "nonce", 64)
    if not (nonce.isascii() and nonce.isalnum()):
        raise BadRecord("nonce", f"{shown(nonce)} is not alphanumeric")
    broker = check_broker_id(_text(doc, "broker", 255))
    return Session(broker, _int(doc, "incarnation", 1), nonce, _int(doc, "session", 1))


def _serving(doc: Mapping[str, Any]) -> dict[str, int]:
    """Bundle -> epoch. Names are spelled as the journal spells them: it misses a bundle under any other name."""
    given = doc.get("serving") or {}
    if not isinstance(given, dict):
        raise BadRecord("event_serving", "serving is not an object of bundle -> epoch")
    serving: dict[str, int] = {}
    for spelled, epoch in given.items():
        name = str(Bundle.parse(spelled))
        if name in serving:
            raise BadRecord("event_serving", f"{shown(name)} is listed twice")
        if not isinstance(epoch, int) or isinstance(epoch, bool) or not 0 <= epoch < 2**53:
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
    said = str(doc.get(key) or "")[:limit]
    return said if said.isprintable() else "".join(c if c.isprintable() else " " for c in said)


def _int(doc: Mapping[str, Any], key: str, least: int = 0) -> int:
    value = doc.get(key)
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**53:
        raise BadRecord(f"field_{key}", f"{key} is {shown(value)}, wanted a whole number >= {least}")
    return value
