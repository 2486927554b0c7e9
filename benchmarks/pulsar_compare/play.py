"""Plays one play on a fresh cluster: start, warm-up, five phases, and what was seen. See `plays` and `load`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.pulsar_compare.figures import Span
from benchmarks.pulsar_compare.load import (
    KILL,
    NAMESPACE,
    PHASES,
    Layout,
    Phase,
    Volume,
    choose_broker,
    lay_out,
    number_of_bundles,
    rates_of_phase,
)
from benchmarks.pulsar_compare.load import MESSAGE_BYTES as SIZE
from benchmarks.pulsar_compare.plays import BROKERS, Play
from benchmarks.pulsar_compare.watch import Watch
from controller.domain.state import LIVE
from controller.testbed.pulsar.ballast import BallastOnPulsar
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.distribution import pulsar_version
from controller.testbed.pulsar.spec import make_spec
from controller.testbed.pulsar.traffic.owners import Served, read_ring
from controller.testbed.pulsar.traffic.placing import put_in_place, wait_for_owners
from controller.testbed.pulsar.traffic.report import TrafficReport
from controller.testbed.pulsar.traffic.traffic import Traffic

BASE_PORT = 19_000
WARM_UP_S = 240.0
GENTLE_PER_S = 480.0  # while brokers load topics for the first time
SERVED_TIMEOUT_S = 300.0
SESSION_S = 12.0  # after which Pulsar has noticed that a broker was killed
Tell = Callable[[str], None]


class Stage:
    """A cluster with quotas, clients at even load, every bundle in its place, and Ballast where it plays."""

    def __init__(self, play: Play, folder: Path, volume: Volume, tell: Tell) -> None:
        self.play, self.folder, self.volume, self.tell = play, folder, volume, tell
        spec = make_spec(
            pulsar=pulsar_version(),
            manager=play.manager,
            brokers=tuple(range(1, BROKERS + 1)),
            base_port=BASE_PORT,
            broker_cores=volume.broker_cores,
            settings=play.broker_settings,
        )
        self.pulsar = PulsarCluster(folder / "pulsar", spec, tell)
        self.ballast: BallastOnPulsar | None = None
        self.layout: Layout
        self.traffic: Traffic

    @contextmanager
    def open(self) -> Iterator[Stage]:
        """Everything runs within the block, and has ended after it."""
        with ExitStack() as stack:
            stack.enter_context(self.pulsar)
            self.pulsar.up()
            for name in self.pulsar.spec.broker_names:
                self.pulsar.servers.lift_cpu(name)
            self.pulsar.admin.create_namespace("broker1", NAMESPACE, number_of_bundles(BROKERS))
            self.layout = lay_out(read_ring(self.pulsar, NAMESPACE), BROKERS)
            self.traffic = Traffic(self.pulsar, self.folder / "clients", self.layout.topics, SIZE)
            stack.enter_context(self.traffic)
            self.tell("clients start")
            self.traffic.set_rates(self.layout.even_rates(GENTLE_PER_S))
            self.traffic.wait_until_flowing(SERVED_TIMEOUT_S)
            self.put_in_place()
            if self.play.overrides is not None:
                self.ballast = BallastOnPulsar(self.folder / "ballast", self.pulsar, self.play.overrides, self.tell)
                stack.enter_context(self.ballast)
                self.ballast.up()
                self.ballast.set_mode(LIVE)
            yield self

    def warm_up(self, length_s: float) -> None:
        """Even load, without quotas at first: most of a JVM's compiling is done then."""
        self.tell(f"warm-up of {length_s:g} s at even load, the first half of it without quotas")
        self.traffic.set_rates(self.layout.even_rates(self.volume.even_per_s))
        time.sleep(length_s / 2)
        for name in self.pulsar.spec.broker_names:
            self.pulsar.servers.limit_cpu(name)
        time.sleep(length_s / 2)

    def put_in_place(self) -> None:
        """Unload each bundle to the broker where the layout wants it; the same for every play."""
        self.tell("bundles are put where the play begins")
        names = self.pulsar.spec.broker_names
        wanted = {bundle: names[at] for bundle, at in self.layout.start.items()}
        put_in_place(self.pulsar, NAMESPACE, self.layout.topics, wanted, SERVED_TIMEOUT_S)

    def places(self) -> Mapping[str, Served]:
        """Where each topic is, once all of them are somewhere."""
        return wait_for_owners(self.pulsar, NAMESPACE, self.layout.topics, SERVED_TIMEOUT_S)


class PhasesPlay:
    """The five phases on a stage."""

    def __init__(self, stage: Stage, minutes_per_phase: float) -> None:
        self.stage = stage
        self.phase_s = 60 * minutes_per_phase
        self.phases: list[Span] = []
        self.skews: list[Span] = []
        self.away: list[Span] = []
        self.chosen: dict[str, str] = {}
        self.topics_chosen: dict[str, int] = {}
        self.asked = 0.0  # messages, in all phases
        self.sent_share = 0.0  # of them
        self.watch = Watch(stage.pulsar)

    def run(self, warm_up_s: float) -> TrafficReport:
        """Warm up, play, and stop the clients."""
        with self.watch.running():
            self.stage.warm_up(warm_up_s)
            before = self.stage.traffic.count_acknowledged()
            self.watch.begin()
            for number, phase in enumerate(PHASES):
                self._play(phase, until_s=(number + 1) * self.phase_s)
        self.sent_share = (self.stage.traffic.count_acknowledged() - before) / self.asked
        self.stage.tell("clients stop")
        return self.stage.traffic.stop(SERVED_TIMEOUT_S)

    def _play(self, phase: Phase, until_s: float) -> None:
        from_s = self.watch.now_s
        self.stage.tell(f"{from_s:.0f} s: {phase.name}")
        if phase.what == KILL:
            skew_s = self._kill_and_return(phase)
        else:
            self._set_rates(phase)
            skew_s = from_s
        if phase is not PHASES[0]:
            self.skews.append(Span(phase.name, skew_s, until_s))
        time.sleep(max(0.0, until_s - self.watch.now_s))
        self.asked += sum(self.stage.traffic.rates.values()) * (self.watch.now_s - from_s)
        self.phases.append(Span(phase.name, from_s, until_s))

    def _set_rates(self, phase: Phase) -> None:
        stage, topics = self.stage, dict[str, str]()
        if phase.number:
            places = stage.places()
            serving = {topic: str(place.broker) for topic, place in places.items()}
            broker = choose_broker(phase.number, stage.pulsar.spec.broker_names, serving)
            topics = {topic: place.bundle for topic, place in places.items() if place.broker == broker}
            self.chosen[phase.name], self.topics_chosen[phase.name] = broker, len(topics)
        stage.traffic.set_rates(rates_of_phase(phase, stage.layout, stage.volume, stage.traffic.rates, topics))

    def _kill_and_return(self, phase: Phase) -> float:
        """SIGKILL to the first broker that does not lead Pulsar's balancer; returns when it serves again."""
        cluster = self.stage.pulsar
        victim = next(name for name in cluster.spec.broker_names if cluster.spec.broker_id(name) != self._leader())
        self.chosen[phase.name] = victim
        self.watch.leave_out(victim)
        killed_s = self.watch.now_s
        cluster.kill(victim)
        time.sleep(SESSION_S)
        cluster.start(victim)
        self.watch.take_in(victim)
        self.away.append(Span(victim, killed_s, self.watch.now_s))
        return self.watch.now_s

    def _leader(self) -> str:
        cluster = self.stage.pulsar
        answer = cluster.admin.request("GET", cluster.servers.running_brokers()[0], "/admin/v2/brokers/leaderBroker")
        return str(answer.json()["brokerId"]) if answer.status_code == 200 else ""
