"""The journal entry, defined once for the Delta table and for the feed: the fields of `controller.domain.entries`."""

from __future__ import annotations

from controller.domain.entries import Kind
from controller.domain.ownership import State
from schemas.record import LONG, STRING, Field, Record, TableOptions

JOURNAL_FIELDS = (
    Field("seq", LONG, "", "dense number of the entry; readers apply exactly seq + 1"),
    Field("kind", STRING, "", "what it tells", rules={"enum": [kind.value for kind in Kind]}),
    Field("instance", STRING, "", "controller instance that wrote it"),
    Field("batch", LONG, "", "micro-batch of that instance"),
    Field("at_ms", LONG, "ms since epoch", "wall time of the batch, for people; nothing is decided by it"),
    Field("bundle", STRING, "", "bundle name", nullable=True),
    Field("state", STRING, "", "ownership state", True, {"enum": [state.value for state in State]}),
    Field("epoch", LONG, "", "fencing token of the attempt", nullable=True),
    Field("by", STRING, "", "session that serves or served, broker#incarnation.nonce.number", nullable=True),
    Field("to", STRING, "", "session it goes to", nullable=True),
    Field("broker", STRING, "", "broker id", nullable=True),
    Field("session", STRING, "", "session registered or ended", nullable=True),
    Field("reason", STRING, "", "reason code or text", nullable=True),
    Field("command_id", STRING, "", "command behind it", nullable=True),
    Field("decision_id", STRING, "", "decision behind it", nullable=True),
    Field("attempt_id", STRING, "", "joins the rows of rounds, decisions and broker_scores", nullable=True),
    Field("data", STRING, "", "what only some kinds carry, canonical JSON", nullable=True),
)

JOURNAL = Record(
    "journal",
    "the append-only truth: everything decided and everything that happened",
    JOURNAL_FIELDS,
    # A commit lists the whole log, and 3,000 files in it treble its time (measured). Followers read commits within
    # seconds and fall back to the table, so minutes of log are enough.
    TableOptions(
        append_only=True,
        checkpoint_interval=100,
        log_retention_minutes=5,
        deleted_file_retention_minutes=15,
        tended_by_writer=True,
        key=("seq",),
        statistics=("seq", "kind", "at_ms"),
        expires_by="at_ms",
        kept_as="journal_days",
    ),
)
