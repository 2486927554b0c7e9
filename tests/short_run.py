"""A short run of a whole cluster, as tables: five minutes, three brokers, everything an operator asks about.

The step, the rounds, the journal, the evidence, the projections and the load tables are the real ones; brokers answer
by the protocol, time is advanced by hand. The same folder content every time, but for ids that a clock or a dice made.

`play(folder)` tells the story: a shadow round, hot bundles, moves, a split, a refused transfer, a broker killed and
back, bad records; it ends with one bundle in flight, one never owned, and evidence that no journal entry names.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import controller
from controller.config.load import load_settings
from controller.config.policy_values import control_settings, policy_settings
from controller.control.context import Evidence
from controller.control.step import Batch, Watch, step
from controller.domain.apply import fold
from controller.domain.decision import RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BadRecord
from controller.domain.events import (
    AssignRequest,
    BrokerEvent,
    Command,
    Event,
    Heartbeat,
    RoundFinished,
    parse_broker_event,
    parse_command,
)
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import IN_FLIGHT, Ownership, State
from controller.domain.state import JOURNAL, ClusterState
from controller.ledger.append import append_rows
from controller.ledger.evidence import write_evidence, write_step_decisions
from controller.ledger.journal_commit import Journal
from controller.ledger.loads import read_panes
from controller.ledger.projections import Projections
from controller.ledger.snapshots import Snapshots
from controller.ledger.tables import TableRoot
from controller.policy.round import RoundInputs, run_with_challengers
from controller.service.control_quarantine import quarantine_row
from controller.service.records import BadRow, Row
from tests.short_run_load import PANE_MS, LoadRun

START_MS = 1_790_000_000_000  # a full ten seconds
INSTANCE = "lb1.acme-217-c0ffee11"  # host, process and a random part
HOT, USUAL = 5_000.0, 1_000.0  # messages/s in
OVERRIDES = (  # the story is told for headroom: after two hot rounds it moves
    "rounds.mode=shadow", "rounds.strategy=headroom", "split.max_msg_rate_per_s=12000", "loads.short_horizon_s=30",
    "loads.pane_s=10", "rounds.round_interval_s=10", "shedding.grace_period_minutes=30",
)  # fmt: skip


class ShortRun:
    """A controller and obedient brokers on real tables."""

    def __init__(self, folder: Path, start_ms: int = START_MS, overrides: Sequence[str] = OVERRIDES) -> None:
        self.settings = load_settings(None, "demo", [*overrides, f"tables.root={folder}"], env={})
        self.root = TableRoot(folder)
        self.root.create_all()
        self.control = control_settings(self.settings)
        self.state = ClusterState()
        self.now_ms = start_ms  # stands for both clocks
        self.start_ms = start_ms
        self.load = LoadRun(self.root, self.settings.loads.short_horizon_s * 1000)
        self.sessions: dict[str, Session] = {}
        self.refusing: set[str] = set()
        self.entries: list[Entry] = []
        self._journal = Journal(self.root)
        self._projections = Projections(self.root)
        self._random = random.Random(11)
        self._batches = 0
        self._commands = 0
        self._commit([Entry(1, Kind.CONTROLLER_STARTED, INSTANCE, -1, start_ms, data={"lease_ms": 6_000})], -1)
        self._watch = Watch.fresh(self.state, self.now_ms, self.control)
        self._record_config()

    # ------------------------------------------------------------ what happens

    def batch(self, *events: Event) -> list[Entry]:
        """One micro-batch, some tenths of a second later, with a heartbeat of every living broker."""
        self.now_ms += self._random.randint(80, 320)
        self._batches += 1
        beats = [Heartbeat(s, self.state.seq, info_of(b)) for b, s in sorted(self.sessions.items())]
        offsets = {"commands": {"0": self._batches}}
        batch = Batch([*beats, *events], offsets, self._batches, INSTANCE, self.now_ms)
        result = step(self.state, self._watch, batch, self.now_ms, self.control)
        for evidence in result.evidence:
            write_evidence(self.root, evidence, self.now_ms, duration_ms=12)
        if result.decided is not None:
            write_step_decisions(self.root, result.decided)
        if result.entries:
            self._commit(result.entries, self._batches)
        return result.entries

    def join(self, broker: str, incarnation: int = 1) -> None:
        """A broker's process starts."""
        self.sessions[broker] = Session(broker, incarnation, f"n{incarnation}", 1)
        self.batch()

    def kill(self, broker: str) -> None:
        """SIGKILL: nothing is heard of it any more; its lease runs out."""
        del self.sessions[broker]
        while any(s.broker == broker for s in self.state.sessions):
            self.now_ms += 700
            self.batch()
        self.settle()

    def command(self, kind: str, **args: Any) -> None:
        """An operator's command, carried out to its end."""
        self._send(kind, args)
        self.settle()

    def command_unanswered(self, kind: str, **args: Any) -> None:
        """An operator's command that the brokers have not answered yet."""
        self._send(kind, args)

    def look_up(self, *bundles: Bundle) -> None:
        """Somebody asks for bundles that nobody owns."""
        self.batch(*(AssignRequest("b1:8080", bundle) for bundle in bundles))
        self.settle()

    def settle(self) -> None:
        """Brokers answer until nothing is in flight."""
        for _ in range(60):
            answers = [a for r in self._in_flight() for a in self._answers(r)]
            if not answers:
                return
            self.batch(*answers)
        raise AssertionError(f"still in flight: {self._in_flight()}")

    def panes(self, count: int) -> None:
        """So many panes of load pass."""
        for _ in range(count):
            end_ms = (self.now_ms // PANE_MS + 1) * PANE_MS
            while self.now_ms < end_ms:  # heartbeats keep coming
                self.now_ms += 2_000
                self.batch()
            self.load.pane(end_ms, self._served())

    def round(self) -> RoundResult:
        """A round on the panes so far; what it decides is carried out."""
        at_ms = self.now_ms // PANE_MS * PANE_MS
        panes = read_panes(self.root, at_ms, self.settings.loads.short_horizon_s * 1000)
        inputs = RoundInputs(
            round_id=str(at_ms), at_ms=at_ms, state=self.state.copy(), brokers=panes.brokers, bundles=panes.bundles,
            settings=policy_settings(self.settings), config_version=self.settings.version,
            code_version=controller.__version__,
        )  # fmt: skip
        results = run_with_challengers(inputs)
        self.batch(*map(RoundFinished, results))
        self.settle()
        return results[0]

    def owned_by(self, broker: str) -> list[str]:
        """Names of the bundles a broker owns, in ring order."""
        records = sorted(self.state.bundles.values(), key=lambda r: r.bundle)
        return [str(r.bundle) for r in records if r.state is State.OWNED and r.by and r.by.broker == broker]

    def quarantine(self, raw: bytes, offset: int) -> None:
        """A bad record on a control topic, judged by the real parsers."""
        parse, topic = (parse_command, "commands") if offset % 2 else (parse_broker_event, "broker-events")
        try:
            parse(raw)
        except BadRecord as error:
            bad = BadRow(Row(topic, 0, offset, self.now_ms, raw), error.rule_id, error.text)
            append_rows(self.root, "quarantine", [quarantine_row(bad, self._batches, self.now_ms)])
            return
        raise AssertionError(f"{raw!r} is not bad")

    def orphan_evidence(self, result: RoundResult) -> None:
        """Evidence of a round whose journal entry never came: the controller died in between."""
        lost = dataclasses.replace(result, round_id=f"{result.round_id}-lost")
        write_evidence(self.root, Evidence(lost, {}, f"{INSTANCE}-lost", self.state.mode), self.now_ms)

    def project(self) -> None:
        """Projections and a base snapshot, as the controller leaves them behind."""
        self._projections.write(self.state)
        Snapshots(self.root).save(self.state, self.now_ms)

    # ------------------------------------------------------------ inside

    def _send(self, kind: str, args: dict[str, Any]) -> None:
        self._commands += 1
        self.batch(Command(f"cmd{self._commands}", kind, args, "anna@ops", "short run"))

    def _commit(self, entries: list[Entry], batch: int) -> None:
        self._journal.commit(entries, INSTANCE, batch)
        self.state = fold(self.state, entries)
        self.entries += entries

    def _in_flight(self) -> list[Ownership]:
        return sorted((r for r in self.state.bundles.values() if r.state in IN_FLIGHT), key=lambda r: r.seq)

    def _answers(self, record: Ownership) -> list[Event]:
        """What the brokers say next about this bundle, as docs/agent.md tells agents to."""
        by, to, kind = record.by, record.to, ""
        who = to
        if record.state is State.ASSIGNING:
            kind = "serving"
        elif record.state is State.TRANSFERRING and to is not None:
            kind = "rejected" if to.broker in self.refusing else "accepted"
        elif record.state is State.SPLITTING:
            who, kind = by, "split_done"
        elif to is None or not record.released:
            who, kind = by, "released"
        else:
            kind = "serving"
        if who is None or who not in self.sessions.values():
            return []
        reason = "304_broker_cap" if kind == "rejected" else ""
        data = {"lower_load": 2.0, "upper_load": 1.0} if kind == "split_done" else {}
        return [BrokerEvent(kind, who, self.state.seq, record.bundle, record.epoch, reason=reason, data=data)]

    def _served(self) -> dict[str, tuple[int, list[str]]]:
        return {broker: (s.incarnation, self.owned_by(broker)) for broker, s in self.sessions.items()}

    def _record_config(self) -> None:
        row = {"config_version": self.settings.version, "instance": INSTANCE, "at_ms": self.now_ms}
        row |= {"code_version": controller.__version__, "config_json": json.dumps(self.settings.dump(), sort_keys=True)}
        append_rows(self.root, "config_history", [row])


def info_of(broker: str) -> dict[str, Any]:
    """What an agent tells of its broker at registration."""
    host = broker.partition(":")[0]
    return {
        "runtime": "reference",
        "authority": JOURNAL,
        "can_fence": True,
        "lookup_url": f"http://{host}:7001",
        "data_address": f"{host}:7002",
        "capacity": {"cpu_pct": 400},
    }


def begin_skewed(folder: Path, brokers: int, bundles: int, hot: int) -> ShortRun:
    """A live cluster before its first round: `hot` bundles of the first broker have several times the usual load."""
    run = ShortRun(folder)
    for number in range(brokers):
        run.join(f"b{number + 1}:8080")
    run.command("create_namespace", namespace="shop/orders", bundles=bundles)
    found = sorted(map(Bundle.parse, run.state.bundles))
    run.look_up(*found)
    run.load.rates = {str(bundle): USUAL for bundle in found}
    run.load.rates |= dict.fromkeys(run.owned_by("b1:8080")[:hot], HOT)
    run.command("mode", mode="live")
    run.panes(3)
    return run


def play(folder: Path, start_ms: int = START_MS) -> ShortRun:
    """The story; see the module's text."""
    run = ShortRun(folder, start_ms)
    for broker in ("b1:8080", "b2:8080", "b3:8080"):
        run.join(broker)
    run.command("create_namespace", namespace="shop/orders", bundles=8)
    run.command("create_namespace", namespace="shop/clicks", bundles=4)
    run.command("create_topic", topic="persistent://shop/orders/paid", partitions=4)
    looked_up = sorted(map(Bundle.parse, run.state.bundles))[1:]  # the first of shop/clicks is never asked for
    run.look_up(*looked_up)
    run.load.rates = {str(bundle): USUAL for bundle in looked_up}
    run.panes(3)
    run.round()

    hot = [b for b in run.owned_by("b1:8080") if b.startswith("shop/orders")][:3]
    run.load.rates |= dict.fromkeys(hot, HOT)
    run.panes(3)
    run.round()  # a first hit
    run.panes(1)
    run.round()  # decided, but the mode is shadow
    run.command("mode", mode="live")
    run.panes(1)
    moved = run.round()
    _disturb(run)
    run.panes(4)
    result = run.round()
    run.orphan_evidence(result)
    assert any(d.kind.value == "transfer" for d in moved.decisions), "the hot broker gave nothing away"
    again = next(d.bundle for d in moved.decisions if d.kind.value == "transfer")
    run.command("unload_bundle", bundle=again)
    for offset, raw in enumerate([b"\xff\xfe", b"{}", b'{"v": 1, "kind": "dance"}', b"not json"]):
        run.quarantine(raw, offset)
    target = next(b for b in run.sessions if b != "b2:8080")
    run.command_unanswered("unload_bundle", bundle=run.owned_by("b2:8080")[0], to=target)
    run.project()
    return run


def _disturb(run: ShortRun) -> None:
    """A refused transfer, a rejected command, splits by command and by a round, a drain, a killed broker."""
    first = run.owned_by("b2:8080")[0]
    run.refusing.add("b3:8080")
    run.command("unload_bundle", bundle=first, to="b3:8080")
    run.refusing.clear()
    run.command("unload_bundle", bundle=first, to="nobody:1")  # rejected
    run.command("split_bundle", bundle=first, unload=True)
    run.load.rates |= dict.fromkeys(_halves(first), run.load.rates[first] / 2)
    big = run.owned_by("b1:8080")[0]
    run.load.rates[big] = 8_000.0
    run.panes(3)
    run.round()  # proposes the split of the big one
    run.load.rates |= dict.fromkeys(_halves(big), 4_000.0)
    run.command("drain", broker="b2:8080")
    run.command("undrain", broker="b2:8080")
    run.kill("b3:8080")
    run.join("b3:8080", incarnation=2)
    run.command("unload_topic", topic="persistent://shop/orders/paid")


def _halves(bundle: str) -> list[str]:
    parsed = Bundle.parse(bundle)
    return [str(half) for half in parsed.split_at(parsed.middle())]
