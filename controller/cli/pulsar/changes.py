"""What `ballast pulsar adopt` and `release` share: the option --apply, the table of settings, waiting for brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import typer

from controller.brokers.pulsar.switches import Switch
from controller.cli.show import emit_table

Apply = Annotated[bool, typer.Option("--apply", help="Do it; without this option nothing changes.")]
PATIENCE_S = 30.0  # for all brokers to follow an override
_LOOK_AGAIN_S = 1.0
_MOST_NAMED = 3
Plan = Mapping[str, str | None]  # setting -> override to write, None to remove it
_T = TypeVar("_T")


def print_switches(switches: Sequence[Switch], plan: Plan) -> None:
    """Print each setting with its value in force, its override, and what the plan does to it."""
    columns = ("broker setting", "value now …", "override in force", "would be written")
    rows = [(s.setting, values_text(s), s.override or "none", _change_text(s, plan)) for s in switches]
    emit_table(columns, rows)


def values_text(switch: Switch) -> str:
    """The value in force; by broker where they differ."""
    values = switch.values
    if len(values) == 1:
        return next(iter(values))
    return ", ".join(f"{value} ({_names_text(brokers)})" for value, brokers in values.items()) or "not told"


def _names_text(brokers: Sequence[str]) -> str:
    more = len(brokers) - _MOST_NAMED
    return ", ".join(brokers[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _change_text(switch: Switch, plan: Plan) -> str:
    if switch.setting not in plan:
        return "nothing"
    override = plan[switch.setting]
    return "override removed" if override is None else override


def switch_row(switch: Switch, plan: Plan) -> dict[str, Any]:
    """A setting for `--json`; `change`: absent if there is none, else the override to write, null to remove it."""
    row = {"setting": switch.setting, "by_broker": dict(switch.by_broker), "override": switch.override}
    return row | ({"change": plan[switch.setting]} if switch.setting in plan else {})


async def read_until(read: Callable[[], Awaitable[_T]], holds: Callable[[_T], bool]) -> _T:
    """Read until what was read is as wanted, or the time is up; returns what was read last."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + PATIENCE_S
    while True:
        found = await read()
        if holds(found) or loop.time() > deadline_s:
            return found
        await asyncio.sleep(_LOOK_AGAIN_S)
