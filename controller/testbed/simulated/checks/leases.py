"""A lease that has expired never lives again, and the producer's thread does not touch one.

The thread that tells of an answer runs beside the loop that asks the lease: between that loop's question and what it
does then, nothing may change. Looked at whenever Kafka answers an agent.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.agent.session.lease import Lease
from controller.testbed.simulated.broker import SimBroker


class Leases:
    """Of one run. `breach` is told of a lease that changes when it must not."""

    def __init__(self, breach: Callable[[str], None]) -> None:
        self._breach = breach
        self._newest: dict[SimBroker, Lease] = {}
        self._over: dict[SimBroker, tuple[Lease, int]] = {}  # of one that is over, or its session is: its end is final

    def answer(self, one: SimBroker, tell: Callable[[], None]) -> None:
        """Kafka answers an agent, whose producer's thread is to `tell` it."""
        sessions = one.agent.sessions
        if sessions is None:
            return tell()
        self._look(one, sessions.lease)
        until_ms = sessions.lease.until_ms
        tell()
        if sessions.lease.until_ms != until_ms:
            self._breach(f"the lease of {sessions.current} is renewed in the producer's thread")
        return None

    def _look(self, one: SimBroker, lease: Lease) -> None:
        over = self._over.get(one)
        if over is not None and over[0].until_ms != over[1]:
            self._breach(f"a lease of {one.broker} was over at {over[1]} ms, and ends at {over[0].until_ms} ms now")
        newest = self._newest.get(one, lease)
        if newest is not lease or lease.until_ms <= one.boot_ms():
            self._over[one] = newest, newest.until_ms
        self._newest[one] = lease
