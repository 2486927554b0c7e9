"""The lease of one session. Pure: the caller reads the clock (CLOCK_BOOTTIME, ms) and passes it in.

Invariant: an expired lease stays expired; the agent drops everything and starts the next session. The agent counts from
before the *first* send of an acknowledged heartbeat, the controller from reading that heartbeat, so the lease always
expires for the agent first.
"""

from __future__ import annotations


class Lease:
    """Valid from the session's first heartbeat until `length_ms` after the newest acknowledged one."""

    def __init__(self, length_ms: int, started_ms: int) -> None:
        """`started_ms`: the boot clock before the session's first heartbeat was sent.

        An unacknowledged first heartbeat counts too: if Kafka has appended it, the controller counts it.
        """
        if length_ms <= 0:
            raise ValueError(f"a lease of {length_ms} ms cannot live; set lease_ms above 0")
        self.length_ms = length_ms
        self._until_ms = started_ms + length_ms
        self._expired = False

    @property
    def until_ms(self) -> int:
        """When the lease expires unless a heartbeat is acknowledged before, on the boot clock."""
        return self._until_ms

    def renew(self, first_send_ms: int, now_ms: int) -> bool:
        """Extend the lease for an acknowledged heartbeat; `first_send_ms` was read before its first send.

        Returns False once the lease has expired.
        """
        if self.has_expired(now_ms):
            return False
        self._until_ms = max(self._until_ms, first_send_ms + self.length_ms)
        return True

    def end(self) -> None:
        """Expire the lease now, because the agent ends the session itself."""
        self._expired = True

    def has_expired(self, now_ms: int) -> bool:
        """Whether the lease has expired. The first True is final, whatever the clock says later."""
        self._expired = self._expired or now_ms >= self._until_ms
        return self._expired

    def remaining_ms(self, now_ms: int) -> int:
        """Time until the lease expires without another acknowledgement; 0 once it has."""
        return 0 if self.has_expired(now_ms) else self._until_ms - now_ms
