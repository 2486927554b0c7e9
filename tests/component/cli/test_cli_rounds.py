"""Stored rounds on the command line: decided again, and by another strategy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import main
from controller.cli.times import moment_ms
from controller.domain.entries import Kind
from controller.ledger.follower import Follower
from controller.ledger.tables import TableRoot
from controller.policy.strategies.headroom import Headroom
from tests.component.cli.conftest import Ballast, Document
from tests.short_run import ShortRun

NOW_MS = 1_790_000_000_000


@pytest.fixture
def moved(document: Document) -> dict[str, Any]:
    """The round of the run that moved bundles."""
    return next(row for row in document("rounds --limit 1000") if row["moves"] and row["mode"] == "live")


def test_all_rounds_come_to_the_same_plan(document: Document, ballast: Ballast, run: ShortRun) -> None:
    count = sum(e.kind is Kind.ROUND for e in run.entries)
    told = document("replay --all")
    assert (told["equal"], told["compared"], told["broken"], told["skipped"]) == (count, count, 0, 0)
    assert len(told["rounds"]) == count
    code, out, err = ballast("replay --all")
    assert (code, out, err) == (0, f"{count} of {count} equal\n", "")


def test_rounds_are_chosen_by_time_or_by_name(document: Document, ballast: Ballast) -> None:
    rounds = document("rounds --limit 1000")
    third = sorted(row["wall_ms"] for row in rounds)[2]
    assert document(f"replay --since {third}")["compared"] == len(rounds) - 2
    named = [rounds[0]["round_id"], rounds[-1]["round_id"]]
    told = document("replay", *named)
    assert [row["round_id"] for row in told["rounds"]] == named
    assert ballast("replay", *named)[1].endswith("\n2 of 2 equal\n")
    code, _, err = ballast("replay nobody nowhere")
    assert (code, err.split(":")[1]) == (1, " no rounds are named nobody, nowhere")
    code, _, err = ballast("replay --all", named[0])
    assert (code, err.count("\n")) == (2, 1)
    code, _, err = ballast("replay --since yesterday")
    assert (code, "--since 'yesterday' is no time" in err) == (2, True)


def test_a_table_of_rounds_that_was_lost_and_begun_anew_is_not_told_as_no_round(
    run: ShortRun, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    copy = tmp_path / "tables"
    shutil.copytree(run.root.root, copy)
    shutil.rmtree(copy / "rounds")
    assert TableRoot(copy).create("rounds")
    for words in (["rounds"], ["replay", "--all"], ["replay"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--set", f"tables.root={copy}"])
        assert not ended.value.code
        assert "no round is kept, though the journal names some, the newest in entry" in capsys.readouterr().out


def test_rounds_of_former_rules_are_skipped_by_name(
    document: Document, ballast: Ballast, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = document("rounds --limit 1000")
    monkeypatch.setattr(Headroom, "rules", 9)
    told = document("replay --all")
    assert (told["equal"], told["compared"], told["skipped"]) == (0, 0, len(rounds))
    code, out, _ = ballast("replay --all")
    assert (code, out.startswith("0 of 0 equal\n")) == (0, True)
    assert f"skipped: {len(rounds)} decided by former rules (headroom by rules" in out
    assert rounds[0]["round_id"] in out


def test_a_round_that_differs_is_named_and_ends_with_1(ballast: Ballast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Headroom, "name", "headroom ")
    code, out, _ = ballast("replay --all")
    assert code == 1
    assert out.count("DIFFERENT: stored") > 1
    assert "\n0 of " in out


def test_a_time_is_so_long_ago_or_a_moment_in_utc() -> None:
    assert moment_ms("90m", NOW_MS, "--since") == NOW_MS - 5_400_000
    assert [moment_ms(text, NOW_MS, "--since") for text in ("99999999d", "0001-01-01")] == [1, 1], "all there is"
    assert moment_ms("2d", NOW_MS, "--since") == NOW_MS - 172_800_000
    assert moment_ms(str(NOW_MS), NOW_MS, "--since") == NOW_MS
    assert moment_ms("2026-09-21T13:33:20", NOW_MS, "--since") == 1_789_997_600_000
    assert moment_ms("2026-09-21 13:33:20Z", NOW_MS, "--since") == 1_789_997_600_000
    assert moment_ms("2026-09-21T15:33:20+02:00", NOW_MS, "--since") == 1_789_997_600_000


def test_another_strategy_is_held_against_what_was_decided(
    document: Document, ballast: Ballast, moved: dict[str, Any]
) -> None:
    told = document("diff", moved["round_id"], "--strategy", "steady")
    assert (told["first"]["strategy"], told["first"]["stored"]) == ("headroom", True)
    assert (told["second"]["strategy"], told["second"]["stored"]) == ("steady", False)
    assert "began without memory" in told["note"]
    assert told["same"] is all(row["change"] == "same" for row in told["changes"])
    decided = {row["bundle"]: row for row in document("decisions --limit 1000 --round", moved["round_id"])}
    shown = {row["bundle"]: row["first"] for row in told["changes"] if row["first"]}
    assert {name: row["target"] for name, row in shown.items()} == {n: r["target"] for n, r in decided.items()}
    scores = {row["broker"]: row["score"] for row in document("explain", moved["round_id"])["rounds"][0]["scores"]}
    assert {row["broker"]: row["score"] for row in told["brokers"]} == scores
    assert told["first"]["highest_after"] < told["first"]["highest_before"] == max(scores.values())
    for row in told["brokers"]:  # what a strategy expects of its moves, on top of what was measured for both
        ends = [d for d in decided.values() if row["broker"] in (d["source"], d["target"])]
        change = sum(d["after"][row["broker"]] - d["before"][row["broker"]] for d in ends)
        assert row["first_after"] == pytest.approx(max(0.0, row["score"] + change))
    code, out, _ = ballast("diff", moved["round_id"], "--strategy", "steady")
    assert code == 0
    only = [row for row in told["changes"] if row["change"] == "only_first"]
    assert all(f"\n- {row['bundle']}  transfer: " in out for row in only)
    code, _, _ = ballast("diff", moved["round_id"], "--strategy", "steady", "--exit-code")
    assert code == (0 if told["same"] else 1)


def test_a_strategy_that_never_moves_differs_by_all_that_was_moved(
    document: Document, ballast: Ballast, moved: dict[str, Any]
) -> None:
    told = document("diff", moved["round_id"], "--strategy", "headroom", "--set", "shedding.enabled=false")
    assert told["same"] is True, "a stored round keeps its settings"
    told = document("diff", moved["round_id"], "--strategy", "overload")  # acts above 85 % only
    assert [row["change"] for row in told["changes"]] == ["only_first"] * moved["moves"]
    code, out, _ = ballast("diff", moved["round_id"], "--strategy", "overload", "--exit-code")
    assert (code, out.count("\n- ")) == (1, moved["moves"])


def test_the_strategy_in_charge_does_not_differ_from_itself(
    document: Document, ballast: Ballast, moved: dict[str, Any]
) -> None:
    told = document("diff", moved["round_id"], "--strategy", moved["strategy"])
    assert told["same"] is True
    assert told["note"] == "headroom was in charge of this round: this is what it decided."
    assert "the same plan: " in ballast("diff", moved["round_id"], "--strategy", moved["strategy"])[1]


def test_a_round_or_strategy_that_is_not_there_is_one_line(ballast: Ballast, moved: dict[str, Any]) -> None:
    code, _, err = ballast("diff nobody --strategy steady")
    assert (code, "no round is named nobody" in err) == (1, True)
    code, _, err = ballast("diff", moved["round_id"], "--strategy", "dance")
    assert (code, "strategy 'dance' is none of" in err, err.count("\n")) == (2, True, 1)


def test_nothing_is_written(document: Document, moved: dict[str, Any], run: ShortRun) -> None:
    before = Follower(run.root).bootstrap()
    document("diff", moved["round_id"], "--strategy", "steady")
    document("replay --all")
    assert Follower(run.root).bootstrap() == before
