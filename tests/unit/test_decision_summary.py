"""What `ballast decisions --summary` makes of a day's decisions."""

from __future__ import annotations

from typing import Any

from controller.operations.decision_summary import summarise


def decision(at_ms: int, bundle: str, **more: Any) -> dict[str, Any]:
    row = {"at_ms": at_ms, "kind": "transfer", "bundle": bundle, "source": "a:1", "target": "b:1",
           "reason": "101_overloaded", "outcome": None, "label": "success", "challenger": False}  # fmt: skip
    return {**row, **more}


def ran(moves: int, **more: Any) -> dict[str, Any]:
    return {"mode": "shadow", "moves": moves, "splits": 0, "challenger": False, **more}


def test_a_move_that_rounds_decide_again_and_again_is_one_action() -> None:
    found = summarise([decision(at, "t/n/0") for at in (30, 10, 20)] + [decision(15, "t/n/1")], [ran(1), ran(2)])
    first, second = found["actions"]
    assert (first["bundle"], first["count"], first["first_ms"], first["last_ms"]) == ("t/n/0", 3, 10, 30)
    assert (second["bundle"], second["count"]) == ("t/n/1", 1)
    assert found["decisions"] == 4
    assert found["brokers"] == [{"broker": "a:1", "gives": 2, "takes": 0}, {"broker": "b:1", "gives": 0, "takes": 2}]


def test_another_target_is_another_action_and_a_split_gives_nothing_away() -> None:
    split = decision(30, "t/n/0", kind="split", target=None, reason="107_split_to_balance")
    found = summarise([decision(10, "t/n/0"), decision(20, "t/n/0", target="c:1"), split], [])
    assert len(found["actions"]) == 3
    assert {row["broker"]: (row["gives"], row["takes"]) for row in found["brokers"]} == {
        "a:1": (2, 0), "b:1": (0, 1), "c:1": (0, 1),
    }  # fmt: skip


def test_what_was_left_is_counted_by_reason_and_challengers_by_nobody() -> None:
    skips = [decision(at, "t/n/0", kind="skip", reason="201_balanced") for at in range(3)]
    other = [decision(9, "t/n/0", challenger=True), decision(9, "t/n/0", kind="skip", reason="202_hit_count")]
    found = summarise(skips + other, [ran(0), ran(3), ran(3, challenger=True), ran(0, mode="live")])
    assert found["actions"] == []
    assert found["left"] == [{"reason": "201_balanced", "count": 3}, {"reason": "202_hit_count", "count": 1}]
    assert found["rounds"] == {"total": 3, "by_mode": {"live": 1, "shadow": 2}, "acting": 1}


def test_the_newest_outcome_is_shown() -> None:
    rows = [decision(20, "t/n/0", outcome="executed"), decision(10, "t/n/0", outcome="316_released")]
    assert [action["outcome"] for action in summarise(rows, [])["actions"]] == ["executed"]
