"""The Pulsar demo, act by act: watch, skew, check and adopt, live, shift, a broker more, a broker killed.

Each act waits for its effect, at most for a time of its own; what did not come in time is said, and the demo goes on.
Only messages that clients lost or got out of order make it fail.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from controller.domain.entries import Entry, Kind
from controller.domain.state import LIVE, ClusterState
from controller.process.children import ProcessFailed
from controller.process.clock import wall_ms
from controller.testbed.demo.figures import RoundView, rounds_of
from controller.testbed.demo.screen.base import Screen
from controller.testbed.local_cluster import BALLAST
from controller.testbed.pulsar.ballast import BallastOnPulsar
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.demo.figures import PulsarDemoFigures, moves_of, spread_of
from controller.testbed.pulsar.spec import NIC_GBPS
from controller.testbed.pulsar.traffic.owners import locate_topics
from controller.testbed.pulsar.traffic.placing import put_in_place, wait_for_owners
from controller.testbed.pulsar.traffic.rates import even_rates, heat, topics_of
from controller.testbed.pulsar.traffic.report import gaps_between
from controller.testbed.pulsar.traffic.traffic import Traffic

NAMESPACE, BUNDLES, TOPICS = "demo/load", 24, 48
SIZE_BYTES = 1024
EVEN_PER_S, HOT_PER_S = 600.0, 400.0
ROUND_INTERVAL_S = 10
OVERRIDES = (
    f"rounds.round_interval_s={ROUND_INTERVAL_S}",
    "loads.pane_s=5",
    "loads.short_horizon_s=20",
    "shedding.grace_period_minutes=0.5",
    "shedding.cpu_weight=0",
    f"pulsar_cluster.nic_gbps={NIC_GBPS}",
)
EVEN = 1.25  # spread
SHADOW_S, FIRST_MOVE_S, RELIEF_S, KILL_S, DRAIN_S, OWNERS_S = 60.0, 180.0, 150.0, 90.0, 60.0, 120.0
# Counted from the begin of the start-up: until then effects are waited for, afterwards each for a moment only. What is
# left of twelve minutes is for the last acknowledgements and deliveries, and for stopping everything.
WAITS_END_S, LEAST_S = 620.0, 5.0
AFTER_KILL_MS = 120_000
ACTS = 9


class PulsarDemo:
    """One run on a cluster that is up, with Ballast in shadow."""

    def __init__(
        self, pulsar: PulsarCluster, ballast: BallastOnPulsar, screen: Screen, folder: Path, began_s: float
    ) -> None:
        """`began_s`: when the start-up began, by the monotonic clock."""
        self.pulsar, self.ballast, self.screen = pulsar, ballast, screen
        self.figures = PulsarDemoFigures(round_interval_s=ROUND_INTERVAL_S)
        self.topics = topics_of(NAMESPACE, TOPICS)
        self.traffic = Traffic(pulsar, folder / "clients", self.topics, SIZE_BYTES)
        self._acts = 0
        self._deadline_s = began_s + WAITS_END_S
        self._killed_ms: int | None = None

    def run(self, short: bool = False) -> PulsarDemoFigures:
        """All acts, then the check of the clients. `short`: only until the first skew is relieved."""
        self._act(f"{TOPICS} topics in {BUNDLES} bundles, and clients that send and check")
        self.pulsar.admin.create_namespace(self.pulsar.spec.broker_names[0], NAMESPACE, BUNDLES)
        with self.traffic:
            self._settle()
            hot, skewed_ms = self._skew()
            self._adopt_and_go_live(skewed_ms)
            if not short:
                self._shift(hot)
                self._add_broker()
                self._kill()
            self._finish()
        return self.figures

    # ------------------------------------------------------------ acts

    def _settle(self) -> None:
        """Even traffic to every broker, which the journal knows about. Pulsar alone would leave all of it on one."""
        self.traffic.set_rates(even_rates(self.topics, EVEN_PER_S))
        self.traffic.wait_until_flowing()
        names = self.pulsar.spec.broker_names
        places = wait_for_owners(self.pulsar, NAMESPACE, self.topics, OWNERS_S)
        bundles = sorted({place.bundle for place in places.values()})
        self.screen.doing("bundles are spread over the brokers")
        wanted = {bundle: names[at % len(names)] for at, bundle in enumerate(bundles)}
        put_in_place(self.pulsar, NAMESPACE, self.topics, wanted, OWNERS_S)
        ids = {bundle: self.pulsar.spec.broker_id(name) for bundle, name in wanted.items()}

        def seen(state: ClusterState) -> bool:
            found = state.observed.bundles
            return all(bundle in found and found[bundle].broker == broker for bundle, broker in ids.items())

        self._wait("the observation of all bundles", seen, SHADOW_S)

    def _skew(self) -> tuple[str, int]:
        counts = self._topics_by_broker()
        hot = max(sorted(counts), key=lambda name: counts[name])
        self._act(f"skew: the topics of {hot} get hot; Ballast is in shadow and only says what it would do")
        began_ms = wall_ms()
        self._heat(hot)
        self._wait(
            "a round that would act",
            lambda _: any(
                entry.kind is Kind.ROUND and entry.at_ms > began_ms and _decided(entry)
                for entry in self.ballast.entries
            ),
            SHADOW_S,
        )
        return hot, began_ms

    def _adopt_and_go_live(self, skewed_ms: int) -> None:
        self._act("check: may Ballast send orders? Pulsar's own balancer is on, so it may not")
        self._show("check")
        self._act("adopt: what it would change in Pulsar, and then the change")
        self._show("adopt")
        self._show("adopt", "--apply")
        self._act("live: Ballast acts")
        self.ballast.set_mode(LIVE)
        began_ms = max(skewed_ms, wall_ms())
        if self._wait("the first move", lambda _: bool(moves_of(self.ballast.entries)), FIRST_MOVE_S):
            first = moves_of(self.ballast.entries)[0]
            self.figures.skew_to_first_move_s = round((first.ended_ms - began_ms) / 1000, 1)
        worst = [spread for view in self._rounds(skewed_ms) if (spread := spread_of(view)) is not None]
        self.figures.spread_before = round(max(worst), 3) if worst else None
        if self._wait_for_relief(began_ms):
            self.figures.skew_to_relief_s = round((wall_ms() - began_ms) / 1000, 1)

    def _shift(self, before: str) -> None:
        counts = self._topics_by_broker()
        hot = max((name for name in sorted(counts) if name != before), key=lambda name: counts[name])
        self._act(f"shift: what was hot cools down, the topics of {hot} get hot")
        began_ms = wall_ms()
        self._heat(hot)
        self._wait_for_relief(began_ms)

    def _add_broker(self) -> None:
        self._act("join: one more broker, empty, is to get its share")
        self.screen.doing("a broker starts (a JVM)")
        name = self.pulsar.add_broker()
        broker = self.pulsar.spec.broker_id(name)
        self._wait(
            f"the first bundles of {name}",
            lambda state: any(seen.broker == broker for seen in state.observed.bundles.values()),
            RELIEF_S,
        )

    def _kill(self) -> None:
        counts = self._topics_by_broker()
        victim = max(sorted(counts), key=lambda name: counts[name])
        self._act(f"kill: SIGKILL to {victim}, which serves {counts[victim]} topics; Pulsar places them anew")
        self._killed_ms = wall_ms()
        self.pulsar.kill(victim)
        gone = self.pulsar.spec.broker_id(victim)
        orphans = {name for name, seen in self.ballast.state.observed.bundles.items() if seen.broker == gone}
        self._wait(
            f"new owners of {len(orphans)} bundles",
            lambda state: orphans.isdisjoint(
                name for name, seen in state.observed.bundles.items() if seen.broker in (None, gone)
            ),
            KILL_S,
        )
        self._wait_for_relief(wall_ms())

    def _finish(self) -> None:
        self.screen.closing()
        entries, rounds = list(self.ballast.entries), self._rounds(0)
        last = [spread for view in rounds if (spread := spread_of(view)) is not None]
        self.figures.rounds, self.figures.spread_after = len(rounds), round(last[-1], 3) if last else None
        self._act("check: what did the clients lose?")
        report = self.traffic.stop(DRAIN_S)
        self.figures.take_orders(entries)
        self.figures.take_clients(report, self.topics, moves_of(entries))
        if self._killed_ms is not None:
            until_ms = self._killed_ms + AFTER_KILL_MS
            self.figures.kill_gap_ms = gaps_between(report.publish_gaps, self.topics, self._killed_ms, until_ms)

    # ------------------------------------------------------------ inside

    def _act(self, text: str) -> None:
        self._acts += 1
        self.screen.act(f"{min(self._acts, ACTS)}/{ACTS} {text}")

    def _heat(self, broker: str) -> None:
        """Even traffic, and more to the topics that the broker serves now, the same for each of their bundles."""
        places = locate_topics(self.pulsar, NAMESPACE, self.topics)
        hot = {topic: place.bundle for topic, place in places.items() if place.broker == broker}
        self.traffic.set_rates(heat(even_rates(self.topics, EVEN_PER_S), hot, HOT_PER_S))

    def _topics_by_broker(self) -> Counter[str]:
        places = locate_topics(self.pulsar, NAMESPACE, self.topics)
        return Counter(place.broker for place in places.values() if place.broker)

    def _rounds(self, since_ms: int) -> list[RoundView]:
        return [view for view in rounds_of(self.ballast.entries) if view.at_ms >= since_ms]

    def _show(self, command: str, *more: str) -> None:
        """Run `ballast pulsar check` or `adopt` as a user would, and show what it says."""
        conf = ["--conf", str(self.ballast.cluster.config_file)]
        done = subprocess.run([*BALLAST, "pulsar", command, *conf, *more], capture_output=True, text=True, check=False)
        self.screen.say([f"$ ballast pulsar {' '.join([command, *more])}", *(done.stdout + done.stderr).splitlines()])

    def _wait_for_relief(self, since_ms: int) -> bool:
        """Wait for a round within the limit that follows one beyond it, or for the fourth where none is beyond."""

        def relieved(_: ClusterState) -> bool:
            spreads = [spread for view in self._rounds(since_ms) if (spread := spread_of(view)) is not None]
            beyond = [at for at, spread in enumerate(spreads) if spread > EVEN]
            return bool(spreads) and spreads[-1] <= EVEN and (bool(beyond) or len(spreads) > 3)

        return self._wait(f"a round in which no broker is {EVEN - 1:.0%} above the mean", relieved, RELIEF_S)

    def _wait(self, what: str, holds: Callable[[ClusterState], bool], timeout_s: float) -> bool:
        left_s = max(LEAST_S, self._deadline_s - time.monotonic())
        try:
            self.ballast.wait_until(holds, min(timeout_s, left_s), what)
        except ProcessFailed as error:
            if not self.ballast.cluster.children["job"].alive:
                raise
            self.figures.not_seen.append(what)
            self.screen.say([f"not seen: {error}"])
            return False
        return True


def _decided(entry: Entry) -> int:
    """How many moves and splits a round decided."""
    return sum(count for kind, count in entry.data["counts"].items() if kind != "skip")
