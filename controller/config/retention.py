"""The configuration's section `retention` as ms, by the keys that the tables' definitions name (`kept_as`)."""

from __future__ import annotations

from controller.config.settings import Settings

DAY_MS = 86_400_000


def kept_ms(settings: Settings) -> dict[str, int]:
    """How long rows are kept, ms, by retention key (`loads_days`)."""
    retention = settings.retention
    days = {
        "loads_days": retention.loads_days,
        "evidence_days": retention.evidence_days,
        "quarantine_days": retention.quarantine_days,
        "config_history_days": retention.config_history_days,
        "journal_days": retention.journal_days,
    }
    return {name: round(kept * DAY_MS) for name, kept in days.items()}
