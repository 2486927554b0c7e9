"""The demo, act by act: settle, skew, shift, split under backlog, new broker, killed broker, calm, check.

Each act waits for its effect rather than for a time; its limit grows with the requested minutes. If the effect does not
happen in time, the demo reports that and goes on. Only lost, duplicated or reordered messages and broken invariants
make it fail.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.domain.entries import Entry, Kind
from controller.domain.errors import InvariantBroken
from controller.domain.ownership import State
from controller.domain.state import PAUSED, ClusterState
from controller.ledger.journal_commit import Journal
from controller.operations.evidence_view import EvidenceView
from controller.operations.reading import Reader
from controller.process.children import ProcessFailed
from controller.process.clock import wall_ms
from controller.sim.ownership.invariants import check_fold, check_rings
from controller.testbed.checker.checker import check_store
from controller.testbed.demo.calm import Look, Standing, calm_since, describe_plan, list_under_way, unrest
from controller.testbed.demo.figures import DemoFigures, RoundView, find_relief, rounds_of, splits_of, transfers_of
from controller.testbed.demo.screen.base import Screen
from controller.testbed.demo.workload import (
    HOT_SHARE,
    TOPICS,
    Workload,
    base_rates,
    bundle_of,
    deliveries,
    heat_rates,
    owner_of,
    topics_of,
)
from controller.testbed.local_cluster import LocalCluster

DRAIN_S = 120.0  # messages unread after this count as lost, which must not happen on a slow machine
LEAST_S, RELIEF_S = 45.0, 120.0  # the least that an act waits for its effect, if need be
# The smallest deviation is acted on after eight rounds, and what remains of it after another eight.
CALM_WITHIN_S = 120.0
JOB_STOP_S = 60.0
SLOW_MACHINE = 3  # factor on that time if rounds are late
TOO_MUCH = 1.3  # factor on the limit of a bundle, for the bundle to split
ACTS = 8


@dataclass(slots=True)
class Highlights:
    """What happened in this run that is worth asking `ballast explain` about."""

    hot: str = ""
    victim: str = ""
    entries: list[Entry] = field(default_factory=list)  # until the clients stopped


class Scenario:
    """One run of the demo on a running cluster."""

    def __init__(
        self,
        cluster: LocalCluster,
        minutes: float,
        screen: Screen,
        typed_ms: int,
        at_rest: Callable[[DemoFigures], None] = lambda figures: None,
    ) -> None:
        """`at_rest` is called once the balancer has nothing left to do, while everything still runs."""
        self.cluster = cluster
        self._at_rest = at_rest
        self.screen = screen
        self.step_s = max(LEAST_S, minutes * 60 / 4)
        self.figures = DemoFigures(tables=cluster.settings.tables.root)
        self.workload = Workload(cluster)
        self.highlights = Highlights()
        self._typed_ms = typed_ms
        self._acts = 0
        self._base: dict[str, float] = {}
        self._looks: list[Look] = []
        self._looked_at = 0  # entries

    def run(self) -> DemoFigures:
        """Run all acts, then the check."""
        self._settle()
        hot = self._skew()
        self._shift(hot)
        self._split_under_backlog()
        self._add_broker()
        self._kill()
        self._calm_down(wall_ms())
        self._at_rest(self.figures)
        self._finish()
        return self.figures

    # ------------------------------------------------------------ acts

    def _settle(self) -> None:
        self._act(f"namespaces, {len(TOPICS)} topics, and clients that send and read")
        self.workload.create()
        self._base = base_rates(len(self.cluster.state.live_brokers()))
        self.workload.start(self._base)

        def all_owned(state: ClusterState) -> bool:
            return all(state.bundles[str(bundle_of(state, topic))].state is State.OWNED for topic in TOPICS)

        self._wait("an owner for every topic", all_owned)
        before = len(rounds_of(self.cluster.entries))
        self._wait("two rounds", lambda _: len(rounds_of(self.cluster.entries)) >= before + 2)

    def _skew(self) -> str:
        """Make the topics of one broker hot; measure until a round finds no overloaded broker."""
        state = self.cluster.state
        counts = Counter(t for t in (owner_of(state, topic) for topic in TOPICS) if t)
        hot = self.highlights.hot = counts.most_common(1)[0][0]
        self._act(f"skew: the topics of {hot} get hot")
        started_ms = wall_ms()
        self._heat(hot)
        self._relief(started_ms, hot, first=True)
        return hot

    def _shift(self, old: str) -> None:
        """Make the topics of another broker hot instead, until the end."""
        others = [b.id for b in self.cluster.state.live_brokers() if b.id != old]
        hot = max(others, key=lambda b: len(topics_of(self.cluster.state, b)))
        self._act(f"shift: what was hot cools down, the topics of {hot} get hot")
        self.workload.set_rates(self._base)
        started_ms = wall_ms()
        self._heat(hot)
        self._relief(started_ms, hot, first=False)

    def _split_under_backlog(self) -> None:
        """Give the bundle with most topics a subscription that does not acknowledge, and more traffic than allowed."""
        state = self.cluster.state
        bundle, count = Counter(bundle_of(state, t) for t in TOPICS).most_common(1)[0]
        topics = [t for t in TOPICS if bundle_of(state, t) == bundle]
        self._act(f"split: {bundle} with {count} topics gets a backlog and too much traffic")
        self.workload.build_backlog(topics)
        limit = self.cluster.settings.split.max_msg_rate_per_s or 400.0
        usual = {topic: self.workload.rates[topic] for topic in topics}
        operations = sum(1 + deliveries(topic) for topic in topics)  # of a message to each of them
        self.workload.set_rates(dict.fromkeys(topics, TOO_MUCH * limit / operations))
        self._wait("the split", lambda state: state.bundles[str(bundle)].state is State.RETIRED)
        time.sleep(3)
        self.workload.set_rates(usual)
        self.workload.clear_backlog()

    def _add_broker(self) -> None:
        """Start an empty broker; the next round that knows its load fills it."""
        name = f"broker-{len(self.cluster.state.brokers) + 1}"
        self._act(f"join: {name}, empty, is to get its share")
        self.cluster.start_agent(name)
        self._wait(f"the registration of {name}", lambda state: state.session_of(name) is not None)
        self._wait(
            f"the first bundles of {name}",
            lambda state: any(r.state is State.OWNED and r.by and r.by.broker == name for r in state.bundles.values()),
            by_moves=True,
        )

    def _kill(self) -> None:
        """Kill the busiest broker; measure until all its bundles are served again according to the journal."""
        state = self.cluster.state
        counts = Counter(r.by.broker for r in state.bundles.values() if r.by)
        victim = self.highlights.victim = counts.most_common(1)[0][0]
        self._act(f"kill: SIGKILL to {victim}, which owns {counts[victim]} bundles")
        killed = time.monotonic()
        self.cluster.children[victim].kill()
        state = self.cluster.state
        lost = [name for name, r in state.bundles.items() if victim in {s.broker for s in (r.by, r.to) if s}]

        def served(now: ClusterState) -> bool:
            return all(
                (r := now.bundles[name]).state is State.RETIRED
                or (r.state is State.OWNED and r.by is not None and r.by.broker != victim)
                for name in lost
            )

        lease_s = self.cluster.settings.control.lease_ms / 1000
        if self._wait(f"the failover, once the lease of {lease_s:g} s has run out", served):
            self.figures.failover_s = round(time.monotonic() - killed, 2)

    def _calm_down(self, since_ms: int) -> None:
        """Leave the cluster alone; measure until the balancer has nothing left to do."""
        self._act("calm: nothing happens any more, the balancer evens out what is left")
        horizon_ms = round(self.cluster.settings.loads.short_horizon_s * 1000)
        found: list[int] = []
        self._looked_at = len(self.cluster.entries)

        interval_s = self.cluster.settings.rounds.round_interval_s

        def calm_or_long_enough(state: ClusterState) -> bool:
            self._look(state)
            since = calm_since(self._looks, since_ms, horizon_ms, len(list_under_way(state)))
            found[:] = [] if since is None else [since]
            late = len(self._looks) < CALM_WITHIN_S / interval_s
            return bool(found) or (wall_ms() - since_ms > 1000 * CALM_WITHIN_S and not late)

        what = "rounds in which the balancer has nothing to do"
        self._wait(what, calm_or_long_enough, SLOW_MACHINE * CALM_WITHIN_S)
        self.figures.calm = bool(found)
        if found:
            self.figures.calm_after_s = round((found[0] - since_ms) / 1000, 1)
            return
        due = round((wall_ms() - since_ms) / 1000 / interval_s)
        state = self.cluster.state
        self.figures.not_calm = unrest(self._looks, list_under_way(state), due, state.plan)
        for why in self.figures.not_calm:
            self._act(f"not calm: {why}", counts=False)

    def _finish(self) -> None:
        self._act("check: was a message lost, stored twice or reordered?")
        self._end_rounds()
        self._take_balance()
        self.workload.stop(DRAIN_S)
        self.cluster.tell("the checker reads the store and the clients' logs")
        report = check_store(self.cluster.folder / "store", [p for p in self.workload.logs if p.exists()], drained=True)
        figures = self.figures
        figures.take_check(report)
        self.cluster.tell("the journal is folded again from its start")
        try:
            check_journal(self.cluster.settings.tables.root, lambda: self.cluster.state)
        except InvariantBroken as error:
            figures.invariants = str(error)
        entries = self.cluster.entries  # those that were just checked
        figures.transfers = len(transfers_of(entries))
        figures.splits = len(splits_of(entries))
        figures.rounds = len(rounds_of(entries))  # as `ballast rounds` counts them
        figures.first_transfer_s = next(
            (round((e.at_ms - self._typed_ms) / 1000, 1) for e in transfers_of(entries)), None
        )

    def _end_rounds(self) -> None:
        """Stop the controller before the clients, once nothing is under way: its last rounds are those with traffic."""
        self.cluster.command("mode", mode=PAUSED)
        if self._wait("what is under way", lambda state: not list_under_way(state)):
            self.cluster.tell("the Spark job is stopped: there is nothing left to balance")
            self.cluster.children["job"].stop(JOB_STOP_S)

    def _take_balance(self) -> None:
        """The last round that is stored counts: clients still send, so its loads are as true as those before."""
        _ = self.cluster.state  # reads what the job has written until it stopped
        self.screen.closing()
        self.highlights.entries = list(self.cluster.entries)
        self.figures.take_balance(rounds_of(self.highlights.entries))

    # ------------------------------------------------------------ inside

    def _act(self, text: str, counts: bool = True) -> None:
        self._acts += counts
        self.screen.act(f"{self._acts}/{ACTS} {text}" if counts else text)

    def _heat(self, broker: str) -> None:
        """Spread the extra traffic over the broker's bundles, so that moving single bundles can relieve it."""
        state = self.cluster.state
        held = {topic: str(bundle_of(state, topic)) for topic in topics_of(state, broker)}
        reference = self.cluster.settings.reference
        operations_per_s = HOT_SHARE * reference.cpu_pct / 100 * 1e6 / max(1.0, reference.cpu_us_per_message)
        self.workload.set_rates(heat_rates(held, self._base, operations_per_s))

    def _relief(self, started_ms: int, hot: str, first: bool) -> None:
        shed = self.cluster.settings.shedding
        overloaded, difference = shed.overloaded_threshold_pct / 100, shed.difference_points / 100

        def found() -> tuple[RoundView, RoundView] | None:
            rounds = [r for r in rounds_of(self.cluster.entries) if r.journaled_ms > started_ms]
            return find_relief(rounds, overloaded, difference)

        self._wait(f"relief of {hot}", lambda _: found() is not None, at_least_s=RELIEF_S, by_moves=True)
        relief = found()
        if relief is None or not first:
            return
        peak, end = relief
        self.figures.skew_spread_before = round(peak.spread, 3)
        self.figures.skew_spread_after = round(end.spread, 3)
        self.figures.skew_to_relief_s = round((end.journaled_ms - started_ms) / 1000, 1)

    def _wait(
        self, what: str, holds: Callable[[ClusterState], bool], at_least_s: float = 0.0, by_moves: bool = False
    ) -> bool:
        """Whether it came in time. `by_moves`: it comes by moves of rounds, which a plan may hold back."""
        try:
            self.cluster.wait_until(holds, max(self.step_s, at_least_s), what, needs="job")
        except ProcessFailed as error:
            if not self.cluster.children["job"].alive:
                raise
            plan = self.cluster.state.plan if by_moves else None
            why = f"; {describe_plan(plan)}" if plan is not None else ""
            self._act(f"not seen: {error}{why}", counts=False)
            return False
        return True

    def _look(self, state: ClusterState) -> None:
        """Read the evidence of new rounds."""
        entries = self.cluster.entries
        fresh = [e for e in entries[self._looked_at :] if e.kind is Kind.ROUND and not e.data.get("challenger")]
        self._looked_at = len(entries)
        balancing = self.cluster.settings
        tolerance = balancing.steady.tolerance if balancing.rounds.strategy == "steady" else 0.0
        for entry in fresh:
            view = EvidenceView(Reader(self.cluster.settings))
            at_ms = int(entry.data["at_ms"])
            decisions = view.decisions(round_id=str(entry.data["round_id"]))
            skipped = {d["source"]: d["evidence"] for d in decisions if d["kind"] == "skip" and not d["challenger"]}
            scores = view.scores({"at_ms": at_ms, "attempt_id": entry.attempt_id})
            living = [row for row in scores if state.session_of(row["broker"]) is not None]
            stand = [Standing.from_row(row, tolerance, skipped.get(row["broker"], {})) for row in living]
            decided = sum(count for kind, count in entry.data["counts"].items() if kind != "skip")
            self._looks.append(Look(at_ms, decided, tuple(stand)))


def check_journal(root: str, read_state: Callable[[], ClusterState]) -> None:
    """Raise InvariantBroken unless the journal in the tables at `root`, folded from its start, gives `read_state()`.

    The state is read first: a handle on the journal reads no entry that was committed after it was opened.
    """
    state = read_state()
    check_fold(ClusterState(), [e for e in Journal(root).read_since(0) if e.seq <= state.seq], state)
    check_rings(state)
