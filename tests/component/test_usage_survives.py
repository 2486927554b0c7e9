"""What rounds learn of usage survives restarts and failovers of the worker, and no window is learned twice."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import CommitFailedError

from controller.domain.entries import Kind
from controller.domain.events import RoundFinished
from controller.domain.state import LIVE, PAUSED, SHADOW
from controller.ledger.evidence import read_joined
from controller.ledger.usage_models import read_model, write_model
from controller.policy.usage.kept import Learned, hash_of
from controller.policy.usage.model import UsageModel
from controller.service.rounds import usage as usage_module
from controller.service.rounds.process import Rounds, RoundsDone
from tests.short_run import ShortRun


def start(folder: Path) -> ShortRun:
    """Three brokers; bundles of different rates."""
    run = ShortRun(folder)
    for broker in ("b1:8080", "b2:8080", "b3:8080"):
        run.join(broker)
    run.command("create_namespace", namespace="t/n", bundles=12)
    run.look_up(*run.state.namespaces["t/n"])
    run.load.rates = {str(bundle): 500.0 + 300 * at for at, bundle in enumerate(run.state.namespaces["t/n"])}
    run.panes(6)
    return run


def worker(run: ShortRun) -> Rounds:
    return Rounds(run.settings, every_round=False)


def computed(run: ShortRun, rounds: Rounds) -> RoundsDone:
    """The next round, computed and not journaled yet."""
    run._send("round_now", {})
    done = rounds.advance()
    assert done is not None
    return done


def journal(run: ShortRun, done: RoundsDone) -> None:
    run.batch(*map(RoundFinished, done.results))
    run.settle()


def minute(run: ShortRun, rounds: Rounds) -> None:
    """A round, and what happens until the next."""
    journal(run, computed(run, rounds))
    for bundle in run.load.rates:
        run.load.rates[bundle] *= run._random.uniform(0.9, 1.15)
    run.panes(3)


def told(run: ShortRun) -> list[str]:
    """Of every round the hash of the model after it."""
    rounds = [e.data for e in run.entries if e.kind is Kind.ROUND and not e.data.get("challenger")]
    return [data["usage_hash"] for data in rounds]


def frames(run: ShortRun) -> list[Any]:
    """What the strategies saw in every round, estimates included."""
    rows = read_joined(run.root, "rounds").sort_by([("at_ms", "ascending"), ("strategy", "ascending")])
    return [json.loads(text)["frame"] for text in rows["inputs_json"].to_pylist()]


def test_a_worker_that_restarts_learns_what_one_that_never_stopped_learns(tmp_path: Path) -> None:
    steady, restarting = start(tmp_path / "one"), start(tmp_path / "two")
    for run in (steady, restarting):
        run.command("strategy", strategy="steady", challengers=["headroom"])
    only, now = worker(steady), worker(restarting)
    for number in range(6):
        minute(steady, only)
        minute(restarting, now)
        if number % 2:
            now.advance()  # stores the model, and computes the next round in vain
        else:
            now.finish()  # the controller ended before that
        now = worker(restarting)
    assert told(restarting) == told(steady)
    assert frames(restarting) == frames(steady)
    assert len(set(told(steady))) == 6
    assert read_model(restarting.root).model.rounds == 6


def test_the_table_holds_the_model_that_the_journal_names(tmp_path: Path) -> None:
    run = start(tmp_path)
    rounds = worker(run)
    done = computed(run, rounds)
    assert rounds.advance() is None
    assert run.root.open("usage_model").version() == 0, "a round that may never be journaled has taught nothing"
    journal(run, done)
    rounds.advance()
    stored = read_model(run.root)
    assert (hash_of(stored), stored.at_ms) == (done.results[0].usage_hash, done.results[0].at_ms)
    rounds.advance()
    rounds.finish()
    assert run.root.open("usage_model").version() == 1, "once is enough"


def test_a_crash_before_the_round_is_journaled_changes_nothing(tmp_path: Path) -> None:
    run = start(tmp_path)
    minute(run, rounds := worker(run))
    rounds.finish()
    lost = computed(run, worker(run))
    again = worker(run).advance()
    assert again is not None
    assert again.results[0].usage_hash == lost.results[0].usage_hash
    assert again.results[0].plan_hash == lost.results[0].plan_hash


def test_no_window_is_learned_twice(tmp_path: Path) -> None:
    run = start(tmp_path)
    rounds = worker(run)
    hashes, times = [], []
    for restarts in (False, False, True):
        if restarts:
            rounds = worker(run)
        done = computed(run, rounds)
        journal(run, done)
        rounds.advance()
        hashes.append(done.results[0].usage_hash)
        times.append(done.results[0].at_ms)
    assert len(set(times)) == 1, "no panes have come in between"
    assert len(set(hashes)) == 1
    assert read_model(run.root).model.rounds == 1


@pytest.mark.parametrize("mode", [SHADOW, LIVE, PAUSED])
def test_rounds_learn_in_every_mode(mode: str, tmp_path: Path) -> None:
    run = start(tmp_path)
    run.command("mode", mode=mode)
    rounds = worker(run)
    for _ in range(3):
        minute(run, rounds)
    rounds.finish()
    assert run.state.mode == mode
    stored = read_model(run.root)
    assert stored.model.rounds == len(set(told(run))) == 3
    assert hash_of(stored) == told(run)[-1]
    assert stored.model.drivers is not None
    assert stored.model.drivers.evidence.rounds == 3


def test_the_acting_round_alone_names_the_model(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.command("strategy", strategy="steady", challengers=["headroom"])
    minute(run, worker(run))
    live, challenger = sorted((e.data for e in run.entries if e.kind is Kind.ROUND), key=lambda d: "challenger" in d)
    assert "usage_hash" in live
    assert "usage_hash" not in challenger


def begun_anew(run: ShortRun, caplog: pytest.LogCaptureFixture) -> str:
    """What a worker says that begins from the prior."""
    caplog.clear()
    with caplog.at_level(logging.INFO, logger=usage_module.__name__):
        rounds = worker(run)
    assert rounds._usage.model.rounds == 0
    (record,) = caplog.records
    minute(run, rounds)
    rounds.finish()
    assert read_model(run.root).model.rounds == 1, "and it is stored again"
    return record.getMessage()


def test_without_a_stored_model_rounds_start_from_the_prior_and_say_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = start(tmp_path)
    assert "has no rows yet" in begun_anew(run, caplog)
    for file in Path(run.root.uri("usage_model")).glob("*.parquet"):
        file.unlink()
    message = begun_anew(run, caplog)
    assert message.startswith("usage is learned from the beginning: ")
    assert "cannot be read" in message


def test_the_model_of_another_journal_is_not_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = start(tmp_path)
    foreign = Learned(UsageModel(rounds=9), run.now_ms + 3_600_000)
    write_model(run.root, foreign, hash_of(foreign))
    assert "another journal's" in begun_anew(run, caplog)


def test_a_model_that_cannot_be_stored_stops_no_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = start(tmp_path)
    rounds = worker(run)

    def refuse(*_: object) -> None:
        raise CommitFailedError("somebody was quicker")

    with monkeypatch.context() as patched:
        patched.setattr(usage_module, "write_model", refuse)
        minute(run, rounds)
        rounds.finish()
    assert "usage model not stored" in caplog.text
    minute(run, rounds)
    rounds.finish()
    assert read_model(run.root).model.rounds == len(told(run))
