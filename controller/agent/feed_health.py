"""Whether this agent still receives the journal. Pure; times are ms of the boot clock.

An agent that cannot apply a seq it knows of for one lease, or cannot fetch from Kafka for that long, would never learn
that it lost a bundle, so it must end its session. Silence alone proves nothing: the controller may be down, and brokers
then keep serving. After some silence the agent therefore sends a probe, an ordinary inventory, which must come back.
"""

from __future__ import annotations

from enum import Enum


class Hearing(str, Enum):
    """What to do now."""

    FINE = "fine"
    PROBE = "probe"  # send something on broker-events that must come back
    END_SESSION = "end_session"


class FeedHealth:
    """Judges the reader of `broker-events` and `journal-feed`."""

    def __init__(self, lease_ms: int, now_ms: int, jitter: float = 0.0) -> None:
        """`jitter` in 0..1 spreads the probes: the first agent's probe proves to all others that fetching works."""
        self._lease_ms = lease_ms
        self._quiet_ms = lease_ms * (0.25 + 0.15 * jitter)
        self._heard_ms = now_ms
        self._probed_ms: int | None = None
        self._probe_acked_ms: int | None = None
        self._goal_seq = 0
        self._behind_ms: int | None = None
        self.reason = ""

    def on_record(self, now_ms: int) -> None:
        """A record was fetched, whichever it is."""
        self._heard_ms, self._probed_ms, self._probe_acked_ms = now_ms, None, None

    def on_probe_acked(self, now_ms: int) -> None:
        """Kafka has acknowledged the probe, which must now be fetched within a lease."""
        if self._probed_ms is not None and self._probe_acked_ms is None:
            self._probe_acked_ms = now_ms

    def on_seq(self, known_seq: int, applied_seq: int, now_ms: int) -> None:
        """The newest seq known and the newest applied. The former may decrease: a forged one is corrected."""
        self._goal_seq = min(self._goal_seq, known_seq)
        if applied_seq >= known_seq:
            self._behind_ms = None
        elif self._behind_ms is None or applied_seq >= self._goal_seq:
            self._behind_ms, self._goal_seq = now_ms, known_seq

    def hears(self, since_ms: int) -> bool:
        """Whether a record was fetched since then and every known seq is applied."""
        return self._heard_ms > since_ms and self._behind_ms is None

    def judge(self, now_ms: int) -> Hearing:
        """What to do now. Call this at least four times a lease."""
        if self._behind_ms is not None and now_ms - self._behind_ms >= self._lease_ms:
            self.reason = f"seq {self._goal_seq} could not be applied for {now_ms - self._behind_ms} ms"
            return Hearing.END_SESSION
        silent_ms = now_ms - self._heard_ms
        acked = self._probe_acked_ms
        if acked is not None and silent_ms >= self._lease_ms and now_ms - acked >= self._lease_ms // 2:
            self.reason = f"nothing fetched from Kafka for {silent_ms} ms, although it takes records"
            return Hearing.END_SESSION
        if silent_ms >= self._quiet_ms and (self._probed_ms is None or now_ms - self._probed_ms >= self._lease_ms // 3):
            self._probed_ms = now_ms
            return Hearing.PROBE
        return Hearing.FINE
