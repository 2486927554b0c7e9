"""Tables of the control query beside the journal: projections, base snapshots, overrides, configuration history."""

from __future__ import annotations

from schemas.record import BOOLEAN, LONG, STRING, Field, Record, TableOptions


def _projection(key: str) -> TableOptions:
    """Overwritten as a whole at most once a second; old versions are of use only to readers that have just opened
    them."""
    return TableOptions(
        checkpoint_interval=100,
        log_retention_minutes=5,
        deleted_file_retention_minutes=15,
        tended_by_writer=True,
        key=(key,),
        statistics=tuple(dict.fromkeys((key, "seq"))),
    )


_ENTRY_SEQ = Field("entry_seq", LONG, "", "journal entry that made the row what it is")
_SEQ = Field("seq", LONG, "", "newest journal entry this version of the table includes")

OWNERSHIP = Record(
    "ownership",
    "state and owner of every bundle, owned or observed: a fold of the journal",
    (
        Field("bundle", STRING, "", "bundle name, tenant/namespace/0xLLLLLLLL_0xUUUUUUUU"),
        Field("namespace", STRING, "", "tenant/namespace"),
        Field("lower", LONG, "CRC-32", "first hash of the range"),
        Field("upper", LONG, "CRC-32", "end of the range, exclusive except at 0xffffffff"),
        Field(
            "state",
            STRING,
            "",
            "free assigning owned transferring releasing splitting retired; observed: owned ordered unknown disputed",
        ),
        Field(
            "epoch", LONG, "", "fencing token; grows along the lineage of a range; observed: that of the observation"
        ),
        Field("by_broker", STRING, "", "broker that serves it", nullable=True),
        Field("by_session", STRING, "", "session that serves it", nullable=True),
        Field("to_broker", STRING, "", "broker it goes to", nullable=True),
        Field("to_session", STRING, "", "session it goes to", nullable=True),
        Field("released", BOOLEAN, "", "while releasing: the old owner has let go"),
        Field("fence", BOOLEAN, "", "while releasing: the store is to be fenced first"),
        Field("boundary", LONG, "CRC-32", "while splitting: where", nullable=True),
        Field("cause", STRING, "", "decision or command behind the newest transition", nullable=True),
        Field("moved_at_ms", LONG, "ms since epoch", "record time of the last move by a round", nullable=True),
        _ENTRY_SEQ,
        _SEQ,
        Field(
            "authority",
            STRING,
            "",
            "metadata: it is observed, its own cluster decides; null: the journal",
            nullable=True,
        ),
        Field("order_id", STRING, "", "the open order about it", nullable=True),
        Field("order_kind", STRING, "", "of that order: move unload split", nullable=True),
        Field("orders_failed", LONG, "", "orders in a row that brought nothing", nullable=True),
    ),
    _projection("bundle"),
)

BROKERS = Record(
    "brokers",
    "the registry: every broker ever seen with its newest session, a fold of the journal",
    (
        Field("broker", STRING, "", "broker id"),
        Field("incarnation", LONG, "", "grows each time the process starts"),
        Field("nonce", STRING, "", "random name of the process"),
        Field("session", STRING, "", "newest session, broker#incarnation.nonce.number"),
        Field("state", STRING, "", "alive or gone"),
        Field("drained", BOOLEAN, "", "gets no bundles until undrained"),
        Field("leaving", BOOLEAN, "", "is handing everything over before it goes"),
        Field("runtime", STRING, "", "reference or pulsar"),
        Field("lookup_url", STRING, "", "where it answers lookups", nullable=True),
        Field("data_address", STRING, "", "where clients connect", nullable=True),
        Field("capacity_json", STRING, "", "declared capacity, JSON", nullable=True),
        _ENTRY_SEQ,
        _SEQ,
    ),
    _projection("broker"),
)

CONTROL_STATE = Record(
    "control_state",
    "base snapshots: the state that the fold of the journal starts from",
    (
        Field("seq", LONG, "", "newest journal entry the snapshot includes"),
        Field("instance", STRING, "", "controller instance that wrote it"),
        Field("at_ms", LONG, "ms since epoch", "wall time"),
        Field("state_json", STRING, "", "the state, canonical JSON (controller.domain.state_codec)"),
    ),
    _projection("seq"),
)

OVERRIDES = Record(
    "overrides",
    "wishes of operators that constrain rounds and assignments until they end: a fold of the journal",
    (
        Field("override_id", STRING, "", "id of the command that set it"),
        Field("kind", STRING, "", "pin avoid freeze exclude_namespace"),
        Field("namespace", STRING, "", "tenant/namespace it holds for", nullable=True),
        Field("bundle", STRING, "", "bundle it holds for", nullable=True),
        Field("broker", STRING, "", "broker it names", nullable=True),
        Field("until_ms", LONG, "ms since epoch", "end; null: until removed", nullable=True),
        Field("who", STRING, "", "who asked", nullable=True),
        Field("why", STRING, "", "the reason given", nullable=True),
        Field("entry_seq", LONG, "", "journal entry that accepted it"),
        _SEQ,
    ),
    _projection("override_id"),
)

CONFIG_HISTORY = Record(
    "config_history",
    "every configuration a controller ran with",
    (
        Field("config_version", STRING, "", "hash of the effective values"),
        Field("instance", STRING, "", "controller instance that started with it"),
        Field("at_ms", LONG, "ms since epoch", "wall time of the start"),
        Field("code_version", STRING, "", "version of the code"),
        Field("config_json", STRING, "", "effective values, secrets left out, JSON"),
    ),
    TableOptions(
        append_only=True,
        key=("config_version", "instance"),
        statistics=("at_ms",),
        expires_by="at_ms",
        kept_as="config_history_days",
    ),
)
