"""Three agents, a controller and a hostile scheduler: no two agents ever serve one hash, and nothing gets stuck.

The scheduler delays every agent's reading, every call of its runtime and every event at will, repeats and reorders
`released` events, lets leases expire, fails and cancels calls. Nothing fences: only the protocol keeps owners apart.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.agent.handover import actions as do
from controller.agent.handover.actions import Answer, Outcome
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State
from tests.examples import examples
from tests.unit.agent.agent_world import WHOLE, Journal, MiniController, ModelAgent

NAMES = ("a:1", "b:1", "c:1")
# What the scheduler may do next, and how often: progress is common, faults are rare, so that walks get deep.
WEIGHTS = {
    "read": 12, "finish": 10, "hear": 8, "control": 14, "tick": 4, "hear_again": 2, "fail": 1, "expire": 0.4,
    "end_session": 2, "register": 2, "assign": 3, "transfer": 3, "unload": 0.6, "split": 0.4, "deadline": 0.8,
}  # fmt: skip
STEPS = 800


class HandoverWorld:
    """Each method of `WEIGHTS` is one step of the scheduler."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.journal = Journal()
        self.controller = MiniController(self.journal)
        self.agents = [ModelAgent(Session(name, 1, f"n{i}", 1)) for i, name in enumerate(NAMES)]
        self.events: list[tuple[Session, Answer]] = []  # unread by the controller, in Kafka's order
        self.released: list[tuple[Session, Answer]] = []  # all of them: agents read at their own pace, and again
        self.heard = [0, 0, 0]
        self.splits = 0
        for agent in self.agents:
            self.journal.register(agent.session)
        self.journal.namespace(*random.choice([[WHOLE], WHOLE.split_at(WHOLE.middle())]))

    def walk(self) -> None:
        """Steps at random, the invariants checked after each; then everybody catches up."""
        for step in self.random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS):
            getattr(self, step)()
            self.i1_one_session_serves_a_hash()
            self.an_agent_serves_no_hash_twice()
        self.everybody_catches_up()

    # ------------------------------------------------------------ agents

    def read(self) -> None:
        i = self._any()
        self.agents[i].read(self.journal, self.random.randint(1, 4))
        self._publish(i)

    def finish(self) -> None:
        i = self._any()
        agent = self.agents[i]
        if agent.running:
            agent.finish(self.random.choice(sorted(agent.running)))
            self._publish(i)

    def fail(self) -> None:
        i = self._any()
        agent = self.agents[i]
        if not agent.running:
            return
        bundle = self.random.choice(sorted(agent.running))
        if isinstance(agent.running[bundle], do.Split):
            return  # a runtime's split that half fails is a test of its own
        cancelled = bundle in agent.cancelled
        agent.finish(bundle, Outcome.CANCELLED if cancelled else Outcome.FAILED, self.random.random() < 0.5)
        self._publish(i)

    def hear(self) -> None:
        self._hear(self._any())

    def _hear(self, i: int) -> None:
        if self.heard[i] < len(self.released):
            session, said = self.released[self.heard[i]]
            self.heard[i] += 1
            self.agents[i].hear(said.bundle, said.epoch, session)
            self._publish(i)

    def hear_again(self) -> None:
        i = self._any()
        if self.released:
            session, said = self.random.choice(self.released[-6:])
            self.agents[i].hear(said.bundle, said.epoch, session)
            self._publish(i)

    def tick(self) -> None:
        i = self._any()
        self.agents[i].tick()
        self._publish(i)

    def expire(self) -> None:
        i = self._any()
        agent = self.agents[i]
        if self.journal.state.alive(agent.session):
            agent.expire()
            self._publish(i)

    # ------------------------------------------------------------ controller

    def control(self) -> None:
        if self.events:
            self.controller.answered(*self.events.pop(0))

    def end_session(self) -> None:
        self._end_session(self._any())

    def register(self) -> None:
        self._register(self._any())

    def _end_session(self, i: int) -> None:
        """Only sessions whose lease has expired already: that is what lease and margin are for."""
        registered = self.journal.state.session_of(NAMES[i])
        if registered is not None and registered != self.agents[i].session:
            self.controller.ended(registered)

    def _register(self, i: int) -> None:
        session = self.agents[i].session
        if self.journal.state.session_of(NAMES[i]) is None and session != self.journal.state.brokers[NAMES[i]].session:
            self.journal.register(session)

    def assign(self) -> None:
        record, to = self._pick(), self.journal.state.session_of(NAMES[self._any()])
        if to is not None and record.state is State.FREE:
            self.journal.own(State.ASSIGNING, record.epoch + 1, to=to, bundle=record.bundle)

    def transfer(self) -> None:
        record, to = self._pick(), self.journal.state.session_of(NAMES[self._any()])
        if to is not None and record.state is State.OWNED and to != record.by:
            self.journal.own(State.TRANSFERRING, record.epoch + 1, record.by, to, record.bundle)

    def unload(self) -> None:
        record = self._pick()
        if record.state is State.OWNED:
            self.journal.own(State.RELEASING, record.epoch + 1, record.by, None, record.bundle)

    def split(self) -> None:
        record = self._pick()
        if record.state is State.OWNED and self.splits < 2:
            self.splits += 1
            middle = record.bundle.middle()
            self.journal.own(State.SPLITTING, record.epoch + 1, record.by, bundle=record.bundle, boundary=middle)

    def deadline(self) -> None:
        record, to = self._pick(), self.journal.state.session_of(NAMES[self._any()])
        own, bundle, epoch = self.journal.own, record.bundle, record.epoch + 1
        if record.state is State.TRANSFERRING or record.state is State.SPLITTING:
            own(State.OWNED, epoch, record.by, bundle=bundle)
        elif record.state is State.ASSIGNING and to is not None and to != record.to:
            own(State.RELEASING, epoch, record.to, to, bundle)

    # ------------------------------------------------------------ what must hold

    def i1_one_session_serves_a_hash(self) -> None:
        for one, other in combinations(self.agents, 2):
            for a in one.served:
                for b in other.served:
                    assert not a.overlaps(b), f"{one.session} and {other.session} both serve {a} / {b}"

    def an_agent_serves_no_hash_twice(self) -> None:
        for agent in self.agents:
            for a, b in combinations(agent.served, 2):
                assert not a.overlaps(b), f"{agent.session} serves {a} and {b}"

    def everybody_catches_up(self) -> None:
        """Without further trouble every bundle ends free, or owned and served at the journal's epoch."""
        for _ in range(60):
            for i, agent in enumerate(self.agents):
                self._end_session(i)
                self._register(i)
                agent.read(self.journal)
                agent.settle()
                while self.heard[i] < len(self.released):
                    self._hear(i)
                agent.tick()
                agent.settle()
                agent.tick()
                self._publish(i)
            while self.events:
                self.controller.answered(*self.events.pop(0))
        for bundle in self._living():
            record = self.journal.record(bundle)
            assert record.state in (State.FREE, State.OWNED), f"stuck: {record}"
            served = {a.session: a.served[bundle] for a in self.agents if bundle in a.served}
            owner = self._agent(record.by)
            if owner is not None and bundle in owner.core.inventory():
                assert served == {record.by: record.epoch}
            else:
                assert served == {}, f"{record} but {served} serve"

    # ------------------------------------------------------------ inside

    def _publish(self, i: int) -> None:
        agent = self.agents[i]
        fresh = [(agent.session, said) for said in agent.said]
        agent.said.clear()
        for session, said in fresh:
            if said.kind == "rejected" and self.journal.record(said.bundle).state is not State.SPLITTING:
                assert not any(b.overlaps(said.bundle) for b in agent.served), f"{said} while serving"
            if said.kind == "released":
                assert said.bundle not in agent.served
                self.released.append((session, said))
        self.events += fresh

    def _living(self) -> list[Bundle]:
        return list(next(iter(self.journal.state.namespaces.values())))

    def _any(self) -> int:
        return self.random.randrange(3)

    def _pick(self) -> Ownership:
        return self.journal.record(self.random.choice(self._living()))

    def _agent(self, session: Session | None) -> ModelAgent | None:
        return next((a for a in self.agents if a.session == session), None)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(150))
def test_random_walks_keep_the_rules(seed: int) -> None:
    HandoverWorld(Random(seed)).walk()


def test_the_walks_reach_every_state() -> None:
    """The property above says something only as long as walks get through hand-overs, splits and take-overs."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        world = HandoverWorld(Random(seed))
        world.walk()
        seen.update(entry.state or entry.kind.value for entry in world.journal.entries)
    assert {state for state in State if seen[state.value] == 0} == {State.RETIRED}
    assert seen["split"] > 5
    assert seen["owned"] > 200
    assert seen["session_ended"] > 40
