"""Checks clocks by what the journal and the panes say: steps of the controller's, and times that lie in the future."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from controller.ledger.loads_progress import loads_progress
from controller.operations.doctor.finding import Clock, Finding, Page, fine, severe, warning
from controller.operations.reading import Reader
from controller.operations.text import count_text, duration_text, time_text

DAY_MS = 86_400_000
STEP_MS = 1_000  # back, between two entries of one controller: less is rounding and what NTP corrects
AHEAD_MS = 5_000


def check_clocks(reader: Reader, clock: Clock) -> Iterator[Finding]:
    """The journal's last day, and the newest times of all."""
    entries = reader.rows("journal", "at_ms", above=clock() - DAY_MS, columns=["seq", "instance", "at_ms"])
    entries = entries.sort_by("seq")
    found = [*_check_steps(entries), *_check_future(reader, entries, clock)]
    yield from found
    if not found:
        looked_at = count_text(entries.num_rows, "entry", "entries")
        yield fine("clocks", f"no step back in {looked_at} of the last day, no time in the future")


def _check_steps(entries: pa.Table) -> Iterator[Finding]:
    """Entries of one controller that are older than the one before them."""
    if entries.num_rows < 2:
        return
    before, after = entries.slice(0, entries.num_rows - 1), entries.slice(1)
    back = pc.subtract(before["at_ms"], after["at_ms"])
    stepped = pc.and_(pc.greater(back, STEP_MS), pc.equal(before["instance"], after["instance"]))
    steps = after.append_column("back_ms", back).filter(stepped)
    if steps.num_rows:
        worst = steps.sort_by([("back_ms", "descending")]).slice(0, 1).to_pylist()[0]
        text = (
            f"the clock of controller {worst['instance']} was set back {steps.num_rows} "
            f"time{'' if steps.num_rows == 1 else 's'} in the last day, by {duration_text(worst['back_ms'])} at entry "
            f"{worst['seq']} ({time_text(worst['at_ms'])} UTC)"
        )
        remedy = (
            "let NTP slew the clock instead of stepping it. Leases do not depend on it; times in the tables, ages in "
            "`ballast status` and retention do"
        )
        yield warning("clocks", text, remedy, Page.CHECKS)


def _check_future(reader: Reader, entries: pa.Table, clock: Clock) -> Iterator[Finding]:
    """Times ahead of this machine's clock."""
    newest, now_ms = pc.max(entries["at_ms"]).as_py(), clock()
    if newest is not None and newest > now_ms + AHEAD_MS:
        text = f"the journal's newest entry is {duration_text(newest - now_ms)} ahead of this machine's clock"
        yield severe("clocks", text, "set the clock of this machine, or of the controller's", Page.CHECKS)
    progress, now_ms = loads_progress(reader.root), clock()
    if progress is not None and progress.newest_event_ms > now_ms + AHEAD_MS:
        ahead = duration_text(progress.newest_event_ms - now_ms)
        text = f"the newest load report is {ahead} ahead of this machine's clock; Kafka stamps the reports"
        yield severe("clocks", text, "set the clock of this machine, or of the Kafka brokers", Page.CHECKS)
