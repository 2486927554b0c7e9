"""Tables that are not there although the journal says that there is something to be in them.

A repair cannot mend them: what a writer makes again from the journal comes with the next start, which creates the
tables, and other rows are nowhere but in a copy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from controller.domain.state import ClusterState
from controller.ledger.evidence import EVIDENCE_TABLES
from controller.ledger.repair.remade import REMADE
from controller.ledger.tables import TableRoot
from schemas.catalog import TABLES
from schemas.control_tables import CONTROL_STATE
from schemas.journal import JOURNAL

NEXT_STEP = "the next start of `ballast run` creates missing tables"
BEFORE_IT = "if there is a copy of the lost tables, put it in their place before that"


@dataclass(frozen=True, slots=True)
class Missing:
    """A table that is not there, and the rest of a sentence about it. `lost`: nobody can write its rows again."""

    table: str
    what: str
    lost: bool


def find_missing(root: TableRoot, state: ClusterState, only: Collection[str] = ()) -> Iterator[Missing]:
    """The missing tables, or those of them that are in `only`; none before a journal has begun."""
    if not state.seq:
        return
    for name in TABLES:
        if name != JOURNAL.name and (not only or name in only) and not root.exists(name):
            yield _describe(name, state)


def lost_rounds_text(name: str, state: ClusterState) -> str:
    """That this table of evidence is missing, if the journal names rounds; else empty."""
    if not state.round_seq:
        return ""
    newest = f"{state.round_id} in entry {state.round_seq}" if state.round_id else f"in entry {state.round_seq}"
    return f"is missing, though the journal names rounds, the newest {newest}"


def _describe(name: str, state: ClusterState) -> Missing:
    lost = lost_rounds_text(name, state) if name in EVIDENCE_TABLES else ""
    if lost:
        return Missing(name, f"{lost}: only a copy of the tables has its rows", True)
    if name == CONTROL_STATE.name:
        return Missing(name, "is missing: the next start reads the journal from its first entry instead", False)
    return Missing(name, f"is missing: {REMADE.get(name, 'the next start creates it')}", False)
