"""From panes to a move: the worker process computes the round, the control query journals it, with its evidence."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from controller.bus.topics import TopicNames
from controller.config.settings import Settings
from controller.domain.ids import Session
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.ownership import State
from controller.ledger.append import append
from controller.ledger.evidence import read_joined
from controller.ledger.tables import TableRoot
from controller.policy.round import replay_round
from controller.testbed.kafka import EmbeddedKafka
from schemas.arrow import arrow_table
from schemas.load_tables import BROKER_PANES, BUNDLE_PANES
from tests.spark.control_bench import Agents, Controller, Heartbeats, Journal, settings_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

T0 = 1_800_000_000_000  # a multiple of the round interval
PANE_MS = 10_000


class Loads:
    """Panes by hand: what the loads query would have written for these brokers."""

    def __init__(self, settings: Settings, owned: dict[str, list[str]], cpu_pct: dict[str, float]) -> None:
        self._root = TableRoot(settings.tables.root)
        self._owned = owned
        self._cpu_pct = cpu_pct
        self._batch = -1

    def panes(self, *ends_ms: int) -> None:
        """One pane of every broker for each end, in one commit; the newest report lies just before the last end."""
        self._batch += 1
        bundles = [
            self._bundle(end_ms, broker, name)
            for end_ms in ends_ms
            for broker, names in self._owned.items()
            for name in names
        ]
        brokers = [self._broker(end_ms, broker) for end_ms in ends_ms for broker in self._owned]
        append(self._root, "bundle_panes", arrow_table(BUNDLE_PANES, bundles), "t", self._batch)
        append(self._root, "broker_panes", arrow_table(BROKER_PANES, brokers), "t", self._batch)

    def _bundle(self, end_ms: int, broker: str, name: str) -> dict[str, Any]:
        share = self._cpu_pct[broker] / len(self._owned[broker])
        row: dict[str, Any] = _zeros(BUNDLE_PANES.names)
        for field in ("msg_rate_in", "msg_rate_out"):
            row |= {f"{field}_sum": 2 * share * 10, f"{field}_max": share * 10}
        row |= {"topics_sum": 2.0, "topics_max": 1.0, "pane_end_ms": end_ms, "bundle": name, "broker": broker}
        return row | {"namespace": name.rsplit("/", 1)[0], "reports": 2, "writer": "t", "batch_id": self._batch}

    def _broker(self, end_ms: int, broker: str) -> dict[str, Any]:
        row: dict[str, Any] = _zeros(BROKER_PANES.names)
        for resource in RESOURCES:
            usage = self._cpu_pct[broker] if resource == "cpu" else 1.0
            row |= {f"{resource}_usage_sum": 2 * usage, f"{resource}_usage_max": usage}
            row |= {f"{resource}_limit_sum": 200.0, f"{resource}_known": 2}
        for field in BUNDLE_FIELDS:
            row[f"{field}_sum"] = sum(self._bundle(end_ms, broker, n)[f"{field}_sum"] for n in self._owned[broker])
        row |= {"broker": broker, "incarnation": 1, "reports": 2, "bundles_sum": 2.0 * len(self._owned[broker])}
        row |= {"first_event_ms": end_ms - PANE_MS, "last_event_ms": end_ms - 1, "last_sequence": self._batch}
        return row | {"pane_end_ms": end_ms, "writer": "t", "batch_id": self._batch}


def _zeros(names: tuple[str, ...]) -> dict[str, Any]:
    return dict.fromkeys(names, 0)


@pytest.fixture
def settings(tmp_path: Path, kafka: EmbeddedKafka, topics: TopicNames) -> Settings:
    return settings_for(tmp_path, kafka.bootstrap, topics)


def own_all(journal: Journal, agents: Agents, bundles: int) -> dict[str, list[str]]:
    """A namespace whose bundles are all served: broker -> its bundles."""
    agents.command("c1", "create_namespace", namespace="t/n", bundles=bundles)
    state = journal.wait(lambda s: "t/n" in s.namespaces, "namespace")
    for bundle in state.namespaces["t/n"]:
        agents.assign_request("b1:80", str(bundle))
    state = journal.wait(lambda s: all(r.to for r in s.bundles.values()), "assignments")
    owned: dict[str, list[str]] = {"b1:80": [], "b2:80": []}
    for name, record in sorted(state.bundles.items()):
        assert record.to is not None
        owned[record.to.broker].append(name)
        agents.event("serving", record.to.broker, bundle=name, epoch=record.epoch, applied_seq=state.seq)
    journal.wait(lambda s: all(r.state is State.OWNED for r in s.bundles.values()), "ownership")
    return owned


@pytest.mark.covers("leader-sees-all")
def test_two_rounds_of_skew_move_a_bundle(settings: Settings, kafka: EmbeddedKafka, spark: SparkSession) -> None:
    agents, journal = Agents(kafka.bootstrap, TopicNames(settings.kafka.topic_prefix)), Journal(settings)
    with Controller(settings, spark) as running, Heartbeats(agents, "b1:80", "b2:80"):
        journal.wait(lambda s: len(s.sessions) == 2, "registration")
        owned = own_all(journal, agents, 8)
        loads = Loads(settings, owned, {"b1:80": 90.0, "b2:80": 5.0})
        loads.panes(*range(T0 - 5 * PANE_MS, T0 + 2 * PANE_MS, PANE_MS))  # up to T0 + 10 s: the round at T0 is due
        journal.wait(lambda s: s.round_at_ms == T0, "first round")
        assert not any(r.state is State.TRANSFERRING for r in journal.state.bundles.values())
        loads.panes(T0 + 2 * PANE_MS)
        journal.wait(lambda s: s.round_at_ms == T0 + PANE_MS, "second round")
        moves = [e for e in journal.of_kind("ownership") if e.state == "transferring"]  # nobody answers them here
        assert {(_broker(e.by), _broker(e.to)) for e in moves} == {("b1:80", "b2:80")}
        assert running.metric("ballast_round_worker_restarts_total") == 0
        agents.command("now", "round_now")
        journal.wait(lambda s: s.rounds == 3, "the commanded round")
    rounds = sorted(read_joined(settings.tables.root, "rounds").to_pylist(), key=lambda row: int(row["wall_ms"]))
    assert [row["at_ms"] for row in rounds] == [T0, T0 + PANE_MS, T0 + PANE_MS]
    assert [row["attempt_id"] for row in rounds[:2]] == [e.attempt_id for e in journal.of_kind("round")][:2]
    for row in rounds:
        assert replay_round(json.loads(row["inputs_json"])) == row["plan_hash"]
        assert row["duration_ms"] >= 0
    executed = [d for d in read_joined(settings.tables.root, "decisions").to_pylist() if d["executed"]]
    assert {d["decision_id"] for d in executed} == {e.decision_id for e in journal.entries if e.decision_id}
    agents.close()


def _broker(session: str | None) -> str:
    return Session.parse(session or "").broker


def test_a_killed_worker_is_started_again(settings: Settings, kafka: EmbeddedKafka, spark: SparkSession) -> None:
    agents, journal = Agents(kafka.bootstrap, TopicNames(settings.kafka.topic_prefix)), Journal(settings)
    with Controller(settings, spark) as running, Heartbeats(agents, "b1:80", "b2:80"):
        journal.wait(lambda s: len(s.sessions) == 2, "registration")
        owned = own_all(journal, agents, 2)
        worker = running.part.worker
        journal.wait(lambda s: worker is not None and worker.pid is not None, "worker")
        assert worker is not None
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        loads = Loads(settings, owned, {"b1:80": 20.0, "b2:80": 20.0})
        loads.panes(T0, T0 + PANE_MS)
        state = journal.wait(lambda s: s.rounds == 1, "a round by the next worker")
        assert state.round_at_ms == T0
        assert worker.restarts == 1
        assert running.part.failure() is None
    agents.close()
