"""How often the rounds of a replay come: as the recorded ones did, unless the user says otherwise.

The tables of a running system have its rounds. A file of JSON lines has none: its rounds come as configured.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from controller.backtest.recording.input import PANES_STEP_MS, tables_of
from controller.config.settings import OVERRIDE, Settings
from controller.domain.decision import EARLY
from controller.ledger.files import read_range, retry_on_vacuum
from controller.ledger.tables import TableRoot
from schemas.evidence_tables import ROUNDS
from schemas.journal import JOURNAL

KEY = "rounds.round_interval_s"


class Pace(NamedTuple):
    """The time between two rounds, and one step; None for the step that the recording suggests."""

    interval_ms: int
    step_ms: int | None


def pace_of(source: str, settings: Settings, step_ms: int | None = None) -> Pace:
    """The pace of a replay of `source`, as `read_input` takes it. `step_ms`: as the user wants it.

    An interval that was given for this run (`--set`) holds; else the recorded one; else the configured one. The steps
    of tables are no longer than it, unless a pane is.
    """
    root = tables_of(source)
    recorded = recorded_interval_ms(root) if root is not None and settings.origin(KEY) != OVERRIDE else None
    interval_ms = recorded or round(settings.rounds.round_interval_s * 1000)
    often = root is not None and interval_ms < PANES_STEP_MS
    return Pace(interval_ms, step_ms or (interval_ms if often else None))


def recorded_interval_ms(root: TableRoot) -> int | None:
    """The usual time between two rounds of the strategy in charge, in ms; None where fewer than two were recorded, or
    the panes alone were copied."""
    if not (root.exists("rounds") and root.exists("journal")):
        return None
    journal = retry_on_vacuum(
        lambda: read_range(
            root.open("journal"), root.log("journal"), JOURNAL, "seq", -1, columns=["attempt_id"], given=["attempt_id"]
        )
    )
    columns = ["at_ms", "attempt_id", "challenger", "round_id"]
    rounds = retry_on_vacuum(
        lambda: read_range(root.open("rounds"), root.log("rounds"), ROUNDS, "wall_ms", -1, columns=columns)
    )
    counts = pc.and_(
        pc.is_in(rounds["attempt_id"], value_set=journal["attempt_id"].combine_chunks()),
        pc.invert(pc.or_(rounds["challenger"], pc.ends_with(rounds["round_id"], EARLY))),
    )
    moments = np.unique(rounds.filter(counts)["at_ms"].to_numpy())
    return round(float(np.median(np.diff(moments)))) if len(moments) > 1 else None
