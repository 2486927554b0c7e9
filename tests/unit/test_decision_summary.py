"""What `ballast decisions --summary` makes of a day's decisions."""

from __future__ import annotations

from typing import Any

from controller.operations.decision_summary import summarise


def decision(at_ms: int, bundle: str, **more: Any) -> dict[str, Any]:
    row = {"at_ms": at_ms, "kind": "transfer", "bundle": bundle, "source": "a:1", "target": "b:1",
           "reason": "101_overloaded", "outcome": None, "label": "success", "challenger": False,
           "decision_id": f"{at_ms}-{bundle}", "plan": None, "sent_as": None, "order": None}  # fmt: skip
    return {**row, **more}


def ran(moves: int, **more: Any) -> dict[str, Any]:
    return {"mode": "shadow", "moves": moves, "splits": 0, "challenger": False, **more}


def test_a_move_that_rounds_decide_again_and_again_is_one_action() -> None:
    found = summarise([decision(at, "t/n/0") for at in (30, 10, 20)] + [decision(15, "t/n/1")], [ran(1), ran(2)])
    first, second = found["actions"]
    assert (first["bundle"], first["count"], first["first_ms"], first["last_ms"]) == ("t/n/0", 3, 10, 30)
    assert (second["bundle"], second["count"]) == ("t/n/1", 1)
    assert found["decisions"] == 4
    assert found["carried_out"] == 0
    nothing = {"gave": 0, "took": 0}
    assert found["brokers"] == [
        {"broker": "a:1", **nothing, "would_give": 2, "would_take": 0},
        {"broker": "b:1", **nothing, "would_give": 0, "would_take": 2},
    ]


def test_another_target_is_another_action_and_a_split_gives_nothing_away() -> None:
    split = decision(30, "t/n/0", kind="split", target=None, reason="107_split_to_balance")
    found = summarise([decision(10, "t/n/0"), decision(20, "t/n/0", target="c:1"), split], [])
    assert len(found["actions"]) == 3
    assert {row["broker"]: (row["would_give"], row["would_take"]) for row in found["brokers"]} == {
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


def test_what_was_carried_out_is_counted_apart_from_what_was_held_back() -> None:
    done = [decision(at, "t/n/0", outcome="executed") for at in (10, 50)]  # it went back in between
    held = [decision(at, "t/n/1", outcome="210_awaiting_approval") for at in (20, 30)]
    found = summarise([*done, *held], [])
    assert found["carried_out"] == 2
    assert {action["bundle"]: action["carried_out"] for action in found["actions"]} == {"t/n/0": 2, "t/n/1": 0}
    assert found["brokers"] == [
        {"broker": "a:1", "gave": 2, "took": 0, "would_give": 1, "would_take": 0},
        {"broker": "b:1", "gave": 0, "took": 2, "would_give": 0, "would_take": 1},
    ]


def test_a_move_that_the_step_carried_out_later_is_counted_once() -> None:
    waited = decision(10, "t/n/0", outcome="215_in_turn", sent_as="step-1-0000")
    sent = decision(11, "t/n/0", outcome="executed", decision_id="step-1-0000")
    for rows in ([waited, sent], [waited], [sent]):
        found = summarise(rows, [])
        assert (found["carried_out"], found["brokers"][0]["gave"]) == (1, 1)
        assert found["actions"][0]["outcome"] == "executed"


def test_an_order_that_fell_short_was_not_carried_out() -> None:
    order = {"outcome": "elsewhere", "owner": "c:1"}
    found = summarise([decision(10, "t/n/0", outcome="executed", order=order)], [])
    assert (found["carried_out"], found["brokers"]) == (0, []), "it went neither where it was to go, nor stayed"
    assert (found["actions"][0]["fell_short"], found["actions"][0]["outcome"]) == (1, "elsewhere: c:1 owns it")


def test_an_unload_that_leaves_the_target_open_counts_for_who_gave() -> None:
    found = summarise([decision(10, "t/n/0", outcome="executed", kind="unload", target=None)], [])
    assert found["brokers"] == [{"broker": "a:1", "gave": 1, "took": 0, "would_give": 0, "would_take": 0}]
