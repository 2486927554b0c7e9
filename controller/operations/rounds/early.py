"""Why a round came before its time, from its entry in the journal and in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from controller.domain.decision import EARLY
from controller.domain.entries import Kind
from controller.operations.reading import Reader
from controller.operations.text import count_text


def why_early(reader: Reader, of_round: Mapping[str, Any]) -> str | None:
    """The words for a round's row; None for one that came in time."""
    if not str(of_round["round_id"]).endswith(EARLY):
        return None
    only = {"kind": Kind.ROUND.value}
    entries = reader.rows("journal", "seq", of_round["seq"] - 1, of_round["seq"], ["data"], only).to_pylist()
    return next((early_text(json.loads(entry["data"])) for entry in entries), None)


def early_text(told: Mapping[str, Any]) -> str | None:
    """The words for what an entry tells of its round."""
    early = told.get("early")
    if not isinstance(early, Mapping):
        return None
    if "shifted_to" in early:
        rise = f"{early.get('before_pct')} % above the level before, {early.get('above_pct')} % now"
        return f"before its time: load had shifted to {early['shifted_to']} ({rise}, by its traffic)"
    moves = count_text(int(early.get("kept_back", 0)), "move")
    return f"before its time: too many orders were open for {moves} of the round before"
