"""The mass-failure breaker trips when it has to, and only then: counted again, from the journal and the true time.

A controller remembers the brokers whose leases it ended within the window; those are gone until they register again.
When their share, with those that are silent now, exceeds the limit, it ends no lease more. The window is measured by
the controller's own clock, so what lies at its edge counts for neither verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

from controller.domain.entries import Entry, Kind
from controller.domain.ids import Session
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState

EDGE = 0.1  # of the window: clocks drift, and a batch takes its time
EDGE_MS = 2_000.0


class Breaker:
    """Of one run. `breach` is told of a wrong verdict; `lives`: whether a session holds a lease at this moment."""

    def __init__(
        self, settings: ControlSettings, breach: Callable[[str], None], lives: Callable[[Session], bool]
    ) -> None:
        self._settings, self._breach, self._lives = settings, breach, lives
        self._ended: dict[str, list[tuple[float, str]]] = defaultdict(list)  # instance -> when, broker

    def commits(self, entries: Sequence[Entry], before: ClusterState, now_ms: float) -> None:
        """A controller has committed these entries."""
        sessions = dict.fromkeys(before.sessions)
        judged = False
        for entry in entries:
            remembered = self._ended[entry.instance]
            if entry.kind is Kind.CONTROLLER_STARTED:
                remembered[:] = [(now_ms, broker) for broker in before.silent if before.session_of(broker) is None]
            elif entry.kind is Kind.REGISTERED:
                session = Session.parse(str(entry.session))
                sessions[session] = None
                remembered[:] = [(at, broker) for at, broker in remembered if broker != session.broker]
            elif entry.kind is Kind.GUARD:
                if entry.data["frozen"]:
                    self._judge_trip(entry, remembered, sessions, now_ms)
                elif before.thawing:
                    remembered.clear()
            elif entry.kind is Kind.SESSION_ENDED:
                session = Session.parse(str(entry.session))
                if entry.reason == "lease":
                    if not judged and not before.thawing:
                        judged = True
                        self._judge_calm(remembered, _silent_in(entries, sessions), sessions, now_ms)
                    remembered.append((now_ms, session.broker))
                sessions.pop(session, None)

    def _judge_calm(
        self, remembered: list[tuple[float, str]], silent: set[str], sessions: dict[Session, None], now_ms: float
    ) -> None:
        """It has not tripped, and ends the leases of the silent."""
        living = {session.broker for session in sessions}
        window_ms = self._settings.guard_window_ms * (1 - EDGE) - EDGE_MS
        gone = silent | {broker for at, broker in remembered if now_ms - at < window_ms and broker not in living}
        if self._is_much(len(gone), len(living | gone)):
            self._breach(
                f"leases of {sorted(silent)} are ended although {sorted(gone)} of {sorted(living | gone)} are gone"
            )

    def _judge_trip(
        self, entry: Entry, remembered: list[tuple[float, str]], sessions: dict[Session, None], now_ms: float
    ) -> None:
        gone, alive = list(entry.data["silent"]), int(entry.data["alive"])
        if not self._is_much(len(gone), len(gone) + alive):
            self._breach(f"the breaker trips although only {gone} of {len(gone) + alive} are gone")
        window_ms = self._settings.guard_window_ms * (1 + EDGE) + EDGE_MS
        recently = {broker for at, broker in remembered if now_ms - at < window_ms}
        for broker in gone:
            newest = _newest_of(broker, sessions)
            if newest is None and broker not in recently:
                self._breach(f"the breaker counts {broker} as silent, which ended long ago")
            if newest is not None and self._lives(newest):
                self._breach(f"the breaker counts {broker} as silent, which lives as {newest}")

    def _is_much(self, gone: int, known: int) -> bool:
        settings = self._settings
        return known >= settings.guard_min_brokers and gone > settings.guard_silent_fraction * known


def _silent_in(entries: Sequence[Entry], sessions: Collection[Session]) -> set[str]:
    """The brokers whose newest session ends with its lease in a batch: those are all that it found silent."""
    ended = (entry for entry in entries if entry.kind is Kind.SESSION_ENDED and entry.reason == "lease")
    silent = (Session.parse(str(entry.session)) for entry in ended)
    return {session.broker for session in silent if session == _newest_of(session.broker, sessions)}


def _newest_of(broker: str, sessions: Collection[Session]) -> Session | None:
    theirs = (session for session in sessions if session.broker == broker)
    return max(theirs, key=lambda session: (session.incarnation, session.number), default=None)
