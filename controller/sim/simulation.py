"""Simulates one run: load, reports, rounds and ownership together, tick by tick, from a seed.

A tick is the time between two load reports. In each tick, faults begin and end; the ownership simulation runs while
anything is in progress; brokers carry the load of their topics and report it; when a round is due, the real round
decides on the reports, and the real step processes its result. The invariants of `invariants.py` and
`round_invariants.py` hold in every run; a violation raises InvariantBroken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from controller.domain.errors import ConfigError
from controller.domain.events import RoundFinished
from controller.domain.ids import Bundle
from controller.domain.settings.policy import ControlSettings, PolicySettings
from controller.domain.state import LIVE
from controller.policy.round import RoundInputs, learn_and_decide
from controller.policy.strategies import get
from controller.policy.strategies.steady.planner import count_moves
from controller.policy.usage.model import UsageModel
from controller.sim.fault_injection import FaultInjector
from controller.sim.figures import Figures, Track, figures_of
from controller.sim.load.move_cost import Arrival, ReconnectStorms
from controller.sim.load.reports import Reports
from controller.sim.load.split_halves import halves_of
from controller.sim.load.workloads import Ints, TopicMap, Workload, namespaces_of
from controller.sim.load.world import NOBODY, LoadWorld, Moment
from controller.sim.ownership.load_cluster import AXIS_MS, LoadCluster
from controller.sim.placement_check import check_placement, count_misplaced, domain_gap
from controller.sim.round_invariants import check_grace, check_replay, check_round
from controller.sim.scenario.scenario import Scenario, check

PATIENCE_MS = 300_000  # until the cluster is up
REPLAYED_EVERY = 10  # of rounds without moves, every tenth is replayed; rounds with moves all are


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of a run: its figures, and the series behind them."""

    scenario: Scenario
    seed: int
    figures: Figures
    track: Track
    brokers: tuple[str, ...]


def simulate(scenario: Scenario, seed: int) -> Outcome:
    """Run the scenario. Raises InvariantBroken, or ConfigError if the scenario contradicts itself."""
    return Simulation(scenario, seed).run()


class Simulation:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        check(scenario)
        self.scenario, self.seed = scenario, seed
        self.tick_ms = scenario.reports.every_ms
        cluster = scenario.cluster
        cores = sum(cluster.machine(at)[0] for at in range(cluster.brokers))
        self.workload = Workload(scenario.load, scenario.shapes, scenario.costs, cores, scenario.duration_ms, seed)
        self.world = LoadWorld(scenario.costs, self.workload.topics)
        policy = scenario.policy
        control = ControlSettings(
            split=policy.split,
            grace_period_ms=policy.shed.grace_period_ms,
            placement=policy.placement,
            max_bundles=policy.caps.max_bundles,
            round_interval_ms=scenario.round_every_ms,
            lag_limit_entries=scenario.lag_limit_entries,
        )
        self.cluster = LoadCluster(seed, control)
        self.cluster.loads_of_halves = self._halves
        self.reports = Reports(scenario.reports, seed)
        self.storms = ReconnectStorms(scenario.costs)
        self.track = Track(self.tick_ms)
        self.time_ms = 0
        self.rounds = 0
        self._usage = UsageModel()
        self.faults = FaultInjector(scenario, self.cluster, self.world)
        self._orders = sorted(scenario.orders, key=lambda order: order.at_ms)
        self._ring: TopicMap | None = None
        self._owner: tuple[int, Ints] | None = None  # (cluster.changes, [N])

    def run(self) -> Outcome:
        """Run from the start of the first broker until everything has settled."""
        self._begin()
        for time_ms in range(0, self.scenario.duration_ms + 1, self.tick_ms):
            self.time_ms = time_ms
            self._tick()
        # moves complete, faults end, and every bundle must be served again (I6, I4)
        self.cluster.settle()
        check_grace(self.track.moves, self.scenario.policy.shed.grace_period_ms)
        return Outcome(self.scenario, self.seed, self._figures(), self.track, tuple(self.world.brokers))

    # ------------------------------------------------------------ the start

    def _begin(self) -> None:
        cluster, spec = self.cluster, self.scenario.cluster
        for number in range(spec.brokers):
            self.faults.join(f"b{number + 1}", *spec.machine(number))
        self._wait(lambda: len(cluster.state.sessions) == spec.brokers, "brokers to register")
        for namespace, count in namespaces_of(self.scenario.load).items():
            cluster.command("create_namespace", namespace=namespace, bundles=count)
        cluster.command("mode", mode=LIVE)
        self._wait(lambda: cluster.state.mode == LIVE, "the mode")
        for ring in cluster.state.namespaces.values():
            for bundle in ring:
                cluster.lookup(bundle)
        cluster.run(1_000)
        self._wait(cluster.quiet, "bundles to be assigned")
        self._place()
        cluster.begin_metering()

    def _place(self) -> None:
        """Move the bundles to their initial brokers, by operators' commands."""
        spec = self.scenario.cluster
        if spec.place == "spread":
            return
        dice = np.random.default_rng([self.seed, 4])
        groups = self.workload.topics.groups
        if spec.place == "random":
            chosen = dice.integers(0, spec.brokers, len(groups))
        else:
            chosen = self.workload.topics.tenant_of_group % spec.brokers
        owners = {str(bundle): broker for bundle, broker in self.cluster.serving()}
        for bundle, number in zip(groups, chosen.tolist(), strict=True):
            target = f"b{number + 1}"
            if owners[str(bundle)] != target:
                self.cluster.command("unload_bundle", bundle=str(bundle), to=target)
        self.cluster.run(1_000)
        self._wait(self.cluster.quiet, "bundles to come to their places")

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        end_ms = self.cluster.now_ms + PATIENCE_MS
        while not holds():
            if self.cluster.now_ms >= end_ms:
                raise ConfigError(f"waited {PATIENCE_MS} simulated ms for {what}: is the cluster able to serve them?")
            self.cluster.run(250)

    # ------------------------------------------------------------ a tick

    def _tick(self) -> None:
        self.faults.advance(self.time_ms)
        while self._orders and self._orders[0].at_ms <= self.time_ms:
            order = self._orders.pop(0)
            self.cluster.command(order.kind, **order.arguments)
        self.cluster.run_while_busy(self.tick_ms)
        moment, ring = self._carry()
        self.track.note(self.time_ms, moment, self._members(), ring.bundle)
        self.track.note_moves(self.cluster.take_moves(self.time_ms), ring, self.world.brokers)
        if self.cluster.rejections:
            raise ConfigError(f"an operator's command was rejected: {'; '.join(self.cluster.rejections)}")
        self.reports.take(AXIS_MS + self.time_ms, moment, self._reporters())
        if self.time_ms and self.time_ms % self.scenario.round_every_ms == 0:
            self._round()

    def _carry(self) -> tuple[Moment, TopicMap]:
        """Put the load of this tick on the brokers that serve it."""
        rings = self.cluster.state.namespaces
        if self._ring is None or not self._ring.still_holds(rings):
            self._ring, self._owner = TopicMap(self.workload.topics, rings), None
        ring = self._ring
        if self._owner is None or self._owner[0] != self.cluster.changes:
            owner = np.full(len(ring.bundles), NOBODY, np.int64)
            for bundle, broker in self.cluster.serving():
                at = ring.index.get(bundle)
                if at is not None:
                    owner[at] = self.world.brokers.index(broker)
            self._owner = self.cluster.changes, owner
        sessions = ring.sums(self.workload.topics.sessions)
        arrivals = [
            Arrival(self.world.brokers.index(t.broker), float(sessions[ring.index[t.bundle]]), t.gap_ms)
            for t in self.cluster.take_arrivals()
            if t.moved and t.bundle in ring.index
        ]
        greeting = self.storms.tick(arrivals, len(self.world.brokers), self.tick_ms)
        return self.world.carry(self.workload.at(self.time_ms), ring, self._owner[1], greeting), ring

    def _halves(self, bundle: Bundle, boundary: int) -> dict[str, float]:
        """What the owner of the bundle would measure of its halves now."""
        return halves_of(self.workload.topics, self.workload.at(self.time_ms).msg_in, bundle, boundary)

    def _members(self) -> np.ndarray:
        """[B] whether the broker is alive and not leaving or drained."""
        state = self.cluster.state
        members = {b.id for b in state.live_brokers() if not b.leaving and not b.drained}
        return np.array([b in members and self.cluster.process_of(b) is not None for b in self.world.brokers])

    def _reporters(self) -> Ints:
        """[B] the incarnation of the process that reports now, 0 if none does."""
        result = np.zeros(len(self.world.brokers), np.int64)
        for at, broker in enumerate(self.world.brokers):
            agent = self.cluster.process_of(broker)
            able = agent is not None and agent.registered and not self.cluster.is_kafka_cut(broker)
            if agent is not None and able and broker not in self.faults.silent:
                result[at] = agent.session.incarnation
        return result

    def _round(self) -> None:
        """Run a round on the reports and pass its result to the step."""
        at_ms = AXIS_MS + self.time_ms
        state = self.cluster.state
        brokers, bundles = self.reports.rolling(at_ms, self.world.brokers)
        settings = self.scenario.policy
        inputs = RoundInputs(
            str(at_ms), at_ms, state, brokers, bundles, settings, "simulated", "simulated", self.cluster.lagging(),
            self._usage,
        )  # fmt: skip
        results, self._usage = learn_and_decide(inputs)
        for result in results:
            check_round(result, state, _most_moves(settings, len(result.scores)))
            check_placement(result, state, settings)
            if any(d.target for d in result.decisions) or self.rounds % REPLAYED_EVERY == 0:
                check_replay(result)
            self.cluster.pending.append(RoundFinished(result))
        self.rounds += 1

    # ------------------------------------------------------------ the end

    def _figures(self) -> Figures:
        still_down_s = self.cluster.unserved_ms() / 1000.0
        figures = figures_of(
            self.track,
            self.scenario.duration_ms,
            self.scenario.end_ms,
            strategy=get(self.scenario.policy.strategy).name,
            rounds=self.rounds,
            brokers=int(self._members().sum()),
            bundles=sum(map(len, self.cluster.state.namespaces.values())),
            splits=self.cluster.splits,
            unavailable_bundle_s=self.storms.unavailable_bundle_s + still_down_s,
            longest_gap_ms=self.storms.longest_gap_ms,
            reconnects=int(self.storms.reconnects),
            reports_lost=self.reports.lost,
        )
        state, policy = self.cluster.state, self.scenario.policy
        return replace(figures, misplaced=count_misplaced(state, policy), domain_gap=domain_gap(state, policy))


def _most_moves(settings: PolicySettings, brokers: int) -> int:
    """The largest budget that any strategy gives a round."""
    steady = count_moves(settings.steady.budget, brokers, pressing=brokers)
    return max(settings.shed.max_moves_per_round, steady)
