"""Controllers and agents of another journal that speak on this one's topics.

They are neither believed nor granted anything; the operator is told once of each journal. That a controller may have
been put in this one's place is judged by the owner's record (`jobs.control_owner`), never by what is said here.
"""

from __future__ import annotations

from controller.control.context import Context
from controller.domain.entries import Kind
from controller.domain.events import Heartbeat, Tick
from controller.domain.state import is_foreign

STRAY_CONTROLLER, STRAY_AGENT = "stray_controller", "stray_agent"
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


def _tell(ctx: Context, reason: str, journal_id: str, broker: str | None, data: dict[str, str]) -> None:
    key = (reason, journal_id)
    if key not in ctx.watch.strays and len(ctx.watch.strays) < TOLD_OF:
        ctx.watch.strays.add(key)
        ctx.emit(Kind.ALARM, reason=reason, broker=broker, data={"journal_id": journal_id, **data})
