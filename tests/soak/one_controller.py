"""A controller on real tables without Spark and Kafka: its records are made here, its clock is turned by hand.

It is `ControlLoop` with `ControlTables` and the projector, as `jobs.control_runner` puts them together.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from controller.agent import records as wire
from controller.bus.topics import TopicNames
from controller.config.policy_values import control_settings
from controller.config.sections.control import Control
from controller.config.sections.platform import Tables
from controller.config.settings import Settings
from controller.domain.entries import Entry
from controller.domain.ids import Bundle, Session
from controller.domain.state import ClusterState
from controller.process.clock import wall_ms
from controller.service.feed import Feed
from controller.service.loop import Claim, Clocks, ControlLoop
from controller.service.metrics import ControlMetrics
from controller.service.records import Row
from controller.service.start import claim, first_entries
from controller.service.tables import ControlTables

NAMES = TopicNames("")
KAFKA = {"cluster_id": "soak", "topic_ids": {}}
INFO = {"runtime": "reference", "can_fence": True, "capacity": {}}


class OneController:
    """One instance with the brokers that talk to it. `boot_ms` is the test's clock."""

    def __init__(self, folder: Path, brokers: int, snapshot_every: int = 200) -> None:
        settings = Settings(
            tables=Tables(root=str(folder / "tables")), control=Control(snapshot_every_entries=snapshot_every)
        )
        self.root, self.boot_ms, self.batches, self.offset = settings.tables.root, 1_000, 0, 0
        self.sessions = [Session(f"b-{n}:1", 1, f"n{n}", 1) for n in range(brokers)]
        metrics, control = ControlMetrics(CollectorRegistry()), control_settings(settings)
        self.tables = ControlTables(self.root, "soak", settings, metrics, threading.Event())
        state = self.tables.load_state()
        state = claim(state, first_entries(state, "soak", wall_ms(), control, KAFKA, "soaked"), self.tables.commit)
        clocks = Clocks(lambda: self.boot_ms, wall_ms)
        held = Claim("soak", state, KAFKA)
        self.loop = ControlLoop(held, self.tables, _Silent(), NAMES, control, clocks, metrics)
        self.tables.start_projecting(state)

    @property
    def state(self) -> ClusterState:
        """As of the last batch."""
        return self.loop.state

    def batch(self, *rows: Row, after_ms: int = 1_000, beats: bool = True) -> ClusterState:
        """One batch `after_ms` later, with a tick and a heartbeat of everyone."""
        self.boot_ms += after_ms
        own = [self.row(NAMES.heartbeats, {"v": 1, "kind": "tick", "instance": "soak", "seq": self.state.seq})]
        if beats:
            own += [self.row(NAMES.heartbeats, wire.heartbeat(s, self.state.seq, 0, INFO)) for s in self.sessions]
        self.loop.process(lambda: [*own, *rows], self.batches)
        self.batches += 1
        return self.state

    def inventory(self, session: Session) -> Row:
        """The full list of what a broker serves."""
        serving = {r.bundle: r.epoch for r in self.state.bundles.values() if r.by == session}
        return self.row(NAMES.broker_events, wire.serving_event(session, "inventory", serving, self.state.seq, 0))

    def says(self, session: Session, kind: str, bundle: Bundle, epoch: int) -> Row:
        """An answer of a broker."""
        return self.row(
            NAMES.broker_events, wire.event(session, kind, self.state.seq, 0, bundle=str(bundle), epoch=epoch)
        )

    def command(self, kind: str, **args: Any) -> Row:
        """An operator's command."""
        return self.row(NAMES.commands, {"v": 1, "id": f"c{self.offset}", "kind": kind, "args": args})

    def lookup(self, bundle: Bundle) -> Row:
        """Somebody asks for an unowned bundle."""
        return self.row(NAMES.assign_requests, wire.assign_request(self.sessions[0].broker, bundle, 0))

    def row(self, topic: str, record: Mapping[str, Any]) -> Row:
        """A record on a control topic."""
        self.offset += 1
        return Row(topic, 0, self.offset, wall_ms(), json.dumps(record).encode())

    def stop(self) -> None:
        """As the job stops."""
        self.loop.stop()
        self.tables.stop_projecting(self.state)


class _Silent(Feed):
    """A feed without Kafka: agents of this test read the table."""

    def __init__(self) -> None:
        """No producer."""

    def publish(self, entries: Sequence[Entry]) -> None:
        """Nobody listens."""

    def poke(self) -> None:
        """Batches come from this test."""
