"""Controllers, agents and operators of another journal that speak on this one's topics.

They are neither believed nor granted anything; the operator is told once of each journal. That a controller may have
been put in this one's place is judged by the owner's record (`controller.service.owner`), never by what is said here.
"""

from __future__ import annotations

from controller.control.context import Context
from controller.domain.entries import Kind
from controller.domain.events import Command, Heartbeat, Tick
from controller.domain.state import is_foreign

STRAY_CONTROLLER, STRAY_AGENT, STRAY_COMMAND = "stray_controller", "stray_agent", "stray_command"
TOLD_OF = 20  # journals: whoever invents more must not fill the journal


def on_tick(ctx: Context, tick: Tick) -> None:
    """A controller's beat: of no meaning here, but for one of another journal."""
    if is_foreign(ctx.state.journal_id, tick.journal_id):
        ctx.watch.refuse("tick_of_another_journal")
        _tell(ctx, STRAY_CONTROLLER, str(tick.journal_id), None, {"instance": tick.instance})


def is_stray(ctx: Context, beat: Heartbeat) -> bool:
    """Whether the agent follows another journal: then its heartbeat neither registers nor renews anything."""
    if not is_foreign(ctx.state.journal_id, beat.journal_id):
        return False
    ctx.watch.refuse("heartbeat_of_another_journal")
    _tell(ctx, STRAY_AGENT, str(beat.journal_id), beat.session.broker, {"session": str(beat.session)})
    return True


def is_meant_for_another(ctx: Context, command: Command) -> bool:
    """Whether an operator meant another journal: then it is no command here, not even a rejected one."""
    if not is_foreign(ctx.state.journal_id, command.journal_id):
        return False
    ctx.watch.refuse("command_for_another_journal")
    said = {"who": command.who, "kind": command.kind, "command_id": command.id}
    _tell(ctx, STRAY_COMMAND, str(command.journal_id), None, said)
    return True


def _tell(ctx: Context, reason: str, journal_id: str, broker: str | None, data: dict[str, str]) -> None:
    key = (reason, journal_id)
    if key not in ctx.watch.strays and len(ctx.watch.strays) < TOLD_OF:
        ctx.watch.strays.add(key)
        ctx.emit(Kind.ALARM, reason=reason, broker=broker, data={"journal_id": journal_id, **data})
