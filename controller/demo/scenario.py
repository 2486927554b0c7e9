"""What the demo shows, step by step: settle, skew, shift, split under backlog, a new broker, a killed one, audit.

Each step waits for what it is about, not for a time; its limit grows with the minutes asked for. A step that does not
happen in time is said and the demo goes on: only lost, doubled or reordered messages and broken invariants fail it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from controller.clock import wall_ms
from controller.demo.auditor import audit
from controller.demo.figures import DemoFigures, rounds_of, splits_of, transfers_of
from controller.demo.local_cluster import LocalCluster
from controller.demo.processes import ProcessFailed
from controller.demo.workload import BASE_RATE_PER_S, HOT_SHARE, TOPICS, Workload, bundle_of, heated, topics_of
from controller.domain.errors import InvariantBroken
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.ledger.journal import Journal
from controller.sim.invariants import check_fold, check_rings

DRAIN_S = 120.0  # what is left unread then counts as lost: a slow machine must not look like that


class Scenario:
    """One run on a cluster that is up."""

    def __init__(self, cluster: LocalCluster, minutes: float, tell: Callable[[str], None], typed_ms: int) -> None:
        self.cluster = cluster
        self.tell = tell
        self.step_s = max(45.0, minutes * 60 / 4)
        self.figures = DemoFigures(tables=cluster.settings.tables.root)
        self.workload = Workload(cluster)
        self._typed_ms = typed_ms

    def run(self) -> DemoFigures:
        """All steps, then the audit."""
        self._settle()
        hot = self._skew()
        self._shift(hot)
        self._split_under_backlog()
        self._add_broker()
        self._kill()
        self._finish()
        return self.figures

    # ------------------------------------------------------------ steps

    def _settle(self) -> None:
        self.tell("creating namespaces and topics, starting clients")
        self.workload.create()
        self.workload.start()
        self._wait("every topic is served", lambda state: all(_served(state, t) for t in TOPICS))
        before = len(rounds_of(self.cluster.entries))
        self._wait("two rounds", lambda _: len(rounds_of(self.cluster.entries)) >= before + 2)

    def _skew(self) -> str:
        """Make the topics of one broker hot; measured until a round finds no broker above the lines."""
        counts = Counter(t for t in map(self._owner_of, TOPICS) if t)
        hot = counts.most_common(1)[0][0]
        self.tell(f"skew: the topics of {hot} get hot")
        started_ms = wall_ms()
        self._heat(hot)
        self._relief(started_ms, hot, first=True)
        return hot

    def _shift(self, old: str) -> None:
        others = [b.id for b in self.cluster.state.live_brokers() if b.id != old]
        hot = max(others, key=lambda b: len(topics_of(self.cluster.state, b)))
        self.tell(f"shift: {old} cools down, the topics of {hot} get hot")
        self.workload.set_rates(dict.fromkeys(TOPICS, BASE_RATE_PER_S))
        started_ms = wall_ms()
        self._heat(hot)
        self._relief(started_ms, hot, first=False)
        self.workload.set_rates(dict.fromkeys(TOPICS, BASE_RATE_PER_S))

    def _split_under_backlog(self) -> None:
        """The bundle with most topics gets a subscription that does not acknowledge, and more traffic than allowed."""
        state = self.cluster.state
        bundle, count = Counter(bundle_of(state, t) for t in TOPICS).most_common(1)[0]
        topics = [t for t in TOPICS if bundle_of(state, t) == bundle]
        self.tell(f"split: {bundle} with {count} topics gets a backlog and too much traffic")
        self.workload.build_backlog(topics)
        limit = self.cluster.settings.split.max_msg_rate_per_s or 400.0
        rate = 1.3 * limit / 2 / count  # every message is counted in and at least once out
        self.workload.set_rates(dict.fromkeys(topics, rate))
        self._wait("the split", lambda state: state.bundles[str(bundle)].state is State.RETIRED)
        time.sleep(3)
        self.workload.set_rates(dict.fromkeys(topics, BASE_RATE_PER_S))
        self.workload.clear_backlog()

    def _add_broker(self) -> None:
        number = len(self.cluster.state.brokers) + 1
        self.tell(f"broker-{number} joins")
        self.cluster.start_agent(f"broker-{number}")
        self._wait("its registration", lambda state: state.session_of(f"broker-{number}") is not None)

    def _kill(self) -> None:
        """SIGKILL the busiest broker; measured until the journal says that all it owned is served again."""
        state = self.cluster.state
        counts = Counter(r.by.broker for r in state.bundles.values() if r.by)
        victim = counts.most_common(1)[0][0]
        self.tell(f"kill: SIGKILL to {victim}, which owns {counts[victim]} bundles")
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

        if self._wait("the failover", served):
            self.figures.failover_s = round(time.monotonic() - killed, 2)
        time.sleep(3)

    def _finish(self) -> None:
        self.tell("clients stop; readers read the rest; the auditor reads the store")
        self.workload.stop(DRAIN_S)
        report = audit(self.cluster.folder / "store", [p for p in self.workload.logs if p.exists()], drained=True)
        figures = self.figures
        figures.take_audit(report)
        try:
            self._check_journal()
        except InvariantBroken as error:
            figures.invariants = str(error)
        entries = self.cluster.entries  # all that the check has just read: what the figures count is what was checked
        figures.transfers = len(transfers_of(entries))
        figures.splits = len(splits_of(entries))
        figures.rounds = len(rounds_of(entries))
        figures.first_transfer_s = next(
            (round((e.at_ms - self._typed_ms) / 1000, 1) for e in transfers_of(entries)), None
        )

    # ------------------------------------------------------------ inside

    def _heat(self, broker: str) -> None:
        """Spread the extra traffic over the broker's bundles, so that single ones can relieve it."""
        state = self.cluster.state
        held = {topic: str(bundle_of(state, topic)) for topic in topics_of(state, broker)}
        reference = self.cluster.settings.reference
        messages_per_s = HOT_SHARE * reference.cpu_pct / 100 * 1e6 / max(1.0, reference.cpu_us_per_message)
        self.workload.set_rates(heated(held, messages_per_s / 2.2))  # once in, 1.2 times out

    def _relief(self, started_ms: int, hot: str, first: bool) -> None:
        shed = self.cluster.settings.shedding
        overloaded, difference = shed.overloaded_threshold_pct / 100, shed.difference_points / 100

        def relieved(_: ClusterState) -> bool:
            rounds = [r for r in rounds_of(self.cluster.entries) if r.journaled_ms > started_ms]
            hit = next((i for i, r in enumerate(rounds) if not r.relieved(overloaded, difference)), None)
            return hit is not None and any(r.relieved(overloaded, difference) for r in rounds[hit:])

        if not self._wait(f"relief of {hot}", relieved, at_least_s=120) or not first:
            return
        rounds = [r for r in rounds_of(self.cluster.entries) if r.journaled_ms > started_ms]
        peak = max(range(len(rounds)), key=lambda i: rounds[i].spread)
        end = next(r for r in rounds[peak:] if r.relieved(overloaded, difference))
        self.figures.spread_before = round(rounds[peak].spread, 3)
        self.figures.spread_after = round(end.spread, 3)
        self.figures.skew_to_relief_s = round((end.journaled_ms - started_ms) / 1000, 1)

    def _wait(self, what: str, holds: Callable[[ClusterState], bool], at_least_s: float = 0.0) -> bool:
        try:
            self.cluster.wait_until(holds, max(self.step_s, at_least_s), what, needs="job")
        except ProcessFailed as error:
            if not self.cluster.children["job"].alive:
                raise
            self.tell(f"not seen: {error}")
            return False
        return True

    def _owner_of(self, topic: str) -> str | None:
        session = self.cluster.state.bundles[str(bundle_of(self.cluster.state, topic))].owner_for_clients()
        return session.broker if session else None

    def _check_journal(self) -> None:
        journal = Journal(self.cluster.settings.tables.root)
        state = self.cluster.state
        check_fold(ClusterState(), [e for e in journal.read_since(0) if e.seq <= state.seq], state)
        check_rings(state)


def _served(state: ClusterState, topic: str) -> bool:
    record = state.bundles[str(bundle_of(state, topic))]
    return record.state is State.OWNED
