"""What chaos finds wrong: in a small run whose store, client log, journal and process logs are real and spoilt."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.measure.chaos import keep
from controller.brokers.reference.client.log import ClientLog
from controller.brokers.reference.store.engine import StoreEngine
from controller.brokers.reference.store.messages import Message
from controller.config.load import load_settings
from controller.domain.ids import RING_END, Bundle
from controller.ledger.append import append_rows
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.testbed.chaos.faults import FAULTS
from controller.testbed.chaos.run import Record
from controller.testbed.chaos.supervisor import End
from controller.testbed.chaos.verdict import LEAST_FAILOVERS, LEAST_GAPS, Verdict, judge
from tests.component.ledger.ledger_history import History

TOPIC = "persistent://shop/orders/t"
HISTORY = History()
SHORT, FULL = 3.0, 20.0
STORED = 20


class Run:
    """A clean run of 20 messages and six batches, to be spoilt before it is judged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = load_settings(None, "local", [f"tables.root={folder / 'tables'}"], env={})
        self.root = TableRoot(folder / "tables")
        self.root.create_all()
        HISTORY.commit(Journal(self.root), 0, 6)
        engine = StoreEngine(folder / "store", clock_ms=lambda: 1)
        engine.acquire(Bundle("shop/orders", 0, RING_END), 1, "a")
        engine.append(TOPIC, 1, "a", [Message("p", n, "k", b"x") for n in range(STORED)])
        engine.close()
        self.log = ClientLog(folder / "clients" / "producer.jsonl")
        self.log.write("topic", i=0, topic=TOPIC, name="p")
        self.log.note_acked(0, 0, STORED)
        (folder / "logs").mkdir()
        (folder / "logs" / "job.log").write_text('{"event": "controller started"}\n')
        self.record = Record(Counter(FAULTS.keys()), 16, [11.0], [(0.0, 1e15)], [7_800.0] * LEAST_FAILOVERS)

    def hand_over(self, beyond_interval_ms: float, count: int = 1) -> None:
        """What the producer saw of so many hand-overs."""
        for _ in range(count):
            self.log.write("gap", topic=TOPIC, cause="moved", gap_ms=500.0 + beyond_interval_ms, interval_ms=500.0)

    def judge(self, minutes: float = SHORT) -> Verdict:
        """The verdict of `chaos`."""
        self.log.flush()
        cluster = SimpleNamespace(settings=self.settings)
        supervisor = SimpleNamespace(ends=[End("job", 5)])
        stage: Any = SimpleNamespace(folder=self.folder, cluster=cluster, supervisor=supervisor)
        workload: Any = SimpleNamespace(logs=[self.folder / "clients" / "producer.jsonl", self.folder / "none"])
        return judge(stage, workload, self.record, minutes, FAULTS)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.mark.parametrize("minutes", [SHORT, FULL])
def test_a_clean_run(run: Run, minutes: float) -> None:
    run.hand_over(2.0, 99)
    run.hand_over(400.0)
    verdict = run.judge(minutes)
    assert verdict.wrong == []
    assert verdict.figures["messages_written"] == STORED
    assert verdict.figures["calm_gap_beyond_interval_ms"] == {"p50": 2.0, "p99": 2.0, "worst": 400.0}
    assert verdict.figures["failover_ms"]["worst"] == 7_800.0
    assert verdict.figures["ended_by_themselves"] == ["job: 5"]
    assert json.dumps(verdict.figures)


def test_a_lost_message_a_gap_in_the_journal_and_a_broken_invariant_are_three_sentences(run: Run) -> None:
    run.log.note_acked(0, STORED, 1)
    append_rows(run.root, "journal", [entry.to_row() for entry in HISTORY.batches[7]])
    with (run.folder / "logs" / "job.log").open("a") as log:
        log.write('{"event": "stopped", "error": "InvariantBroken(\'I2: two owners\')"}\n')
    lost, gap, broken = run.judge().wrong
    assert TOPIC in lost
    assert gap.startswith("journal: ")
    assert "is missing, the next one is" in gap
    assert broken.startswith("job.log: ")
    assert "I2: two owners" in broken


def test_a_journal_that_breaks_an_invariant_is_told(run: Run) -> None:
    """Numbers without a gap, but a command that was answered twice."""
    last = HISTORY.batches[5][-1]
    answer = next(e for e in HISTORY.entries if e.command_id is not None)
    append_rows(run.root, "journal", [{**answer.to_row(), "seq": last.seq + 1, "batch": last.batch + 1}])
    (wrong,) = run.judge().wrong
    assert wrong.startswith("journal: ")


def test_a_slow_failover_and_a_long_gap_are_told_of_a_full_run(run: Run) -> None:
    run.record.failovers_ms.append(9_001.0)
    run.hand_over(2.0, 98)
    run.hand_over(251.0, 2)
    assert run.judge(SHORT).wrong == []
    slow, long = run.judge(FULL).wrong
    assert "9001 ms" in slow
    assert "9000 ms are allowed" in slow
    assert "251 ms" in long
    assert "250 ms are allowed" in long


def test_of_a_few_gaps_one_may_be_long(run: Run) -> None:
    run.hand_over(2.0, LEAST_GAPS - 2)
    run.hand_over(400.0)
    assert run.judge(FULL).wrong == ["99 gaps of hand-overs were measured, fewer than 100"]


def test_gaps_outside_of_calm_phases_do_not_count(run: Run) -> None:
    run.hand_over(9_000.0, LEAST_GAPS)
    run.record.calm_ms = [(0.0, 1.0)]
    assert run.judge(FULL).wrong == ["0 gaps of hand-overs were measured, fewer than 100"]


def test_only_a_full_run_must_have_shown_enough(run: Run) -> None:
    run.record.failovers_ms.pop()
    del run.record.faults["store_clock"]
    run.hand_over(2.0, LEAST_GAPS - 1)
    assert run.judge(SHORT).wrong == []
    failovers, gaps, missing = run.judge(FULL).wrong
    assert "19 failovers" in failovers
    assert "99 gaps" in gaps
    assert missing == "faults without a turn: store_clock"


def test_nothing_written_is_nothing_shown(run: Run) -> None:
    (run.folder / "clients" / "producer.jsonl").unlink()
    assert "no message was written" in run.judge().wrong


def test_figures_of_a_full_run_are_kept_with_machine_and_date(run: Run, tmp_path: Path) -> None:
    run.hand_over(300.0, LEAST_GAPS)
    verdict = run.judge(FULL)
    assert keep(Verdict({"minutes": SHORT, **verdict.figures}, []), tmp_path / "results") is None
    file = keep(Verdict({"minutes": FULL, **verdict.figures}, verdict.wrong), tmp_path / "results")
    assert file is not None
    assert file.name == "chaos.json"
    kept = json.loads(file.read_text())
    assert {"taken_at", "machine"} <= kept.keys()
    assert [target["reached"] for target in kept["figures"]["targets"]] == [True, False]
    assert kept["figures"]["broken"] == verdict.wrong != []
