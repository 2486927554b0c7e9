"""One run of chaos: storms of faults, how long the system takes to be whole again, and a calm phase after each.

The system is whole again when every bundle is served and every client goes on. In a calm phase bundles are handed over
by command, and then two brokers are killed alone, one after the other: only these are measured for gaps and failovers,
because in a storm whoever would notice may be down itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from controller.domain.errors import BallastError
from controller.domain.state import ClusterState
from controller.process.clock import boot_ms
from controller.testbed.chaos.acks import AckWatch
from controller.testbed.chaos.faults import Blow, Fault
from controller.testbed.chaos.stage import JOB, Stage, is_served, served_bundles
from controller.testbed.demo.workload import TOPICS, bundle_of

WHOLE_WITHIN_S = 240.0
HAND_OVERS = 6  # in a calm phase
HAND_OVER_S = 30.0
FAILOVERS = 2  # in a calm phase, one after the other
LOGGED_AFTER_S = 1.5  # clients write down what they saw


class NotWhole(BallastError):
    """Raised when the system has not recovered from a storm."""


@dataclass(slots=True)
class Record:
    """What was done and measured. `calm_ms`: phases on the boot clock, without the failovers. `noticed_ms`: of each
    failover, the part until the journal had the end of the killed broker's session."""

    faults: Counter[str] = field(default_factory=Counter)
    storms: int = 0
    whole_after_s: list[float] = field(default_factory=list)
    calm_ms: list[tuple[float, float]] = field(default_factory=list)
    failovers_ms: list[float] = field(default_factory=list)
    noticed_ms: list[float] = field(default_factory=list)


class Chaos:
    """`storms`: of faults of `kinds`. `tell` gets a line for whatever happens. `acks`: of the clients that send."""

    def __init__(
        self, stage: Stage, storms: Iterator[Sequence[Blow]], kinds: Mapping[str, Fault], tell: Callable[[str], None],
        acks: AckWatch,
    ) -> None:  # fmt: skip
        self.stage, self.record, self._acks = stage, Record(), acks
        self._storms, self._kinds, self._tell = storms, kinds, tell
        self._turn = 0  # of the brokers that bundles are handed to

    def run(self, for_s: float) -> None:
        """Storm after storm until the time is over. Raises NotWhole."""
        until_s = time.monotonic() + for_s
        self._become_whole()
        while time.monotonic() < until_s:
            self._storm(next(self._storms))
            self.record.whole_after_s.append(self._become_whole())
            self._hand_over()
            for _ in range(FAILOVERS):
                self._fail_over()
                self._become_whole()

    def _storm(self, blows: Sequence[Blow]) -> None:
        self.record.storms += 1
        with ThreadPoolExecutor(len(blows)) as pool:
            for done in [pool.submit(self._suffer, blow) for blow in blows]:
                done.result()

    def _suffer(self, blow: Blow) -> None:
        time.sleep(blow.after_s)
        self._tell(blow.text)
        undo = self._kinds[blow.fault].strike(self.stage, blow)
        self.record.faults[blow.fault] += 1
        try:
            time.sleep(blow.span_s)
        finally:
            undo()

    def _become_whole(self) -> float:
        """How many seconds it took."""
        began_s = time.monotonic()
        while not self.stage.is_whole() or self._acks.waiting():
            if self.stage.supervisor.failure is not None:
                raise NotWhole(f"a process could not be started again: {self.stage.supervisor.failure}")
            if time.monotonic() - began_s > WHOLE_WITHIN_S:
                raise NotWhole(self._what_is_missing())
            time.sleep(0.2)
        took_s = time.monotonic() - began_s
        self._tell(f"whole again after {took_s:.1f} s")
        return took_s

    def _what_is_missing(self) -> str:
        state = self.stage.cluster.state
        used = {str(bundle_of(state, topic)) for topic in TOPICS}
        return (
            f"not whole {WHOLE_WITHIN_S:g} s after a storm: brokers missing: {sorted(self.stage.missing(state))},"
            f" bundles not served: {sorted(used - served_bundles(state).keys())[:5]}, topics that wait:"
            f" {self._acks.waiting()[:5]}, journal seq {state.seq},"
            f" job {'runs' if self.stage.cluster.children[JOB].alive else 'does not run'}"
        )

    def _hand_over(self) -> None:
        """Bundles go to the next broker in turn, one after the other."""
        began_ms = boot_ms()
        for _ in range(HAND_OVERS):
            self._turn += 1
            target = self.stage.agents[self._turn % len(self.stage.agents)]
            movable = sorted(b for b, owner in served_bundles(self.stage.cluster.state).items() if owner != target)
            if movable:
                bundle = movable[self._turn % len(movable)]
                self.stage.cluster.command("unload_bundle", bundle=bundle, to=target)
                self.stage.cluster.wait_until(is_served, HAND_OVER_S, f"the hand-over of {bundle}")
        time.sleep(LOGGED_AFTER_S)
        self.record.calm_ms.append((began_ms, boot_ms()))

    def _fail_over(self) -> None:
        """Kill the broker with the most bundles, and wait until others serve all of them."""
        cluster, state = self.stage.cluster, self.stage.cluster.state
        ((victim, bundles),) = Counter(served_bundles(state).values()).most_common(1)
        session = state.session_of(victim)
        self._tell(f"{victim} is killed alone, with {bundles} bundles")
        began_s = time.monotonic()
        self.stage.kill(victim)
        try:
            cluster.wait_until(lambda s: s.session_of(victim) != session, WHOLE_WITHIN_S, f"the end of {session}")
            noticed_s = time.monotonic()
            cluster.wait_until(lambda s: _is_served_without(victim, s), WHOLE_WITHIN_S, "the failover")
            ended_s = time.monotonic()
        finally:
            self.stage.release(victim)
        self.record.failovers_ms.append(1000 * (ended_s - began_s))
        self.record.noticed_ms.append(1000 * (noticed_s - began_s))


def _is_served_without(victim: str, state: ClusterState) -> bool:
    return is_served(state) and victim not in served_bundles(state).values()
