"""Why a round was early, or doubted readings: from its entry in the journal, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from controller.domain.decision import EARLY
from controller.domain.entries import Kind
from controller.operations.reading import Reader


def why_round(reader: Reader, of_round: Mapping[str, Any]) -> str | None:
    """The words for a round's row; None for a usual one."""
    only = {"kind": Kind.ROUND.value}
    entries = reader.rows("journal", "seq", of_round["seq"] - 1, of_round["seq"], ["data"], only).to_pylist()
    return next((because_text(json.loads(entry["data"])) for entry in entries), None)


def because_text(told: Mapping[str, Any]) -> str | None:
    """The words for what an entry tells of its round."""
    because = told.get("because")
    if not isinstance(because, Mapping):
        return None
    early = "early: " if str(told.get("round_id", "")).endswith(EARLY) else ""
    now, before = because.get("above_pct"), because.get("before_pct")
    far = f"by its traffic {now} % above the level (was {before} %)"
    return f"{early}load had shifted to {because.get('shifted_to')}, {far}"
