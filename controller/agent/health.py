"""Why an agent is unhealthy, in words: what its `/healthz` answers."""

from __future__ import annotations

from controller.agent.session.session import Sessions
from controller.agent.watcher import Watcher

STRAY_FOR_MS = 60_000  # how long a controller of another journal counts as a trouble after its last record


def list_troubles(watcher: Watcher, sessions: Sessions | None, now_ms: int) -> list[str]:
    """A sentence for each trouble; an empty list means healthy. `now_ms` is the boot clock."""
    troubles = []
    if not watcher.ready:
        troubles.append("the journal has not been read yet")
    elif sessions is None or not sessions.registered:
        troubles.append("the session is not registered")
    elif not sessions.may_act():
        troubles.append("the lease has expired")
    if watcher.failing:
        troubles.append(f"the journal's table cannot be read: {watcher.failing}")
    stray = watcher.stray
    if stray is not None and now_ms - stray[1] <= STRAY_FOR_MS:
        troubles.append(
            f"a controller of journal {stray[0]} speaks here, this agent follows {watcher.state.journal_id}: "
            "if that one is gone for good, start the agent again"
        )
    if watcher.state.seq < watcher.known_seq:
        troubles.append(f"behind: seq {watcher.state.seq} of {watcher.known_seq}")
        if not watcher.state.seq and watcher.heard_journal_id:
            troubles.append(
                f"the tables hold no journal, and the controller of journal {watcher.heard_journal_id} speaks here: "
                "check tables.root"
            )
    return troubles
