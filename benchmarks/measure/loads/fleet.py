"""Simulated brokers: the records that fifty agents would send, without their processes. Pure; no Kafka.

A fleet answers `assigning` entries with `serving`, so that its bundles are owned in the journal. Load is lognormal and
seeded. Each report is one of a few variants of its broker with a new sequence: building 1,000 bundle rows a second
would itself be a load on the machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from controller.agent import records as wire
from controller.agent.reports.report import build_report
from controller.brokers.runtime import BundleStats, LoadSample
from controller.bus.producer import to_json
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State
from controller.domain.ring import initial_bundles

VARIANTS = 3
MESSAGE_BYTES = 1_000
INFO = {"runtime": "reference", "can_fence": True, "capacity": {}}


@dataclass(slots=True)
class SimulatedBroker:
    """One broker: its session, the bundles it serves (with epoch), and variants of its report."""

    session: Session
    bundles: tuple[Bundle, ...]
    serving: dict[Bundle, int] = field(default_factory=dict)
    sequence: int = 0
    variants: list[bytes] = field(default_factory=list)

    def heartbeat(self, applied_seq: int, sent_ms: int) -> dict[str, Any]:
        """The record for `heartbeats`."""
        return wire.heartbeat(self.session, applied_seq, sent_ms, INFO)

    def inventory(self, applied_seq: int, sent_ms: int) -> dict[str, Any]:
        """The record for `broker-events` that lists the bundles it serves."""
        return wire.serving_event(self.session, "inventory", self.serving, applied_seq, sent_ms)

    def report(self, sent_ms: int) -> bytes:
        """The next load report."""
        self.sequence += 1
        return stamp(self.variants[self.sequence % len(self.variants)], self.sequence, sent_ms)


class Fleet:
    """Brokers `sim-0001`, …, each with its own namespace."""

    def __init__(
        self, brokers: int, bundles: int, seed: int = 5, nonce: str = "fleet", prefix: str = "sim",
        listed: int | None = None,
    ) -> None:  # fmt: skip
        """`listed`: the busiest bundles of each broker that its reports list, the others are their tail; None: all."""
        self.brokers: dict[str, SimulatedBroker] = {}
        dice = random.Random(seed)
        for number in range(1, brokers + 1):
            session = Session(f"{prefix}-{number:04}", 1, nonce, 1)
            broker = SimulatedBroker(session, tuple(initial_bundles(f"{prefix}/ns-{number:04}", bundles)))
            weights = [dice.lognormvariate(0, 1) for _ in broker.bundles]
            cpu_pct = 200 * min(0.9, 0.4 * dice.lognormvariate(0, 0.3))
            broker.variants = [
                _variant(broker, weights, cpu_pct * dice.uniform(0.9, 1.1), listed or bundles) for _ in range(VARIANTS)
            ]
            self.brokers[session.broker] = broker

    def namespaces(self) -> list[tuple[str, int]]:
        """The namespaces to create, with their numbers of bundles."""
        return [(b.bundles[0].namespace, len(b.bundles)) for b in self.brokers.values()]

    def assign_requests(self, sent_ms: int) -> list[dict[str, Any]]:
        """An assign request for every bundle."""
        pairs = [(b.session.broker, bundle) for b in self.brokers.values() for bundle in b.bundles]
        return [wire.assign_request(broker, bundle, sent_ms) for broker, bundle in pairs]

    def answers(self, entries: Iterable[Entry], sent_ms: int) -> list[tuple[str, dict[str, Any]]]:
        """Broker and event for each entry that one of our brokers must answer; updates what they serve."""
        answers = []
        for entry in entries:
            if entry.kind is not Kind.OWNERSHIP or entry.bundle is None or entry.epoch is None:
                continue
            by, to = self._of(entry.by), self._of(entry.to)
            fields = {"bundle": entry.bundle, "epoch": entry.epoch}
            for broker, kind in self._answers_to(entry, Bundle.parse(entry.bundle), entry.epoch, by, to):
                answers.append((broker.session.broker, wire.event(broker.session, kind, entry.seq, sent_ms, **fields)))
        return answers

    def take_over(self, records: Iterable[Ownership]) -> None:
        """Serve what the journal says that our brokers own."""
        for record in records:
            broker = self.brokers.get(record.by.broker) if record.by is not None else None
            if broker is not None and broker.session == record.by and record.state is State.OWNED:
                broker.serving[record.bundle] = record.epoch

    def _answers_to(
        self, entry: Entry, bundle: Bundle, epoch: int, by: SimulatedBroker | None, to: SimulatedBroker | None
    ) -> list[tuple[SimulatedBroker, str]]:
        """The brokers that answer an entry, and how (docs/agent.md); ours never refuse."""
        if entry.state == State.ASSIGNING.value and to is not None:
            to.serving[bundle] = epoch
            return [(to, "serving")]
        if entry.state == State.TRANSFERRING.value and to is not None:
            return [(to, "accepted")]
        if entry.state == State.OWNED.value and by is not None and bundle in by.serving:
            by.serving[bundle] = epoch
        if entry.state != State.RELEASING.value:
            return []
        answers: list[tuple[SimulatedBroker, str]] = []
        if by is not None and not entry.data.get("released"):
            by.serving.pop(bundle, None)
            answers.append((by, "released"))
        if to is not None and (entry.data.get("released") or entry.data.get("fence")):
            to.serving[bundle] = epoch
            answers.append((to, "serving"))
        return answers

    def _of(self, session: str | None) -> SimulatedBroker | None:
        if not session:
            return None
        parsed = Session.parse(session)
        found = self.brokers.get(parsed.broker)
        return found if found is not None and found.session == parsed else None


def stamp(variant: bytes, sequence: int, sent_ms: int) -> bytes:
    """Add sequence and time to a serialized report."""
    return b'{"sequence":%d,"sent_ms":%d,' % (sequence, sent_ms) + variant[1:]


def serialize(report: dict[str, Any]) -> bytes:
    """Serialize a report without sequence and time, for `stamp`."""
    return to_json({name: value for name, value in report.items() if name not in ("sequence", "sent_ms")})


def _variant(broker: SimulatedBroker, weights: list[float], cpu_pct: float, listed: int) -> bytes:
    share = cpu_pct / sum(weights)
    stats = {bundle: _stats(share * weight) for bundle, weight in zip(broker.bundles, weights, strict=True)}
    bytes_per_s = sum(s.throughput_in for s in stats.values())
    resources = {
        "cpu": (cpu_pct, 200.0),
        "memory": (300e6 + 1e6 * cpu_pct, 512e6),
        "bandwidth_in": (bytes_per_s, 125e6),
        "bandwidth_out": (bytes_per_s, 125e6),
    }
    sample = LoadSample(resources, stats, rpc_queue_ms=0.4, metadata_latency_ms=1.2)
    return serialize(build_report(broker.session, 0, 0, sample, resources, top_k=listed))


def _stats(cpu_pct: float) -> BundleStats:
    """A bundle that costs `cpu_pct`: 50 messages/s in and out per point."""
    rate = 50 * cpu_pct
    size = rate * MESSAGE_BYTES
    traffic = BundleStats(msg_rate_in=rate, msg_rate_out=rate, throughput_in=size, throughput_out=size)
    return replace(traffic, topics=10, producers=10, consumers=10, sessions=20)
