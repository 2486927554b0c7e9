"""The lease of one session. Pure: the caller notes the clock (CLOCK_BOOTTIME, ms) and passes it in.

Invariant: once lapsed, a lease never lives again; the agent drops everything and starts the next session. The lease
counts from before the *first* send of an acknowledged heartbeat, so the agent has always lapsed before the controller,
which counts from reading the same heartbeat.
"""

from __future__ import annotations


class Lease:
    """Lives from the session's first heartbeat for `length_ms` beyond the newest acknowledged one."""

    def __init__(self, length_ms: int, started_ms: int) -> None:
        """`started_ms`: boot clock before the first heartbeat of the session was sent.

        An unacknowledged first heartbeat counts too: it may have been appended, and then the controller counts it.
        """
        if length_ms <= 0:
            raise ValueError(f"a lease of {length_ms} ms cannot live; set lease_ms above 0")
        self.length_ms = length_ms
        self._until_ms = started_ms + length_ms
        self._lapsed = False

    @property
    def until_ms(self) -> int:
        """The boot clock's value at which the lease lapses unless a heartbeat is acknowledged before."""
        return self._until_ms

    def renew(self, first_send_ms: int, now_ms: int) -> bool:
        """A heartbeat was acknowledged; `first_send_ms` was noted before its first send. False once lapsed."""
        if self.lapsed(now_ms):
            return False
        self._until_ms = max(self._until_ms, first_send_ms + self.length_ms)
        return True

    def end(self) -> None:
        """End it now: the agent ends its own session (goodbye, cut from the journal)."""
        self._lapsed = True

    def lapsed(self, now_ms: int) -> bool:
        """Whether it has lapsed. Having been seen lapsed once is final."""
        self._lapsed = self._lapsed or now_ms >= self._until_ms
        return self._lapsed

    def remaining_ms(self, now_ms: int) -> int:
        """How long it lives without another acknowledgement; 0 once lapsed."""
        return 0 if self.lapsed(now_ms) else self._until_ms - now_ms
