"""A simulated agent: the real lease, registration and hand-over cores with a simulated broker and store.

Only the surroundings are simulated: messages are delayed, processes pause, crash and restart, the journal lags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from controller.agent.handover import actions as do
from controller.agent.handover.actions import Action, Answer, Cancel, Outcome, Reopen, Work
from controller.agent.handover.core import HandoverCore
from controller.agent.session.lease import Lease
from controller.agent.session.registration import REPLACED, Standing, first_session, judge, next_session
from controller.domain.apply import fold
from controller.domain.entries import Entry
from controller.domain.errors import Fenced
from controller.domain.events import BrokerEvent, Heartbeat
from controller.domain.ids import Bundle, Session

if TYPE_CHECKING:
    from controller.sim.ownership.cluster import SimCluster


class SimAgent:
    """One broker process. `serves`: what its broker really serves, whatever anybody believes."""

    def __init__(self, cluster: SimCluster, broker: str, nonce: str) -> None:
        self.cluster = cluster
        self.broker = broker
        self.state = cluster.state.copy()  # bootstrap from the table: current at this moment
        self.session: Session = first_session(self.state, broker, nonce)
        self.lease = Lease(cluster.settings.lease_ms, cluster.now_ms)
        self.core = self._new_core()
        self.registered = False
        self.alive = True
        self.paused_until_ms = 0
        self.hung_until_ms = 0  # heartbeats go out, nothing else happens
        self.reads_journal = True  # otherwise it acts on what it knows, and falls behind
        self.serves: dict[Bundle, int] = {}
        self.inbox: list[Entry] = []
        self.running: dict[Bundle, Work] = {}
        self.refusing = False
        self.leaving = False

    def _new_core(self) -> HandoverCore:
        return HandoverCore(self.session, lambda bundle: "304_broker_cap" if self.refusing or self.leaving else None)

    @property
    def acting(self) -> bool:
        """Whether the process runs at this moment."""
        return self.alive and self.cluster.now_ms >= self.paused_until_ms

    def serving_now(self) -> dict[Bundle, int]:
        """What it serves, fenced or not: nothing once the process is dead or its lease has expired."""
        if not self.alive or self.lease.has_expired(self.cluster.now_ms):
            return {}
        return self.serves

    # ------------------------------------------------------------ what happens to it

    def beat(self) -> None:
        """Send a heartbeat; it is acknowledged at once unless Kafka is cut off."""
        if not self.acting or self._end_expired_session():
            return
        now = self.cluster.now_ms
        if not self.cluster.is_kafka_cut(self.broker):
            self.cluster.send_heartbeat(Heartbeat(self.session, self.state.seq))
            self.lease.renew(now, now)

    def receive(self, entries: Sequence[Entry]) -> None:
        """Receive journal entries, in order but perhaps late."""
        self.inbox += entries
        self.work()

    def hear_released(self, bundle: Bundle, epoch: int, by: Session) -> None:
        """Receive an event `released` of another agent, directly from Kafka."""
        if self._can_act() and self.registered:
            self._do(self.core.on_released(bundle, epoch, by, self.cluster.now_ms))

    def work(self) -> None:
        """Apply entries that have arrived and repeat actions that are due."""
        if not self._can_act():
            return
        fresh = [e for e in self.inbox if e.seq > self.state.seq] if self.reads_journal else []
        self.inbox = [] if self.reads_journal else self.inbox
        if fresh:
            self.state = fold(self.state, fresh)
        self._judge()
        if self.alive and self.registered:
            if fresh:
                self._do(self.core.on_entries(fresh, self.state, self.cluster.now_ms))
            self._do(self.core.tick(self.cluster.now_ms))

    def inventory(self) -> None:
        """Send the full inventory."""
        if self._can_act() and self.registered:
            listed = {str(b): e for b, e in self.core.inventory().items()}
            self.cluster.send(BrokerEvent("inventory", self.session, self.state.seq, serving=listed))

    def leave(self) -> None:
        """Leave gracefully: send `leaving` every second until the journal names it no more, then `goodbye`, and end."""
        self.leaving = True
        if not self.alive:
            return
        if self._can_act() and self.registered and self._empty():
            self.cluster.send(BrokerEvent("goodbye", self.session, self.state.seq))
            self._drop_all()
            self.alive = False
            return
        if self._can_act() and self.registered:
            self.cluster.send(BrokerEvent("leaving", self.session, self.state.seq))
        self.cluster.after(1_000, self.leave)

    def _empty(self) -> bool:
        return (
            self.state.brokers[self.broker].leaving
            and not self.running
            and not self.state.holdings.bundles_naming(self.session)
        )

    def crash(self) -> None:
        """End at once, as after SIGKILL."""
        self.alive = False
        self.serves.clear()

    # ------------------------------------------------------------ inside

    def _can_act(self) -> bool:
        if not self.acting or self.cluster.now_ms < self.hung_until_ms:
            return False
        return not self._end_expired_session()

    def _end_expired_session(self) -> bool:
        """Whether the lease has expired; if so, drop everything and take the next session."""
        if not self.lease.has_expired(self.cluster.now_ms):
            return False
        self._drop_all()
        self.session = next_session(self.session)
        self.lease = Lease(self.cluster.settings.lease_ms, self.cluster.now_ms)
        self.core, self.registered = self._new_core(), False
        return True

    def _judge(self) -> None:
        standing = judge(self.state, self.session).standing
        if standing in REPLACED:
            self._drop_all()
            self.alive = False
        elif standing is Standing.ENDED:
            self.lease.end()
            self._end_expired_session()
        elif standing is Standing.REGISTERED and not self.registered:
            self.registered = True
            self._do(self.core.resync(self.state, self.cluster.now_ms))

    def _drop_all(self) -> None:
        self.core.end()
        self.running.clear()
        self.serves.clear()

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Answer):
                event = BrokerEvent(
                    action.kind, self.session, self.state.seq, action.bundle, action.epoch, reason=action.reason
                )
                self.cluster.send(event)
            elif isinstance(action, Cancel):
                work = self.running.pop(action.bundle, None)
                if work is not None:
                    self._do(self.core.on_done(work, Outcome.CANCELLED, self.cluster.now_ms))
            elif not isinstance(action, Reopen):
                self.running[action.bundle] = action
                self.cluster.after(self.cluster.random_ms(1, 30), self._finisher(action, self.session))

    def _finisher(self, work: Work, session: Session) -> Callable[[], None]:
        def finish() -> None:
            if not self.acting or self.session != session or self.running.get(work.bundle) is not work:
                return
            if self._end_expired_session():
                return
            del self.running[work.bundle]
            self._do(self.core.on_done(work, self._carry_out(work), self.cluster.now_ms))

        return finish

    def _acquire(self, bundle: Bundle, epoch: int) -> bool:
        try:
            self.cluster.store.raise_to(bundle, epoch)
        except Fenced:
            return False
        return True

    def _carry_out(self, work: Work) -> Outcome:
        """Do what broker and store would do."""
        if isinstance(work, do.Serve):
            if not self._acquire(work.bundle, work.epoch):
                self.serves.pop(work.bundle, None)
                return Outcome.FENCED
            self.serves[work.bundle] = work.epoch
            self.cluster.taken = True
        elif isinstance(work, do.Fence):
            if not self._acquire(work.bundle, work.epoch):
                return Outcome.FAILED
        elif isinstance(work, do.Split):
            self.serves.pop(work.bundle, None)
            for child, epoch in work.children.items():
                if self._acquire(child, epoch):
                    self.serves[child] = epoch
                    self.cluster.taken = True
        elif isinstance(work, do.Release | do.Drop):
            self.serves.pop(work.bundle, None)
        return Outcome.DONE
