"""What `ballast explain COMMAND` has of a command that caused more entries than it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.entries import Entry, Kind
from controller.operations.why.commanded import MOST, find_command


class Journal:
    """Answers as a `Reader` does, of entries that it was given."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._table = pa.Table.from_pylist([entry.to_row() for entry in entries])

    def rows(
        self, table: str, order: str, above: int = -1, up_to: int = 1 << 60, columns: Sequence[str] = (),
        *, equal: dict[str, str] | None = None, among: Sequence[int] | None = None,
    ) -> pa.Table:  # fmt: skip
        found = self._table.filter((pc.field("seq") > above) & (pc.field("seq") <= up_to))
        for name, value in (equal or {}).items():
            found = found.filter(pc.field(name) == value)
        return (found if among is None else found.filter(pc.field("seq").isin(list(among)))).select(list(columns))


def test_what_a_command_could_not_do_is_told_however_much_it_did() -> None:
    about: dict[str, Any] = {"instance": "i", "batch": 1, "at_ms": 5, "command_id": "c"}
    told = {"kind": "unload_namespace", "args": {"namespace": "t/n"}, "who": "anna", "why": ""}
    entries = [Entry(1, Kind.COMMAND_ACCEPTED, data=told, **about)]
    entries += [Entry(seq, Kind.ORDER, **about) for seq in range(2, 2 * MOST)]
    entries.append(Entry(2 * MOST, Kind.ALARM, reason="305_broker_drained", **about))
    found = find_command(cast(Any, Journal(entries)), "c")
    assert found is not None
    assert found[0]["command_id"] == "c"
    assert [entry.seq for entry in found[1]] == [*range(2, MOST + 1), 2 * MOST]
