"""A deployment: one Kafka, two stores, controllers, brokers and clients that a supervisor starts again.

What must hold at every moment: see `witness` and `messages`. At the end, `settle`: within PATIENCE_MS every bundle is
served, by whom the journal says, at its epoch (I6); the journal folds to the state, from a snapshot as from the start,
and every agent knows it (I4); every command had one outcome; nothing goes on changing; clients have read what was
acknowledged.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from controller.agent.lifecycle import BROKEN, Ending
from controller.agent.options import AgentOptions
from controller.bus.topics import TopicNames
from controller.domain.entries import Entry, Kind
from controller.domain.errors import AnotherController, ForeignCommit, InvariantBroken
from controller.domain.events import Heartbeat, parse_heartbeat
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.settings.agent_groups import NO_GROUPS, AgentGroups
from controller.domain.settings.policy import ControlSettings, SplitSettings
from controller.domain.state import ClusterState
from controller.service.arguments import exit_code
from controller.sim.ownership.invariants import check_fold, check_settled
from controller.testbed.simulated.broker import SimBroker
from controller.testbed.simulated.checks.conditions import Conditions
from controller.testbed.simulated.checks.refusals import check_commit_refusals
from controller.testbed.simulated.clients import ClientProcess, topics_of
from controller.testbed.simulated.controller import SimController
from controller.testbed.simulated.kafka import Link, SimKafka
from controller.testbed.simulated.lookups import LookupServer, SimLookups
from controller.testbed.simulated.message_store import SimMessageStore
from controller.testbed.simulated.messages import Messages
from controller.testbed.simulated.network import HOST, SimNetwork
from controller.testbed.simulated.tables import SimStore
from controller.testbed.simulated.witness import Witness
from controller.testbed.simulated.world import WallClock, World, delay_ms, draw_rate
from controller.testbed.units import AGENT, JOB, Units, final_codes

NAMESPACE, BUNDLES = "t/n", 4
BROKERS = ("a:1", "b:1", "c:1", "d:1")
LOOKUP_PORTS = {broker: 8_000 + number for number, broker in enumerate(BROKERS)}
TOPICS = topics_of(NAMESPACE, (2, 1, 1, 1))  # of clients: two in one bundle, so that its split has to choose
OPTIONS = AgentOptions(report_interval_ms=12_000, leave_timeout_ms=20_000)
CANNOT_FENCE = 0.3  # of the runs have a broker whose store knows no fences
UNFENCED = "a broker that cannot fence"
FEW_BUNDLES, MANY_BUNDLES = (5, 6), 128  # a namespace may have: splits meet the limit, or go on
LAG_LIMIT = 30  # entries: small, as a run has some hundred
START_MS = 8_000
RESTART_MS = (500, 6_000)  # until the supervisor starts a process again
PATIENCE_MS, QUIET_MS, ASK_AGAIN_MS, STEP_MS = 120_000, 15_000, 5_000, 1_000
CATCH_UP_MS, DRAIN_MS = 5_000, 15_000  # for clients, before the quiet time ends, and after it
MEMORY = Path("/dev/shm")  # where files cost no disk; elsewhere they do
OUTCOMES = (Kind.COMMAND_ACCEPTED, Kind.COMMAND_REJECTED)
EXPECTED = (AnotherController, ForeignCommit, OSError)  # what a controller may end by


def draw_settings(world: World, groups: AgentGroups) -> ControlSettings:
    """The settings of a run, so that it gets to the limits of the mass-failure breaker and of splits."""
    dice = world.dice("settings")
    return ControlSettings(
        lag_limit_entries=LAG_LIMIT,
        agent_groups=groups,
        guard_min_brokers=dice.choice((3, 4)),
        guard_silent_fraction=dice.choice((0.4, 0.5)),
        guard_window_ms=dice.choice((10_000, 60_000)),
        split=SplitSettings(namespace_maximum_bundles=dice.choice((*FEW_BUNDLES, MANY_BUNDLES, MANY_BUNDLES))),
    )


class Deployment:
    """Everything of one run."""

    def __init__(self, seed: int, settings: ControlSettings | None = None, groups: AgentGroups = NO_GROUPS) -> None:
        self.world = World(seed)
        self.kafka, self.store = SimKafka(self.world), SimStore(self.world)
        self.network = SimNetwork(self.world)
        self._folder = TemporaryDirectory(prefix="ballast-simulated-", dir=MEMORY if MEMORY.is_dir() else None)
        self.segments = SimMessageStore(self.network, Path(self._folder.name), lambda text: self.witness.note(text))
        self.settings = settings or draw_settings(self.world, groups)
        self.names = TopicNames(groups=self.settings.agent_groups)
        self.brokers: list[SimBroker] = []  # all processes that ever ran, the newest last
        self.controllers: list[SimController] = []
        self.unfenced = self.world.random.choice(BROKERS) if self.world.random.random() < CANNOT_FENCE else ""
        self.world.counts[UNFENCED] += bool(self.unfenced)
        self.conditions = Conditions(self.world.counts)
        self.witness = Witness(self.world, self.kafka, self.brokers, self.names, self.settings)
        self.trace: list[str] | None = None  # a list: note there what happens
        self.supervised = True
        self.units = Units()
        self.calm = False  # after the last fault
        self.down_until_ms: dict[str, float] = {}  # broker -> when its machine is up again
        self._ended_clients: list[ClientProcess] = []
        self._serial = 0
        self._commands: list[str] = []
        self.lookups = SimLookups(self.world, NAMESPACE, self.living, self.witness.note)
        self.messages = Messages(self.witness.note, self.segments)
        self.clients: ClientProcess | None = None
        self.world.on_alarm = self.witness.check
        self.store.on_commit = self._note_commit
        self.store.snapshots.on_save = lambda state, rows: self.witness.saves(state, rows, self.store.first_seq)

    # ------------------------------------------------------------ processes

    def begin(self) -> None:
        """Start everything, and give every bundle an owner."""
        self.segments.begin()
        self.start_controller()
        for broker in BROKERS:
            self.start_broker(broker)
        self._watch_later()
        self.command("create_namespace", namespace=NAMESPACE, bundles=BUNDLES)
        self.command("mode", mode="live")
        self._run_until(lambda: bool(self.bundles()) and all(one.agent.may_serve() for one in self.living()))
        self.start_clients()
        self.ask_for_owners()
        self._run_until(lambda: len(self.bundles()) == sum(len(one.serving()) for one in self.living()))

    def start_controller(self, take_over: bool = False) -> SimController:
        """Start a controller by another unit; there may be another one."""
        self.units.add(JOB)
        return self._run_controller(take_over)

    def _run_controller(self, take_over: bool = False) -> SimController:
        self._serial += 1
        name = f"controller-{self._serial}"
        rate = draw_rate(self.world.random)
        found = SimController(
            self.world, self.kafka, self.store, name, self.settings, self.names,
            take_over=take_over, clock_rate=rate,
        )  # fmt: skip
        found.on_end = lambda error: self._judge_controllers_end(name, error)
        self.controllers.append(found)
        return found

    def start_broker(self, broker: str, take_over: bool = False) -> SimBroker:
        """Start a process of the broker by another unit; there may be another one."""
        self.units.add(broker)
        return self._run_broker(broker, take_over)

    def restart_broker(self, broker: str) -> None:
        """As the unit of its process does, if none lives; and if the last one has not ended for good."""
        if not self.living(broker) and self.units.has(broker):
            self.units.restart(broker)
            self._run_broker(broker)

    def _run_broker(self, broker: str, take_over: bool = False) -> SimBroker:
        self._serial += 1
        options = replace(OPTIONS, take_over=take_over)
        rate = draw_rate(self.world.random)
        found = SimBroker(
            self.kafka, self.store, self.network, broker, f"n{self._serial}", options, self.names,
            clock_rate=rate, can_fence=broker != self.unfenced, on_end=lambda ending: self._judge_end(found, ending),
            breach=self.witness.note,
        )  # fmt: skip
        found.runtime.on_call = partial(self.witness.is_told_to_serve, found)
        found.runtime.on_serve = partial(self.witness.begins_to_serve, found)
        found.runtime.on_split = partial(self.witness.begins_to_serve, found, by_split=True)
        found.on_fenced = partial(self.witness.is_fenced, found)
        found.loop.on_write = partial(self.witness.writes, found)
        for producer in found.producers:
            producer.on_send = partial(self.witness.sends, found)
            producer.around_answer = partial(self.witness.leases.answer, found)
        self.network.offer(found.loop, lambda: LookupServer(found, self.lookups), LOOKUP_PORTS[broker])
        self.brokers.append(found)
        return found

    def start_clients(self) -> ClientProcess:
        """Start the clients' process, in place of the one before."""
        if self.clients is not None:
            self.clients.kill()
            self._ended_clients.append(self.clients)
        self._serial += 1
        urls = [f"http://{HOST}:{port}" for port in LOOKUP_PORTS.values()]
        self.clients = ClientProcess(self.network, f"clients-{self._serial}", TOPICS, urls, self.messages)
        return self.clients

    def living(self, broker: str | None = None) -> list[SimBroker]:
        """The processes that live, of one broker or of all."""
        return [one for one in self.brokers if one.alive and broker in (None, one.broker)]

    def controller(self) -> SimController | None:
        """The newest controller that lives."""
        return next((one for one in reversed(self.controllers) if one.alive), None)

    def links(self) -> list[Link]:
        """Of all processes that live."""
        return [*(one.link for one in self.living()), *(one.link for one in self.controllers if one.alive)]

    def _watch_later(self) -> None:
        low, high = RESTART_MS
        self.world.after(delay_ms(self.world.random, low, high), self._watch_over)

    def _watch_over(self) -> None:
        """The supervisor's round: what has ended is started again, after a while, unless by a code that forbids it."""
        if self.supervised:
            self._watch_later()
            for failure in [one.actor.failure for one in self.controllers if one.actor.failure is not None]:
                if not isinstance(failure, EXPECTED):
                    raise failure
            if self.clients is not None and not self.clients.alive:
                self.start_clients()
            if self.controller() is None and self.units.has(JOB):
                self.units.restart(JOB)
                self._run_controller()
            for broker in BROKERS:
                if self.world.now_ms >= max(self.kafka.down_until_ms, self.down_until_ms.get(broker, 0.0)):
                    self.restart_broker(broker)

    def _judge_controllers_end(self, name: str, error: Exception) -> None:
        if isinstance(error, ForeignCommit):
            self._judge_loss(name)
        if exit_code(error) in final_codes(JOB) and self.units.give_up(JOB):
            self.witness.note(f"the last controller, {name}, has ended for good: {error}")

    def _judge_loss(self, name: str) -> None:
        """A controller gives way because another one has committed after it."""
        after = takewhile(lambda version: version.instance != name, reversed(self.store.versions))
        if not any(version.entries for version in after):
            self.witness.note(f"{name} gives way to another controller, and nobody has committed anything after it")

    def _judge_end(self, one: SimBroker, ending: Ending) -> None:
        self.note(f"    a process of {one.broker} ended with {ending.code}: {ending.text}")
        if ending.code == BROKEN:
            raise InvariantBroken(f"the agent of {one.broker} ended as broken: {ending.text}")
        rows = self.kafka.records(self.names.of_broker(one.broker).heartbeats, one.began_ms)
        beats = [parse_heartbeat(row.value or b"") for row in rows]
        of_broker = [beat for beat in beats if isinstance(beat, Heartbeat) and beat.session.broker == one.broker]
        self.witness.agents.end(one, ending, bool(self.living(one.broker)), of_broker)
        if ending.code in final_codes(AGENT) and self.units.give_up(one.broker):
            self.witness.note(f"the last process of {one.broker} has ended for good with {ending.code}: {ending.text}")

    # ------------------------------------------------------------ operators and clients

    def command(self, kind: str, **args: object) -> str:
        """An operator's command; returns its id."""
        self._serial += 1
        self._commands.append(f"c{self._serial}")
        record = {"v": 1, "id": self._commands[-1], "kind": kind, "args": args, "who": "sim", "why": "sim"}
        self.kafka.append(self.names.commands, json.dumps(record).encode(), None)
        return self._commands[-1]

    def ask_for_owners(self) -> None:
        """Clients look up every bundle; the agents ask for an owner of those without one."""
        for one in self.living():
            for record in one.agent.watcher.state.bundles.values():
                if record.state is State.FREE and one.agent.may_serve():
                    one.agent.publisher.ask_for(record.bundle)

    def note(self, text: str) -> None:
        """Add a line to the trace, if there is one."""
        if self.trace is not None:
            self.trace.append(f"{self.world.now_ms:9.0f} ms  {text}")

    def wall_clocks(self) -> list[WallClock]:
        """Of all machines, as far as their processes live."""
        of_controllers = [one.wall_clock for one in self.controllers if one.alive]
        of_brokers = [one.wall_clock for one in self.living()]
        return [*of_brokers, *of_controllers, self.kafka.wall_clock, self.segments.wall_clock]

    def bundles(self) -> tuple[Bundle, ...]:
        """Those of the ring."""
        return self.store.state.namespaces.get(NAMESPACE, ())

    # ------------------------------------------------------------ time and invariants

    def run(self, ms: float) -> None:
        """Let time pass."""
        self.world.run(ms)

    def _run_until(self, holds: Callable[[], bool]) -> None:
        """Let time pass until this holds; at most as much as a start takes."""
        for _ in range(START_MS // STEP_MS):
            self.run(STEP_MS)
            if holds():
                return

    def end_faults(self) -> None:
        """Mend everything; what has ended is started again by the supervisor."""
        now_ms, self.calm = self.world.now_ms, True
        self.kafka.down_until_ms = min(self.kafka.down_until_ms, now_ms)
        self.store.down_until_ms = now_ms
        self.kafka.slow = self.store.slow = self.network.slow = 1.0
        self.kafka.lost_feed = self.store.spoilt = 0.0
        for link in self.links():
            link.cut_until_ms = link.deaf_until_ms = link.refused_until_ms = now_ms
            link.lost_acks = 0.0
        for one in self.living():
            one.resume()
            one.table_cut_until_ms = now_ms
            one.runtime.slow_ms = one.runtime.fails = 0.0
            one.runtime.refusing = False
        self.segments.end_faults()
        self.down_until_ms.clear()
        if self.clients is not None:
            self.clients.loop.paused_until_ms = now_ms
        for controller in self.controllers:
            controller.actor.paused_until_ms = min(controller.actor.paused_until_ms, now_ms)

    def settle(self) -> float:
        """End all faults, and check that everything is served again; returns after how many ms that was."""
        self.end_faults()
        for broker in BROKERS:
            self.command("undrain", broker=broker)
        began_ms = asked_ms = self.world.now_ms
        settled_ms, epochs = began_ms, self._epochs()
        while self.world.now_ms - settled_ms < QUIET_MS:
            if self.world.now_ms - began_ms > PATIENCE_MS:
                self._check_settled()
                self._check_processes()
                raise InvariantBroken(f"I6: owners still change {PATIENCE_MS} ms after the last fault")
            self.run(STEP_MS)
            if self.world.now_ms - asked_ms >= ASK_AGAIN_MS:
                asked_ms = self.world.now_ms
                self.ask_for_owners()
                if self.store.state.frozen:
                    self.command("thaw")
            if not self._is_settled() or epochs != self._epochs():
                settled_ms, epochs = self.world.now_ms, self._epochs()
            if self.clients is not None:
                self.clients.publishing = self.world.now_ms - settled_ms < QUIET_MS - CATCH_UP_MS
        took_ms = settled_ms - began_ms
        self._drain()
        check_fold(ClusterState(), self.store.journal, self.store.state)
        check_fold(self.store.load_state(), [], self.store.state)
        for one in self.living():
            check_fold(one.agent.watcher.state, self.store.journal[one.agent.watcher.state.seq :], self.store.state)
        self._check_commands()
        self._check_processes()
        check_commit_refusals(self.store, self.witness.note)
        self.witness.check()
        return took_ms

    def _drain(self) -> None:
        """Check that everything that was published is acknowledged and read, soon."""
        clients = self.clients or self.start_clients()
        for _ in range(DRAIN_MS // STEP_MS):
            if not clients.pending and not self.messages.backlog():
                break
            self.run(STEP_MS)
        clients.check()
        if clients.pending or self.messages.backlog():
            raise InvariantBroken(f"clients: {self.messages.backlog() or f'{clients.pending} messages are not stored'}")
        self.segments.check()

    def close(self) -> None:
        """End everything."""
        self.supervised = False
        for controller in self.controllers:
            controller.kill()
        self.world.close()
        for broker in self.brokers:
            broker.close()
        for clients in (*self._ended_clients, self.clients):
            if clients is not None:
                clients.close()
        self.segments.close()
        self._folder.cleanup()

    def _epochs(self) -> dict[str, int]:
        return {name: record.epoch for name, record in self.store.state.bundles.items()}

    def _is_settled(self) -> bool:
        try:
            self._check_settled()
        except InvariantBroken:
            return False
        alive = self.clients is not None and self.clients.alive and self.controller() is not None
        return alive and all(self.living(broker) for broker in BROKERS)

    def _check_processes(self) -> None:
        for broker in BROKERS:
            if len(self.living(broker)) != 1:
                raise InvariantBroken(f"{broker} has {len(self.living(broker))} processes that live")

    def _check_commands(self) -> None:
        outcomes = Counter(entry.command_id for entry in self.store.journal if entry.kind in OUTCOMES)
        for command in self._commands:
            if outcomes[command] != 1:
                raise InvariantBroken(f"command {command} had {outcomes[command]} outcomes instead of one")

    def _check_rings(self) -> None:
        most = self.settings.split.namespace_maximum_bundles
        if len(self.bundles()) > most:
            self.witness.note(f"{NAMESPACE} has {len(self.bundles())} bundles, at most {most} are allowed")

    def _check_settled(self) -> None:
        state = self.store.state
        check_settled(state)
        serving = {one.agent.sessions.current: one.serving() for one in self.living() if one.agent.sessions}
        for record in state.bundles.values():
            if record.by is not None and serving.get(record.by, {}).get(record.bundle) != record.epoch:
                raise InvariantBroken(
                    f"I6: {record.by} owns {record.bundle} at {record.epoch}, serves {serving.get(record.by)}"
                )

    def _note_commit(self, entries: Sequence[Entry], before: ClusterState) -> None:
        for entry in entries if self.trace is not None else ():
            self.note(f"    {describe(entry)}")
        theirs = next((one for one in self.controllers if one.instance == entries[0].instance), None)
        decided_ms, since_ms = (theirs.decided_ms(), theirs.judges_since_ms) if theirs else (self.world.now_ms, 0.0)
        self.witness.commits(entries, before, self.store.state, decided_ms, since_ms)
        self.conditions.commits(entries)
        self._check_rings()
        self.lookups.note(self.store.state)


def describe(entry: Entry) -> str:
    """An entry in one line."""
    shown = {"epoch": entry.epoch, "by": entry.by, "to": entry.to, "session": entry.session, "reason": entry.reason}
    shown |= {name: value for name, value in entry.data.items() if name in ("fence", "fencer", "released", "children")}
    what = " ".join(f"{name}={value}" for name, value in shown.items() if value not in (None, ""))
    return f"{entry.seq} {entry.instance} {entry.kind.value} {entry.bundle or ''} {entry.state or ''} {what}"
