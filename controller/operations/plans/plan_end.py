"""When a plan that is kept for an operator ends: a waiting one expires, a declined one holds nothing back any more."""

from __future__ import annotations

from typing import Any

from controller.config.policy_values import control_settings
from controller.config.settings import Settings
from controller.domain.entries import Kind
from controller.operations.reading import Reader

Row = dict[str, Any]


def with_plan_end(reader: Reader, plan: Row | None, settings: Settings, running: bool) -> Row | None:
    """Add when the plan ends by these settings, and above how many moves a plan waits.

    `until_ms` is None while no controller runs: a started one gives the plan its whole time again.
    """
    if plan is None:
        return None
    control = control_settings(settings)
    until_ms = _began_ms(reader, plan["seq"]) + control.approval_ms if running else None
    return {**plan, "until_ms": until_ms, "approve_above": control.approve_above}


def _began_ms(reader: Reader, seq: int) -> int:
    """When the plan came into its phase, or the controller started since."""
    entries = reader.rows("journal", "seq", above=seq - 1, up_to=seq, columns=["at_ms"])["at_ms"].to_pylist()
    started = reader.newest_entries("kind", Kind.CONTROLLER_STARTED.value, 1)
    return max([*entries, *(entry.at_ms for entry in started)], default=0)
