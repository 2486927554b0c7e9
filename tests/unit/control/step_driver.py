"""A controller for tests: feeds events to the real `step`, keeps state and watch, advances a clock by hand.

driver = StepDriver()
a = driver.join("a:1")
driver.command("create_namespace", namespace="t/n", bundles=4)
driver.say(a, "serving", bundle)
"""

from __future__ import annotations

import dataclasses
from typing import Any

from controller.control.step import Batch, StepResult, Watch, step
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.events import AssignRequest, BrokerEvent, Command, Event, Heartbeat, RoundFinished
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState
from controller.sim.ownership.invariants import check_state


class StepDriver:
    def __init__(self, settings: ControlSettings | None = None, mode: str = "live") -> None:
        self.settings = settings or ControlSettings()
        self.state = ClusterState()
        self.now_ms = 1_000_000
        self.read_later_ms = 0  # than the time as of which a batch is judged
        self.batches = 0
        self.journal: list[Entry] = []
        self.sessions: dict[str, Session] = {}
        self.silent: set[str] = set()
        self.commands = 0
        self.state = fold(self.state, [Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0)])
        self.journal_base = 1
        self.watch = Watch.fresh(self.state, self.now_ms, self.settings)
        self.command("mode", mode=mode)

    def run(self, *events: Event, beats: bool = True) -> list[Entry]:
        """One batch; every joined broker that is not silent beats first."""
        heartbeats: list[Event] = []
        if beats:
            heartbeats = [
                Heartbeat(s, self.state.seq) for b, s in sorted(self.sessions.items()) if b not in self.silent
            ]
        self.batches += 1
        batch = Batch(heartbeats + list(events), {"t": {"0": self.batches}}, self.batches, "i", 0)
        batch = dataclasses.replace(batch, read_ms=self.now_ms + self.read_later_ms)
        before = self.state
        result: StepResult = step(before, self.watch, batch, self.now_ms, self.settings)
        assert fold(before, result.entries) == result.state
        check_state(before, result.state)
        self.state = result.state
        self.evidence, self.decided = result.evidence, result.decided
        self.journal += result.entries
        return [e for e in result.entries if e.kind is not Kind.OFFSETS]

    def restart(self) -> None:
        """A new controller on the same journal."""
        self.watch = Watch.fresh(self.state, self.now_ms, self.settings)

    def join(self, broker: str, incarnation: int = 1, nonce: str = "n1", number: int = 1, **info: Any) -> Session:
        session = Session(broker, incarnation, nonce, number)
        self.run(Heartbeat(session, self.state.seq, info))
        self.sessions[broker] = session
        self.silent.discard(broker)
        return session

    def wait(self, ms: int, step_ms: int = 500) -> list[Entry]:
        """Let time pass in small batches with heartbeats of everybody who is not silent."""
        entries: list[Entry] = []
        for _ in range(max(1, ms // step_ms)):
            self.now_ms += step_ms
            entries += self.run()
        return entries

    def command(self, kind: str, **args: Any) -> list[Entry]:
        self.commands += 1
        return self.run(Command(f"c{self.commands}", kind, args, "tester", "test"))

    def lookup(self, bundle: Bundle) -> list[Entry]:
        return self.run(AssignRequest("any:1", bundle))

    def say(self, session: Session, kind: str, bundle: Bundle | None = None, **more: Any) -> list[Entry]:
        epoch = more.pop("epoch", self.of(bundle).epoch if bundle is not None else None)
        applied = more.pop("applied_seq", self.state.seq)
        return self.run(BrokerEvent(kind, session, applied, bundle, epoch, **more))

    def round(self, result: Any) -> list[Entry]:
        return self.run(RoundFinished(result))

    def of(self, bundle: Bundle | str) -> Ownership:
        return self.state.bundles[str(bundle)]

    def own(self, session: Session, bundle: Bundle) -> None:
        """Bring a bundle to `owned(session)` by the protocol, whatever placement chose first."""
        if self.of(bundle).state is State.FREE:
            self.lookup(bundle)
            grantee = self.of(bundle).to
            assert grantee is not None
            self.say(grantee, "serving", bundle)
        owner = self.of(bundle).by
        assert owner is not None
        if owner != session:
            self.command("unload_bundle", bundle=str(bundle), to=session.broker)
            self.say(session, "accepted", bundle)
            self.say(owner, "released", bundle)
            self.say(session, "serving", bundle)
        assert self.of(bundle).state is State.OWNED
        assert self.of(bundle).by == session


def with_settings(**changes: Any) -> ControlSettings:
    return dataclasses.replace(ControlSettings(), **changes)
