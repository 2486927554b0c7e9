"""Questions about who owns what and what moved, in DuckDB, compared with what the run's entries tell."""

from __future__ import annotations

import itertools
from collections import Counter
from statistics import median

import pytest

from controller.domain.entries import Kind
from controller.domain.ownership import State
from tests.component.questions.told import first_move_of_a_round, list_episodes, list_moves
from tests.questions import DuckQuestions
from tests.short_run import ShortRun

HOW = {"transferring": "transfer", "releasing": "unload", "free": "failover", "assigning": "first assignment"}


def test_01_every_living_bundle_is_counted_once(ask: DuckQuestions, run: ShortRun) -> None:
    rows = ask(1)
    living = [r for r in run.state.bundles.values() if r.state is not State.RETIRED]
    found = {(row["broker"], row["state"]): row["bundles"] for row in rows}
    assert found == Counter((r.by.broker if r.by else "nobody", r.state.value) for r in living)
    (nobodys,) = (row for row in rows if row["broker"] == "nobody")
    assert (nobodys["state"], nobodys["least_epoch"]) == ("free", 0)
    assert run.state.bundles[nobodys["for_example"]].by is None


def test_02_a_history_names_decisions_and_commands(ask: DuckQuestions, run: ShortRun) -> None:
    moved = first_move_of_a_round(run.entries)
    rows = ask(2, bundle=str(moved.bundle))
    written = [e for e in run.entries if e.kind is Kind.OWNERSHIP and e.bundle == moved.bundle]
    assert [(row["seq"], row["state"], row["epoch"]) for row in rows] == [(e.seq, e.state, e.epoch) for e in written]
    decided = next(row for row in rows if row["seq"] == moved.seq)
    assert (decided["decision_id"], decided["reason"]) == (moved.decision_id, "102_above_mean")
    assert decided["strategy"] == "headroom"
    before = next(e for e in run.entries if e.kind is Kind.ROUND and e.seq == moved.seq - 1)
    assert decided["source_before"] == before.data["memory"]["scores"][decided["by_broker"]]
    assert decided["source_predicted"] < decided["source_before"]
    assert {(row["commanded_by"], row["why"]) for row in rows} == {(None, None), ("anna@ops", "short run")}


def test_05_what_moved_twice_is_found(ask: DuckQuestions, run: ShortRun) -> None:
    moves = {bundle: found for bundle, found in list_moves(run.entries).items() if len(found) > 1}
    rows = {row["bundle"]: row for row in ask(5)}
    assert {bundle: row["quick_moves"] for bundle, row in rows.items()} == {b: len(m) - 1 for b, m in moves.items()}
    for bundle, found in moves.items():
        gaps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(found)]
        assert rows[bundle]["shortest_ms"] == min(gaps)
        assert rows[bundle]["last_move"] == f"{found[-1][1]} -> {found[-1][2]}"
    assert max(row["quick_moves"] for row in rows.values()) == 2, "moved by a round, a failover and an operator"


def test_08_durations_by_what_happened(ask: DuckQuestions, run: ShortRun) -> None:
    rows = {row["how"]: row for row in ask(8)}
    took: dict[str, list[int]] = {}
    for episode in list_episodes(run.entries):
        took.setdefault(HOW[str(episode[0].state)], []).append(episode[-1].at_ms - episode[0].at_ms)
    assert rows.keys() == took.keys() == set(HOW.values())
    for how, row in rows.items():
        found = (row["times"], row["p50_ms"], row["longest_ms"])
        assert found == (len(took[how]), median(took[how]), max(took[how])), how
        assert row["p50_ms"] <= row["p99_ms"] <= row["longest_ms"]
    assert {how: row["came_back"] for how, row in rows.items()} == dict.fromkeys(rows, 0) | {"transfer": 1}


def test_09_every_half_knows_its_parent(ask: DuckQuestions, run: ShortRun) -> None:
    rows = ask(9)
    splits = [e for e in run.entries if e.kind is Kind.SPLIT]
    expected = {(e.bundle, child): epoch for e in splits for child, epoch in e.data["children"].items()}
    assert {(row["parent"], row["child"]): row["first_epoch"] for row in rows} == expected
    assert len(expected) == 4
    assert {(row["reason"], row["cause"]) for row in rows} == {
        (("commanded" if e.command_id else "112_split_msg_rate"), e.command_id or e.decision_id) for e in splits
    }
    for row in rows:
        now = run.state.bundles[row["child"]]
        assert (row["owner_now"], row["state_now"], row["epoch_now"]) == (now.by.broker, now.state.value, now.epoch)
        assert row["boundary"] in row["child"]


def test_12_moves_are_counted_by_what_caused_them(ask: DuckQuestions, run: ShortRun) -> None:
    rows = {(row["wanted_by"], row["reason"]): row for row in ask(12)}
    assert rows.keys() == {
        ("round", "102_above_mean"),
        ("control step", "107_drained"),
        ("control step", "114_split_send_on"),
        ("end of a broker", "owner_ended"),
        ("command", "commanded"),
    }
    moves = list_moves(run.entries)
    assert sum(row["moves"] for row in rows.values()) == sum(map(len, moves.values())) == 18
    rounds = {e.decision_id for e in run.entries if e.kind is Kind.OWNERSHIP and e.reason == "102_above_mean"}
    assert rows["round", "102_above_mean"]["moves"] == len(rounds) == 3
    freed = {e.bundle for e in run.entries if e.reason == "owner_ended"}
    assert rows["end of a broker", "owner_ended"]["bundles"] == len(freed) == 6


def test_17_a_lost_broker_and_its_bundles(ask: DuckQuestions, run: ShortRun) -> None:
    (row,) = ask(17)
    ended = next(e for e in run.entries if e.kind is Kind.SESSION_ENDED)
    freed = [e for e in run.entries if e.reason == "owner_ended"]
    assert (row["broker"], row["reason"], row["bundles"]) == (ended.broker, "lease", len(freed))
    again = [
        next(e.at_ms for e in run.entries if e.seq > gone.seq and e.bundle == gone.bundle and e.state == "owned")
        for gone in freed
    ]
    times = [at_ms - gone.at_ms for at_ms, gone in zip(again, freed, strict=True)]
    assert (row["p50_ms"], row["longest_ms"], row["waiting"]) == (median(times), max(times), 0)
    back = next(e for e in run.entries if e.kind is Kind.REGISTERED and e.seq > ended.seq)
    assert row["back_at"] is not None
    assert (row["back_at"] - row["at_time"]).total_seconds() * 1_000 == pytest.approx(back.at_ms - ended.at_ms)


def test_18_commands_and_what_came_of_them(ask: DuckQuestions, run: ShortRun) -> None:
    rows = ask(18)
    sent = [e for e in run.entries if e.kind in (Kind.COMMAND_ACCEPTED, Kind.COMMAND_REJECTED)]
    assert [(row["command"], row["accepted"]) for row in rows] == [
        (e.data["kind"], e.kind is Kind.COMMAND_ACCEPTED) for e in sent
    ]
    assert {(row["who"], row["why"]) for row in rows} == {("anna@ops", "short run")}
    (rejected,) = (row for row in rows if not row["accepted"])
    assert "'nobody:1' is no living broker" in rejected["refusal"]
    for row, entry in zip(rows, sent, strict=True):
        of = [e for e in run.entries if e.command_id == entry.command_id and e.bundle]
        assert row["bundles"] == len({e.bundle for e in of}), entry.command_id
        assert row["took_ms"] == (max(e.at_ms for e in of) - entry.at_ms if of else None)
    assert max(row["bundles"] for row in rows) == 4, "unload_topic is about a bundle for each partition"


def test_19_what_is_on_its_way(ask: DuckQuestions, run: ShortRun) -> None:
    (row,) = ask(19)
    record = run.state.bundles[row["bundle"]]
    assert record.state is State.TRANSFERRING
    assert (row["source"], row["target"], row["epoch"]) == (record.by.broker, record.to.broker, record.epoch)
    assert (row["cause"], row["commanded_by"]) == (record.cause, "anna@ops")
    assert row["for_ms"] == run.entries[-1].at_ms - next(e.at_ms for e in run.entries if e.seq == record.seq)
