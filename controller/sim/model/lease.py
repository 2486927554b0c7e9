"""The lease of one session in time: clocks that drift, heartbeats under way, a controller that restarts.

It answers one question for the model of ownership, which has no time: can the controller end a session whose agent
still counts its lease as valid? Agent's lease and controller's expiry are the real ones; times are a few ms, relative
to now. Within a lease the controller's clock gains at most DRIFT_MS on the agent's, or loses as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from controller.agent.session.lease import Lease
from controller.control.context import Batch, Context
from controller.control.lease_expiry import expire_leases
from controller.control.watch import Watch
from controller.domain.ids import Session
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import Broker, ClusterState
from controller.sim.model.explore import Step

LEASE_MS, MARGIN_MS, DRIFT_MS = 3, 2, 2
NOW_MS = 1_000
SESSION = Session("a:1", 1, "n", 1)
NO_BEAT, SENT, APPENDED, READ, ACKNOWLEDGED = range(5)  # READ: not acknowledged; ACKNOWLEDGED: not read


class Timed(NamedTuple):
    """A session. `drift` and `gained`: ms by which the controller's clock has gained on the agent's since the heartbeat
    was sent from which the lease counts, and since the one under way was."""

    left_ms: int  # of the agent's lease, by its clock; 0: it has expired
    quiet_ms: int  # since the controller heard the session, by its own
    drift: int
    beat: int  # what has become of the heartbeat under way
    age_ms: int  # since it was sent, by the agent's clock
    gained: int
    ended: bool = False


class LeaseModel:
    """All behaviours of one session while its agent runs."""

    def __init__(self, bug: str = "") -> None:
        self._bug = bug
        self._allowance_ms = LEASE_MS + (0 if bug == "no_margin" else MARGIN_MS)
        self._settings = ControlSettings(lease_ms=LEASE_MS, margin_ms=self._allowance_ms - LEASE_MS)
        self._expired = [self._expires(quiet_ms) for quiet_ms in range(self._allowance_ms + 2)]

    def start(self) -> Timed:
        """The first heartbeat has been sent, read and acknowledged within the same ms."""
        return Timed(LEASE_MS, 0, 0, NO_BEAT, 0, 0)

    def code(self, state: Timed) -> Timed:
        """Its normal form: beyond the lease, how long ago something was does not matter."""
        quiet_ms = min(state.quiet_ms, self._allowance_ms + 1)
        if state.beat == NO_BEAT:
            return state._replace(quiet_ms=quiet_ms, age_ms=0, gained=0)
        return state._replace(quiet_ms=quiet_ms, age_ms=min(state.age_ms, LEASE_MS))

    def steps(self, state: Timed, coded: bool = True) -> Iterator[Step]:
        """What may happen next."""
        for text, after in [*self._pass_time(state), *self._beat(state), *self._control(state)]:
            yield Step(text, 0, self.code(after))

    def breach(self, state: Timed) -> str:
        """The answer."""
        return "a lease ends while its agent counts it as valid" if state.ended and state.left_ms else ""

    def is_settled(self, state: Timed) -> bool:
        """Liveness is no question of the lease."""
        return True

    def tell(self, before: Timed, step: Step) -> str:
        """A step in words."""
        after: Timed = step.state
        return f"{step.label} (agent: {after.left_ms} ms left; controller: heard {after.quiet_ms} ms ago)"

    # ---------------------------------------------------------------- inside

    def _pass_time(self, state: Timed) -> Iterator[tuple[str, Timed]]:
        agent = state._replace(left_ms=max(0, state.left_ms - 1), age_ms=state.age_ms + 1)
        yield "1 ms passes", agent._replace(quiet_ms=state.quiet_ms + 1)
        if max(state.drift, state.gained) < DRIFT_MS:
            yield (
                "the controller's clock gains 1 ms",
                state._replace(quiet_ms=state.quiet_ms + 1, drift=state.drift + 1, gained=state.gained + 1),
            )
        if min(state.drift, state.gained) > -DRIFT_MS:
            yield "the agent's clock gains 1 ms", agent._replace(drift=state.drift - 1, gained=state.gained - 1)

    def _beat(self, state: Timed) -> Iterator[tuple[str, Timed]]:
        if state.beat == NO_BEAT and state.left_ms:
            yield "the agent sends a heartbeat", state._replace(beat=SENT, age_ms=0, gained=0)
        if state.beat == SENT:
            yield "Kafka appends the heartbeat", state._replace(beat=APPENDED)
        if state.beat in (APPENDED, ACKNOWLEDGED):
            after = READ if state.beat == APPENDED else NO_BEAT
            yield "the controller reads the heartbeat", state._replace(beat=after, quiet_ms=0)
        if state.beat in (APPENDED, READ):
            after = ACKNOWLEDGED if state.beat == APPENDED else NO_BEAT
            yield "the agent reads the acknowledgement", self._renew(state)._replace(beat=after)

    def _renew(self, state: Timed) -> Timed:
        counted_ms = 0 if self._bug == "lease_from_acknowledgement" else state.age_ms
        lease = Lease(LEASE_MS, NOW_MS - LEASE_MS + state.left_ms)
        lease.renew(NOW_MS - counted_ms, NOW_MS)
        left_ms = lease.remaining_ms(NOW_MS)
        if self._bug == "lease_revives":
            left_ms = max(left_ms, LEASE_MS - counted_ms)
        return state._replace(left_ms=left_ms, drift=state.gained if left_ms > state.left_ms else state.drift)

    def _control(self, state: Timed) -> Iterator[tuple[str, Timed]]:
        read_all = state.beat not in (APPENDED, ACKNOWLEDGED)  # the step ends leases only once it has read to the end
        if read_all and not state.ended and self._expired[state.quiet_ms]:
            yield "the controller ends the lease", state._replace(ended=True)
        beat = {APPENDED: READ, ACKNOWLEDGED: NO_BEAT}.get(state.beat, state.beat)  # it reads from the topic's end on
        quiet_ms = state.quiet_ms if self._bug == "restart_keeps_silence" else 0
        if (beat, quiet_ms) != (state.beat, state.quiet_ms):
            yield "the controller restarts", state._replace(beat=beat, quiet_ms=quiet_ms)

    def _expires(self, quiet_ms: int) -> bool:
        """Whether the control step ends a session that it heard so long ago."""
        state = ClusterState(seq=1, brokers={SESSION.broker: Broker(SESSION.broker, SESSION)}, sessions={SESSION: 1})
        watch = Watch(heard={SESSION: NOW_MS - quiet_ms})
        ctx = Context(state, watch, Batch([], {}, 1, "model", 0), NOW_MS, self._settings)
        expire_leases(ctx)
        return SESSION not in ctx.state.sessions
