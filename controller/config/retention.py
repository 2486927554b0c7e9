"""The section `retention` of the configuration in ms, by the keys that table definitions refer to (`kept_as`)."""

from __future__ import annotations

from controller.config.settings import Settings

DAY_MS = 86_400_000


def retention_ms(settings: Settings) -> dict[str, int]:
    """How long rows are kept, in ms, by retention key (such as `loads_days`)."""
    retention = settings.retention
    days = {
        "loads_days": retention.loads_days,
        "evidence_days": retention.evidence_days,
        "quarantine_days": retention.quarantine_days,
        "config_history_days": retention.config_history_days,
        "journal_days": retention.journal_days,
    }
    return {name: round(kept * DAY_MS) for name, kept in days.items()}
