"""Whether another process runs this broker already: heard by a starting one, before it says a word.

A process counts once two of its heartbeats were heard: one may have been on its way when the process was killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from controller.agent.watcher import Read
from controller.domain.errors import BadRecord
from controller.domain.events import Heartbeat, parse_heartbeat

HEARD_TWICE = 2


class Rivals:
    """Listens for one broker id. `take` is called in the reader's thread, `living` in any."""

    def __init__(self, broker: str, nonce: str) -> None:
        """`nonce`: of the own process, which is no rival."""
        self._broker, self._nonce = broker, nonce
        self._beats: dict[tuple[str, int, str], int] = {}
        self.living: Heartbeat | None = None

    def take(self, records: Sequence[Read]) -> None:
        """A batch of the heartbeats topic."""
        for record in records:
            try:
                beat = parse_heartbeat(record.value)
            except BadRecord:
                continue
            if isinstance(beat, Heartbeat) and beat.session.broker == self._broker:
                self._count(beat)

    def _count(self, beat: Heartbeat) -> None:
        process = beat.session.process
        if beat.session.nonce != self._nonce:
            self._beats[process] = self._beats.get(process, 0) + 1
            if self._beats[process] >= HEARD_TWICE:
                self.living = beat


def told(beat: Heartbeat) -> str:
    """Who it is and what to do, in one line."""
    info = beat.info
    where = f"pid {info['pid']} on {info.get('host') or 'a host it does not name'}" if info.get("pid") else ""
    since = f" since {_time_text(info['started_ms'])}" if isinstance(info.get("started_ms"), int) else ""
    who = f"{where or info.get('lookup_url') or 'an agent of an older version'}{since}, session {beat.session}"
    return f"another process is broker {beat.session.broker} and alive: {who}; stop it first, or start with --take-over"


def _time_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
