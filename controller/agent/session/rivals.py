"""Whether another process already runs this broker: a starting agent listens for its heartbeats before sending any.

A process counts once two of its heartbeats were read: a single one may have been in flight when the process was killed.
The same one may be read twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timezone

from controller.agent.connections import Read, Reader
from controller.domain.errors import BadRecord, label, shown
from controller.domain.events import Heartbeat, parse_heartbeat
from controller.domain.state import ClusterState

HEARD_TWICE = 2
REMEMBERED = 64  # heartbeats: what a reader whose connection was made anew may read once more
LOOK_AGAIN_S = 0.1


class Once:
    """Tells records that were read before."""

    def __init__(self) -> None:
        self._read: deque[bytes] = deque(maxlen=REMEMBERED)

    def is_new(self, value: bytes) -> bool:
        """Whether this is none of the last ones; it is from now on."""
        if value in self._read:
            return False
        self._read.append(value)
        return True


class Rivals:
    """Counts the heartbeats of one broker id. `take` is called in the reader's thread, `living` is read in any."""

    def __init__(self, broker: str, nonce: str) -> None:
        """`nonce`: that of this very process, which is no rival."""
        self._broker, self._nonce = broker, nonce
        self._beats: dict[tuple[str, int, str], int] = {}
        self._once = Once()
        self.living: Heartbeat | None = None

    def take(self, records: Sequence[Read]) -> None:
        """Count a batch of the heartbeats topic."""
        for record in records:
            try:
                beat = parse_heartbeat(record.value)
            except BadRecord:
                continue
            if isinstance(beat, Heartbeat) and beat.session.broker == self._broker and self._once.is_new(record.value):
                self._count(beat)

    async def listen(
        self, reader: Reader, state: Callable[[], ClusterState], lease_ms: int, boot_ms: Callable[[], int]
    ) -> Heartbeat | None:
        """Listen for one lease; returns a rival's heartbeat, or None when there is none.

        Ends early once the journal names no living session of the broker: it deregistered, or its lease expired. Starts
        and stops `reader`, which passes its batches to `take`.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, reader.start)
        try:
            until_ms = boot_ms() + lease_ms
            while boot_ms() < until_ms and state().session_of(self._broker) is not None:
                if self.living is not None:
                    return self.living
                await asyncio.sleep(LOOK_AGAIN_S)
            return None
        finally:
            await loop.run_in_executor(None, reader.stop)

    def _count(self, beat: Heartbeat) -> None:
        process = beat.session.process
        if beat.session.nonce != self._nonce:
            self._beats[process] = self._beats.get(process, 0) + 1
            if self._beats[process] >= HEARD_TWICE:
                self.living = beat


def describe_rival(beat: Heartbeat) -> str:
    """Who the rival is and what to do about it, in one line."""
    url = beat.info.get("lookup_url")
    where = describe_process(beat) or (label(url) if isinstance(url, str) and url else "an agent of an older version")
    who = f"{where}{_format_since(beat.info.get('started_ms'))}, session {beat.session}"
    return f"another process is broker {beat.session.broker} and alive: {who}; stop it first, or start with --take-over"


def describe_process(beat: Heartbeat) -> str:
    """The process behind a heartbeat, as it says itself; empty where it names none."""
    pid, host = beat.info.get("pid"), beat.info.get("host")
    if not pid:
        return ""
    return f"pid {shown(pid)} on {label(host) if isinstance(host, str) and host else 'a host it does not name'}"


def _format_since(ms: object) -> str:
    try:
        began = datetime.fromtimestamp(ms / 1000, timezone.utc) if isinstance(ms, int) else None
    except (OverflowError, ValueError, OSError):  # no year of ours
        return f" since {shown(ms)} ms"
    return "" if began is None else f" since {began:%Y-%m-%d %H:%M:%S} UTC"
