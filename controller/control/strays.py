"""Controllers, agents and operators of another journal that send on this one's topics.

They are neither believed nor granted anything; an alarm tells the operator once of each journal. Whether another
controller has taken this one's place is decided by the owner record (`controller.service.topic_claim`), never by what
is sent here.
"""

from __future__ import annotations

from controller.control.context import Context
from controller.domain.entries import STRAY_AGENT, STRAY_COMMAND, STRAY_CONTROLLER, Kind
from controller.domain.events import Command, Heartbeat, Tick
from controller.domain.settings.agent_groups import NO_GROUP
from controller.domain.state import is_foreign

MOST_ALARMS = 20  # other journals that are reported; forged ones must not fill the journal


def on_tick(ctx: Context, tick: Tick) -> None:
    """Handle a controller's tick, which matters only when it is another journal's. In a topic of an agent group any of
    its agents may have sent it; controllers tick in the plain topic as well."""
    if tick.group == NO_GROUP and is_foreign(ctx.state.journal_id, tick.journal_id):
        ctx.watch.refuse("tick_of_another_journal")
        _raise_alarm(ctx, STRAY_CONTROLLER, str(tick.journal_id), None, {"instance": tick.instance})


def is_stray(ctx: Context, beat: Heartbeat) -> bool:
    """Whether the agent follows another journal, so that its heartbeat neither registers nor renews a session."""
    if not is_foreign(ctx.state.journal_id, beat.journal_id):
        return False
    ctx.watch.refuse("heartbeat_of_another_journal")
    _raise_alarm(ctx, STRAY_AGENT, str(beat.journal_id), beat.session.broker, {"session": str(beat.session)})
    return True


def has_read_no_journal(ctx: Context, beat: Heartbeat) -> bool:
    """Whether the agent has read no journal at all, so that it is not registered yet.

    An agent that starts before its controller soon has. One that has read nothing for a lease has other tables.
    """
    broker = beat.session.broker
    if beat.journal_id != "":
        ctx.watch.unread_since.pop(broker, None)
        return False
    ctx.watch.refuse("heartbeat_without_journal")
    since_ms = ctx.watch.unread_since.setdefault(broker, ctx.read_ms)
    if ctx.read_ms - since_ms > ctx.settings.lease_ms:
        _raise_alarm(ctx, STRAY_AGENT, broker, broker, {"session": str(beat.session)}, journal_id="")
    return True


def is_meant_for_another(ctx: Context, command: Command) -> bool:
    """Whether the command is for another journal, so that it is not even rejected here."""
    if not is_foreign(ctx.state.journal_id, command.journal_id):
        return False
    ctx.watch.refuse("command_for_another_journal")
    data = {"who": command.who, "kind": command.kind, "command_id": command.id}
    _raise_alarm(ctx, STRAY_COMMAND, str(command.journal_id), None, data)
    return True


def _raise_alarm(
    ctx: Context, reason: str, of: str, broker: str | None, data: dict[str, str], journal_id: str | None = None
) -> None:
    """`of`: what it is raised once for, the other journal unless `journal_id` names that."""
    journal_id = of if journal_id is None else journal_id
    key = (reason, of)
    if key not in ctx.watch.strays and len(ctx.watch.strays) < MOST_ALARMS:
        ctx.watch.strays.add(key)
        ctx.emit(Kind.ALARM, reason=reason, broker=broker, data={"journal_id": journal_id, **data})
