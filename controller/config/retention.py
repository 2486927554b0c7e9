"""The configuration's section `retention` as ms, by the keys that the tables' definitions name (`kept_as`)."""

from __future__ import annotations

from controller.config.settings import Settings

DAY_MS = 86_400_000


def kept_ms(settings: Settings) -> dict[str, int]:
    """How long rows are kept, ms, by retention key (`loads_days`)."""
    kept = settings.retention.model_dump()
    return {name: round(days * DAY_MS) for name, days in kept.items() if name.endswith("_days")}
