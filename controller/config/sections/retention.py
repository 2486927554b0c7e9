"""How long the tables keep their rows, and how often the controller cleans up its own tables."""

from __future__ import annotations

from controller.config.definition import DESIGN, Section, key


class Retention(Section):
    """How long rows are kept. The controller cleans up journal and projections, `ballast maintain` all other tables."""

    journal_days: float = key(
        30,
        "Journal entries older than this, and below every base snapshot, are dropped.",
        source="design: a month of one commit a second",
        unit="days",
        lo=0.01,
        hi=3_650,
    )
    evidence_days: float = key(
        7,
        "Rounds, decisions and scores, which `ballast explain` and the replay of rounds need.",
        source=DESIGN,
        unit="days",
        lo=0.01,
        hi=3_650,
    )
    loads_days: float = key(
        7, "Panes and rolling averages.", source="design: as the evidence", unit="days", lo=0.01, hi=3_650
    )
    quarantine_days: float = key(7, "Quarantined records.", source="design: as loads", unit="days", lo=0.01, hi=3_650)
    config_history_days: float = key(
        400,
        "Configurations of past controllers.",
        source="design: a year and a month",
        unit="days",
        lo=1,
        hi=3_650,
    )
    cleanup_interval_s: float = key(
        120,
        "Time between two clean-ups of the control tables, in which the controller merges small files and removes dead "
        "ones.",
        source="measured: a clean-up of 300 small files takes 0.2-0.5 s in its own thread",
        unit="s",
        lo=1,
        hi=86_400,
    )
