"""The round worker across crashes: what was asked for is computed, nothing makes it wait for ever, silence is seen."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.cli.main import main
from controller.domain.decision import DecisionKind, Reason
from controller.domain.entries import Entry
from controller.domain.events import RoundFinished
from controller.ledger.evidence import read_joined
from controller.policy.round import replay_round
from controller.service.metrics import ControlMetrics
from controller.service.rounds import worker as round_worker
from controller.service.rounds.process import Rounds
from controller.service.rounds.worker import RoundWorker
from tests.e2e.waiting import wait_until
from tests.short_run import ShortRun


@pytest.fixture
def run(tmp_path: Path) -> ShortRun:
    """Two brokers with load, and a minute of panes."""
    made = ShortRun(tmp_path / "tables")
    made.join("b1:8080")
    made.join("b2:8080")
    made.command("create_namespace", namespace="t/n", bundles=4)
    made.look_up(*made.state.namespaces["t/n"])
    made.panes(6)
    return made


@pytest.mark.covers("force-evaluation")
def test_a_worker_that_starts_after_the_crash_computes_the_commanded_round(run: ShortRun) -> None:
    """The command was accepted; then controller and worker were killed together."""
    Rounds(run.settings, every_round=False)
    run.command("round_now")
    wish = run.state.round_wanted_seq
    rounds = Rounds(run.settings, every_round=False)
    done = rounds.advance()
    assert done is not None
    assert done.results[0].round_id.endswith(f"-{wish}")
    assert rounds.advance() is None, "the next one waits until that one is journaled"
    run.batch(*map(RoundFinished, done.results))
    assert run.state.round_wanted == ""
    later = Rounds(run.settings, every_round=False).advance()
    assert later is None or not later.results[0].round_id.endswith(f"-{wish}")


def test_two_wishes_with_the_same_beginning_are_two_rounds(run: ShortRun) -> None:
    """Round ids once held the first eight letters of the command: the second was taken for the first, dropped, and the
    worker waited for it for ever."""
    ids = []
    for number in range(2):
        run._send("round_now", {})
        done = Rounds(run.settings, every_round=False).advance()
        assert done is not None, number
        ids.append(done.results[0].round_id)
        run.batch(*map(RoundFinished, done.results))
        assert run.state.round_id == ids[-1]
    assert len(set(ids)) == 2


def test_a_round_that_was_overtaken_is_not_awaited_for_ever(run: ShortRun) -> None:
    """Its own round is dropped by the controller, because a later one of a worker before it is in the journal."""
    rounds = Rounds(run.settings, every_round=False)
    run._send("round_now", {})
    first = rounds.advance()
    assert first is not None
    run.panes(3)
    run.round()
    assert run.state.round_at_ms > first.results[0].at_ms
    refused = run.batch(*map(RoundFinished, first.results))
    assert not any(e.kind.value == "round" for e in refused)
    run.panes(12)
    wait_until(lambda: rounds.advance() is not None, 60)


def test_a_round_whose_entry_is_never_read_is_not_awaited_for_ever(
    run: ShortRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries that have expired, or a gap: the follower jumps to a base snapshot."""
    rounds = Rounds(run.settings, every_round=False)

    def jump() -> list[Entry]:
        rounds._follower.bootstrap()
        return []

    for _ in range(2):
        run._send("round_now", {})
        done = rounds.advance()
        assert done is not None
        run.batch(*map(RoundFinished, done.results))
        monkeypatch.setattr(rounds._follower, "catch_up", jump)


def strategies_of_a_round(run: ShortRun, rounds: Rounds) -> list[str]:
    """Who decided the next round, its challengers after it; the round is journaled."""
    run._send("round_now", {})
    done = rounds.advance()
    assert done is not None
    run.batch(*map(RoundFinished, done.results))
    assert [result.challenger for result in done.results] == [False] + [True] * (len(done.results) - 1)
    return [result.strategy for result in done.results]


@pytest.mark.covers("manager-changeable")
def test_strategy_and_challengers_change_while_the_worker_runs_and_stay_after_a_restart(run: ShortRun) -> None:
    rounds = Rounds(run.settings, every_round=False)
    assert strategies_of_a_round(run, rounds) == ["headroom"]
    run.command("strategy", strategy="steady", challengers=["headroom", "threshold"])
    assert strategies_of_a_round(run, rounds) == ["steady", "headroom", "threshold"]
    run.project()  # a base snapshot: the next one starts from it
    restarted = Rounds(run.settings, every_round=False)
    assert strategies_of_a_round(run, restarted) == ["steady", "headroom", "threshold"]
    run.command("strategy", strategy="configured", challengers="configured")
    assert strategies_of_a_round(run, restarted) == ["headroom"]
    told = read_joined(run.root, "rounds").to_pylist()
    assert {row["strategy"] for row in told if not row["challenger"]} == {"headroom", "steady"}
    assert {row["strategy"] for row in told if row["challenger"]} == {"headroom", "threshold"}
    for row in told:
        assert replay_round(json.loads(row["inputs_json"])) == row["plan_hash"]


def test_queue_times_and_metadata_latencies_reach_the_strategy_that_reads_them(run: ShortRun) -> None:
    rounds = Rounds(run.settings, every_round=False)
    run.command("strategy", strategy="weighted", challengers=["steady"])
    run._send("round_now", {})
    done = rounds.advance()
    assert done is not None
    weighted, steady = (json.loads(json.dumps(result.inputs)) for result in done.results)
    told = weighted["frame"]["latencies_us"]
    assert len(told) == len(weighted["frame"]["brokers"])
    assert any(min(pair) >= 0 for pair in told)
    assert "latencies_us" not in steady["frame"]
    assert [replay_round(inputs) for inputs in (weighted, steady)] == [result.plan_hash for result in done.results]


def test_an_override_reaches_the_next_round_and_its_table(run: ShortRun) -> None:
    rounds = Rounds(run.settings, every_round=False)
    owned = run.owned_by("b1:8080")[0]
    run.command("override", override="pin", bundle=owned, broker="b2:8080")
    run._send("round_now", {})
    done = rounds.advance()
    assert done is not None
    moves = [d for d in done.results[0].decisions if d.kind is DecisionKind.TRANSFER]
    assert [(d.bundle, d.target, d.reason) for d in moves] == [(owned, "b2:8080", Reason.OVERRIDDEN)]
    run.project()
    (row,) = run.root.open("overrides").to_pyarrow_table().to_pylist()
    assert (row["kind"], row["bundle"], row["broker"], row["who"]) == ("pin", owned, "b2:8080", "anna@ops")
    run.command("end_override", id=row["override_id"])
    run.project()
    assert run.root.open("overrides").to_pyarrow_table().num_rows == 0


@pytest.fixture
def worker(run: ShortRun) -> Iterator[RoundWorker]:
    made = RoundWorker(run.settings, False, lambda event, ms: None, ControlMetrics(CollectorRegistry()))
    yield made
    made.stop()


def test_a_worker_that_hangs_or_cannot_live_is_unhealthy(worker: RoundWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.start()
    begun = worker.heard_s
    wait_until(lambda: worker.heard_s > begun, 120)
    assert worker.troubles() == []
    monkeypatch.setattr(round_worker, "SILENT_S", 4.0)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGSTOP)
    wait_until(lambda: worker.troubles() != [], 120)
    assert f"pid {worker.pid}" in worker.troubles()[0]
    monkeypatch.setattr(round_worker, "RESTART_PAUSES_S", (60.0,))
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: worker.pid is None and worker.restarts == 1, 120)
    assert "no worker runs (started again 1 times)" in worker.troubles()[0]


def test_rounds_are_told_who_lags(run: ShortRun) -> None:
    """Only heartbeats say how far a broker has read: the worker hears it from the control query."""
    heard: list[RoundFinished] = []
    behind = {"now": frozenset({"b2:8080"})}
    made = RoundWorker(
        run.settings, False, lambda event, ms: heard.append(event), ControlMetrics(CollectorRegistry()),
        lambda: behind["now"],
    )  # fmt: skip
    made.start()
    try:
        begun = made.heard_s
        wait_until(lambda: made.heard_s > begun, 120)
        run.command("round_now")
        wait_until(lambda: len(heard) > 0, 120)
    finally:
        made.stop()
    columns = heard[-1].result.inputs["frame"]["broker_columns"]
    rows = {row[0]: row[columns.index("lagging")] for row in heard[-1].result.inputs["frame"]["brokers"]}
    assert rows == {"b1:8080": 0, "b2:8080": 1}


def test_a_life_that_fails_in_a_new_way_does_not_end_all_rounds(
    worker: RoundWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_worker, "RESTART_PAUSES_S", (0.1,))
    start = worker._context.Process.start
    failures = iter([OSError("Cannot allocate memory"), ValueError("what is this?")])

    def fails_twice(process: Any) -> None:
        for error in failures:
            raise error
        start(process)

    monkeypatch.setattr(worker._context.Process, "start", fails_twice)
    begun = worker.heard_s
    worker.start()
    wait_until(lambda: worker.heard_s > begun, 120)
    assert worker.restarts == 2
    assert worker.pid is not None


def test_status_tells_what_operators_have_chosen(run: ShortRun, capsys: pytest.CaptureFixture[str]) -> None:
    run.command("strategy", strategy="uniform")
    run.command("override", override="freeze", bundle=run.owned_by("b1:8080")[0])
    with pytest.raises(SystemExit):
        main(["status", "--offline", "--set", f"tables.root={run.root.root}"])
    out = capsys.readouterr().out
    assert re.search(r"strategy +uniform +\(by command", out)
    assert re.search(r"overrides +1 hold", out)
