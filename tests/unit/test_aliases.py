"""Rounds of every strategy with numbers in place of names: the same plans, with the same memory, in other words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from controller.domain.decision import Decision, RoundResult
from controller.domain.errors import BallastError
from controller.operations.capture.aliases import Aliases
from controller.operations.capture.hashing import Hashing
from controller.policy.replay import Verdict, judge
from controller.policy.round import replan, replay_round
from controller.policy.strategies import STRATEGIES
from tests.stored_state.varied_rounds import BUILT

PLAIN = ("exchange", "troubled", "full-by-hand", "foreign", "giant")  # without rules of placement


def rounds_of(name: str, strategy: str) -> Iterator[RoundResult]:
    """Some rounds running, each with the memory of the one before."""
    made = BUILT[name]()
    made.settings = replace(made.settings, strategy=strategy)
    for _ in range(4):
        yield made.later().round()


def acts(decisions: tuple[Decision, ...], told: Aliases | None = None) -> list[tuple[object, ...]]:
    """What was decided; with aliases if they are given."""

    def broker(name: str | None) -> str | None:
        return told.broker(name) if told and name else name

    def bundle(name: str | None) -> str | None:
        return told.bundle(name) if told and name else name

    return [(d.kind, d.reason, bundle(d.bundle), broker(d.source), broker(d.target), d.epoch) for d in decisions]


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("name", PLAIN)
def test_the_plan_is_the_same_in_other_names(name: str, strategy: str) -> None:
    for result in rounds_of(name, strategy):
        stored = json.loads(json.dumps(result.inputs))
        assert judge(stored, result.plan_hash).verdict is Verdict.EQUAL
        frame = stored["frame"]
        told = Aliases((row[0] for row in frame["brokers"]), frame["namespace_bundles"], (), ())
        hashed = {**told.document({n: v for n, v in stored.items() if n != "settings"}),
                  "settings": Hashing(told).settings(stored["settings"])}  # fmt: skip
        assert acts(replan(hashed).decisions) == acts(result.decisions, told)
        assert replay_round(hashed) != result.plan_hash


def test_names_keep_their_order_and_text_is_left_out() -> None:
    spaces, topics = ["shop/a", "shop/a-b", "shop-x/a", "shop/b-1-20240115"], ["persistent://shop/a/paid"]
    told = Aliases(["b2:1", "b10:1"], spaces, topics, ["lb1.acme-217-c0ffee11"])
    bundles = [f"{space}/0x00000000_0x80000000" for space in ("shop/a", "shop/a-b", "shop-x/a")]
    assert sorted(map(told.bundle, bundles)) == [told.bundle(name) for name in sorted(bundles)]
    assert (told.broker("b10:1"), told.session("b2:1#3.n.1")) == ("broker-001", "broker-002#3.n.1")
    partition = told.topic("persistent://shop/a/paid-partition-2")
    assert partition == f"persistent://{told.namespace('shop/a')}/topic-001-partition-2"
    document = {"who": "anna", "broker": "b2:1", "to": "elsewhere:1", "reason": "405_would_not_improve",
                "note": "because of b2:1", "url": "http://b2/x", "namespace b2": 1, "namespace shop/a": 2}  # fmt: skip
    assert told.document(document) == {
        "who": "", "broker": "broker-002", "to": "unknown", "reason": "405_would_not_improve", "note": "", "url": "",
        "namespace unknown": 1, f"namespace {told.namespace('shop/a')}": 2,
    }  # fmt: skip
    dated = told.namespace("shop/b-1-20240115")
    assert told.document({"shop/b-1-20240115": "namespace shop/b-1-20240115"}) == {dated: f"namespace {dated}"}
    assert told.id("lb1.acme-217-c0ffee11-3-12345678") == "controller-001-3-12345678"
    assert told.document({"attempt_id": "lb1.acme-217-c0ffee11-0-12", "cause": "lb2.acme-9-0badcafe-3-1-0004"}) == {
        "attempt_id": "controller-001-0-12", "cause": "unknown-3-1-0004",
    }  # fmt: skip
    with pytest.raises(BallastError, match="names 'b9:1' where no name was expected"):
        told.broker("b9:1")
