"""The records on Kafka, version 1. The rules repeat what `controller.domain.events` accepts; a test compares them."""

from __future__ import annotations

from controller.domain.events import COMMAND_KINDS, EVENT_KINDS, VERSION
from controller.domain.ids import RING_END
from controller.domain.load import BUNDLE_FIELDS, RATES, RESOURCES
from schemas.journal import JOURNAL_FIELDS
from schemas.record import DOUBLE, LONG, OBJECT, STRING, Field, ListOf, MapOf, Record, Struct
from schemas.units import FIELD_UNITS, RESOURCE_UNITS

BROKER_PATTERN = r"^[A-Za-z0-9._\-\[\]:]{1,255}$"
BUNDLE_PATTERN = r"^[^/\s]+/[^/\s]+/0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8}$"
# In load reports the name is a key of panes and averages, so only one spelling is allowed, as in
# controller.loads.rules.
REPORTED_BUNDLE_PATTERN = r"^[^/\s]{1,128}/[^/\s]{1,128}/0x[0-9a-f]{8}_0x[0-9a-f]{8}$"
_COUNT = {"minimum": 0, "exclusiveMaximum": 2**53}

_VERSION = Field("v", LONG, "", "schema version", rules={"const": VERSION})
_BROKER = Field("broker", STRING, "", "broker id, host:port of its web service", rules={"pattern": BROKER_PATTERN})
_SENT = Field("sent_ms", LONG, "ms since epoch", "when it was sent, wall clock, for people only", nullable=True)
_SESSION = (
    _BROKER,
    Field("incarnation", LONG, "", "grows each time the process starts", rules={**_COUNT, "minimum": 1}),
    Field("nonce", STRING, "", "random name of the process", rules={"pattern": r"^[^\W_]{1,64}$"}),
    Field("session", LONG, "", "number of the session within the incarnation", rules={**_COUNT, "minimum": 1}),
)
_APPLIED = Field("applied_seq", LONG, "", "newest journal seq the agent has applied", rules=_COUNT)


def _journal_id(comment: str) -> Field:
    return Field("journal_id", STRING, "", comment, True, {"maxLength": 64})


def _usage(name: str) -> Field:
    unit = RESOURCE_UNITS[name]
    return Field(
        name,
        Struct(
            (
                Field("usage", DOUBLE, unit, "used now; below 0 is unknown"),
                Field("limit", DOUBLE, unit, "what the broker has; 0 or less is unknown"),
            )
        ),
        "",
        f"{name} of the broker",
    )


def _stats(what: str) -> tuple[Field, ...]:
    return tuple(Field(name, DOUBLE, FIELD_UNITS[name], f"{_words(name)} of {what}") for name in BUNDLE_FIELDS)


def _words(name: str) -> str:
    rate = "rate" if name in RATES else "current"
    return f"{rate}: {name.replace('_', ' ')}"


LOAD_REPORT = Record(
    "load_report",
    "what an agent says about its broker; the top bundles plus one tail sum to the totals",
    (
        _VERSION,
        *_SESSION,
        Field("sequence", LONG, "", "grows with every report of the incarnation", rules=_COUNT),
        _SENT,
        Field("resources", Struct(tuple(map(_usage, RESOURCES))), "", "usage and limit of each resource"),
        Field("rpc_queue_ms", DOUBLE, "ms", "time a request waits before it is worked on"),
        Field("metadata_latency_ms", DOUBLE, "ms", "latency of the metadata or segment store"),
        Field(
            "totals",
            Struct((*_stats("the broker"), Field("bundles", DOUBLE, "count", "bundles served"))),
            "",
            "sums over all bundles served",
        ),
        Field(
            "bundles",
            ListOf(
                Struct(
                    (
                        Field("bundle", STRING, "", "bundle name", rules={"pattern": REPORTED_BUNDLE_PATTERN}),
                        *_stats("the bundle"),
                        Field("partitioned_topics", ListOf(STRING), "", "partitioned topics with parts here", True),
                    )
                )
            ),
            "",
            "the busiest bundles, one element each",
        ),
        Field(
            "tail",
            Struct((*_stats("the bundles not listed"), Field("bundles", DOUBLE, "count", "bundles not listed"))),
            "",
            "sums over the bundles that are not listed; null when all are",
            nullable=True,
        ),
    ),
)

HEARTBEAT = Record(
    "heartbeat",
    "a session lives; its first heartbeat registers it",
    (
        _VERSION,
        *_SESSION,
        _APPLIED,
        _SENT,
        Field("info", OBJECT, "", "runtime, addresses, capacity, process", nullable=True),
        _journal_id("the journal that the agent follows; empty: none yet, absent: an older version"),
    ),
)

TICK = Record(
    "tick",
    "the beat of the controller on every heartbeats topic",
    (
        _VERSION,
        Field("kind", STRING, "", "always tick", rules={"const": "tick"}),
        Field("instance", STRING, "", "controller instance", rules={"minLength": 1, "maxLength": 64}),
        Field("seq", LONG, "", "newest journal seq", rules=_COUNT),
        _SENT,
        _journal_id("the journal that the controller writes; absent: an older version"),
        Field(
            "boot_ms", LONG, "ms", "the boot clock of the controller before it was sent, for its own use", True, _COUNT
        ),
    ),
)

BROKER_EVENT = Record(
    "broker_event",
    "an answer or observation of an agent",
    (
        _VERSION,
        Field("kind", STRING, "", "what happened", rules={"enum": sorted(EVENT_KINDS)}),
        *_SESSION,
        _APPLIED,
        _SENT,
        Field("bundle", STRING, "", "bundle name", True, {"pattern": BUNDLE_PATTERN, "maxLength": 512}),
        Field("epoch", LONG, "", "epoch the answer is about", True, _COUNT),
        Field("boundary", LONG, "", "hash at which to split", True, {"minimum": 0, "maximum": RING_END}),
        Field("reason", STRING, "", "why, for people", True),
        Field("serving", MapOf(LONG), "", "bundles served and their epochs (inventory, observed)", True),
        Field("data", OBJECT, "", "fields of some kinds, as load of the halves of a split", True),
    ),
)

ASSIGN_REQUEST = Record(
    "assign_request",
    "a client looked up a topic of a bundle that has no owner",
    (
        _VERSION,
        _BROKER,
        Field("bundle", STRING, "", "bundle name", rules={"pattern": BUNDLE_PATTERN, "maxLength": 512}),
        _SENT,
    ),
)

COMMAND = Record(
    "command",
    "a wish of an operator; the id makes it happen once",
    (
        _VERSION,
        Field("id", STRING, "", "unique id", rules={"minLength": 1, "maxLength": 64}),
        Field("kind", STRING, "", f"one of {' '.join(sorted(COMMAND_KINDS))}", rules={"minLength": 1, "maxLength": 64}),
        Field("args", OBJECT, "", "arguments of the kind", nullable=True),
        Field("who", STRING, "", "who asked", nullable=True),
        Field("why", STRING, "", "the reason given", nullable=True),
        _SENT,
        _journal_id("the journal that it is meant for; absent: an older version"),
    ),
)

JOURNAL_ENTRY = Record("journal_entry", "one journal entry as the feed carries it", JOURNAL_FIELDS)

_ENGINE = (
    Field("spark", STRING, "", "version of Spark"),
    Field("master", STRING, "", "its master"),
    Field("executors", LONG, "", "processes besides the driver; 0 with a local master", rules=_COUNT),
    Field("cores", LONG, "", "tasks that can run at once", rules=_COUNT),
)

JOURNAL_FEED = Record(
    "journal_feed",
    "what a commit added to the journal, or, each second, the newest seq alone",
    (
        _VERSION,
        Field("instance", STRING, "", "controller instance"),
        Field("entries", ListOf(Struct(JOURNAL_FIELDS)), "", "the entries of one commit in order", nullable=True),
        Field("seq", LONG, "", "newest journal seq, when no entries are sent", nullable=True, rules=_COUNT),
        _journal_id("the journal that it is about; absent: an older version"),
        Field("engine", Struct(_ENGINE), "", "what the controller runs on, once that is known", nullable=True),
    ),
)

RECORDS: dict[str, Record] = {
    record.name: record
    for record in (
        LOAD_REPORT,
        HEARTBEAT,
        TICK,
        BROKER_EVENT,
        ASSIGN_REQUEST,
        COMMAND,
        JOURNAL_ENTRY,
        JOURNAL_FEED,
    )
}
