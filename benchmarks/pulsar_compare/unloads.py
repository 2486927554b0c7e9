"""Measures what one unload costs clients: Ballast's orders and Pulsar's plain unloads, in turn on the same bundles.

Both disconnect the clients of a bundle once. A plain unload names no target: Pulsar chooses, and may choose the same
broker, to which clients come back sooner. So those that moved the bundle have figures of their own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from benchmarks.measure.figures import summary
from benchmarks.pulsar_compare.play import Stage
from controller.domain.entries import Kind
from controller.process.children import ProcessFailed
from controller.process.clock import wall_ms
from controller.testbed.pulsar.ballast import BallastOnPulsar
from controller.testbed.pulsar.traffic.placing import unload
from controller.testbed.pulsar.traffic.report import Gap, TrafficReport, gaps_between

UNLOADS = 60
BUNDLES = 6
ORDER, PLAIN = "orders", "plain unloads"
APART_S = 3.0  # so that the clients of one have settled before the next
LOGGED_MS = 500  # until what was acknowledged before is in the log
ORDER_TIMEOUT_S, CLIENTS_TIMEOUT_S = 180.0, 60.0


@dataclass(frozen=True)
class Unload:
    """One unload, and the time in which its gap ended."""

    kind: str
    bundle: str
    since_ms: int
    until_ms: int
    outcome: str
    moved: bool  # another broker owns the bundle afterwards


class Unloads:
    """Unloads on a stage with Ballast."""

    def __init__(self, stage: Stage, count: int = UNLOADS) -> None:
        if stage.ballast is None:
            raise ProcessFailed("unloads are compared with Ballast's orders: start it")
        self.stage, self.count = stage, count
        self.ballast: BallastOnPulsar = stage.ballast
        self.done: list[Unload] = []

    def run(self, warm_up_s: float) -> TrafficReport:
        """All unloads; then the clients stop."""
        self.stage.warm_up(warm_up_s)
        bundles = sorted(self.stage.layout.weight_of)[:BUNDLES]
        for number in range(self.count):
            kind = (ORDER, PLAIN)[number % 2]
            bundle = bundles[number // 2 % len(bundles)]
            owner, since_ms = self._owner(bundle), wall_ms()
            outcome = self._order(bundle) if kind == ORDER else self._plain(bundle)
            self.stage.tell(f"unload {number + 1} of {self.count}, {kind}: {outcome}")
            self._wait_for_clients(bundle)
            until_ms = wall_ms()
            self.done.append(Unload(kind, bundle, since_ms, until_ms, outcome, self._owner(bundle) != owner))
        return self.stage.traffic.stop()

    def figures(self, report: TrafficReport) -> dict[str, Any]:
        """Gaps in ms by kind, as producers and consumers saw them: of each unload the longest of its bundle."""
        return {
            kind.replace(" ", "_"): {
                **self._gaps_of([one for one in self.done if one.kind == kind], report),
                "outcomes": sorted({one.outcome for one in self.done if one.kind == kind}),
                "moved": self._gaps_of([one for one in self.done if one.kind == kind and one.moved], report),
            }
            for kind in (ORDER, PLAIN)
        }

    def _gaps_of(self, some: Sequence[Unload], report: TrafficReport) -> dict[str, Any]:
        """Summaries, of count 0 alone where there are none."""
        seen = {"publish_gap_ms": report.publish_gaps, "consume_gap_ms": report.consume_gaps}
        found = {name: self._longest(some, gaps) for name, gaps in seen.items()}
        return {name: summary(values, digits=0) if values else {"count": 0} for name, values in found.items()}

    def _longest(self, some: Sequence[Unload], gaps: Sequence[Gap]) -> list[int]:
        topics = self.stage.layout.bundle_of
        return [
            gaps_between(gaps, [t for t, b in topics.items() if b == one.bundle], one.since_ms, one.until_ms)
            for one in some
        ]

    def _order(self, bundle: str) -> str:
        """Order the bundle to the next broker; returns the outcome."""
        owner = self._owner(bundle)
        brokers = [self.stage.pulsar.spec.broker_id(name) for name in self.stage.pulsar.spec.broker_names]
        owner_id = self.stage.pulsar.spec.broker_id(owner)
        target = brokers[(brokers.index(owner_id) + 1) % len(brokers)]

        def seen(state: Any) -> bool:
            return bundle in state.observed.bundles and state.observed.bundles[bundle].broker == owner_id

        self.ballast.wait_until(seen, ORDER_TIMEOUT_S, f"the observation of {bundle}")
        command = self.ballast.command("unload_bundle", bundle=bundle, to=target)
        found: list[str] = []

        def ended(_: Any) -> bool:
            ends = [e for e in self.ballast.entries if e.kind is Kind.ORDER_ENDED and e.command_id == command]
            found[:] = [str(entry.data["outcome"]) for entry in ends]
            return bool(found)

        self.ballast.wait_until(ended, ORDER_TIMEOUT_S, "the end of the order")
        return found[0]

    def _wait_for_clients(self, bundle: str) -> None:
        """Wait until acknowledgements of all topics of the bundle come again, and a while more."""
        since_ms = wall_ms() + LOGGED_MS
        waiting = {topic for topic, inside in self.stage.layout.bundle_of.items() if inside == bundle}
        deadline = time.monotonic() + CLIENTS_TIMEOUT_S
        with self.stage.traffic.producer_log.open(encoding="utf-8") as log:
            log.seek(0, os.SEEK_END)
            follower = LogFollower(log)
            while waiting and time.monotonic() < deadline:
                waiting -= {
                    entry["topic"]
                    for entry in follower.read_new()
                    if entry["t"] == "topic" and entry["at_ms"] > since_ms
                }
                time.sleep(0.5)
        time.sleep(APART_S)

    def _plain(self, bundle: str) -> str:
        return f"{unload(self.stage.pulsar, bundle, self._owner(bundle), None)}"

    def _owner(self, bundle: str) -> str:
        return next(str(place.broker) for place in self.stage.places().values() if place.bundle == bundle)


class LogFollower:
    """Reads what is appended to a log of JSON lines from where it stands, which may be within a line."""

    def __init__(self, log: TextIO) -> None:
        self._log = log
        self._within = True

    def read_new(self) -> Iterator[dict[str, Any]]:
        """The lines that were completed since the last call, but the first, which may be a part of one."""
        while True:
            before, line = self._log.tell(), self._log.readline()
            if not line.endswith("\n"):
                self._log.seek(before)
                return
            if not self._within:
                yield json.loads(line)
            self._within = False
