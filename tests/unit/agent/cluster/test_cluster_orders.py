"""The execution of an order: what it asks, in which order, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.agent.cluster import orders as ask
from controller.agent.cluster.orders import Boundary, Ended, Reply, carry_out
from controller.domain.facts import answer_timeout_ms, order_allowance_ms, unload_timeout_ms
from controller.domain.ids import RING_END, Bundle
from controller.domain.observed import Order, OrderKind, OrderOutcome

BUNDLE = Bundle("t/n", 0, 0x40000000)
RING = (0, 0x40000000, RING_END)
GOOD = Reply(204, reached=True, redirected=True)


class Script:
    """Answers calls by their type: a value, or a list of values of which the last one stays."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            "ReadRing": RING,
            "CountTopics": 5,
            "FindOwner": None,
            "LookUp": None,
            "Pause": None,
            "Prepare": "leader",
        }
        self.answers |= answers
        self.asked: list[ask.Call] = []

    def __call__(self, call: ask.Call) -> Any:
        self.asked.append(call)
        assert len(self.asked) < 500, "it never ends"
        key = type(call).__name__ + (f"_{call.broker[0]}" if isinstance(call, ask.ListOwned) else "")
        found = self.answers[key]
        if not isinstance(found, list):
            return found
        return found.pop(0) if len(found) > 1 else found[0]

    def count(self, kind: type) -> int:
        return sum(isinstance(call, kind) for call in self.asked)


def run(
    script: Callable[[ask.Call], Any], kind: OrderKind = OrderKind.MOVE, modular: bool = True, spare: bool = False
) -> Ended:
    target = "b:1" if kind is OrderKind.MOVE else None
    boundary = 77 if kind is OrderKind.SPLIT else None
    return play(script, Order("o", kind, BUNDLE, "a:1", "me", 7, target, boundary), modular, spare)


def play(script: Callable[[ask.Call], Any], order: Order, modular: bool = True, spare: bool = False) -> Ended:
    generator, answer = carry_out(order, modular, spare), None
    while True:
        try:
            answer = script(generator.send(answer))
        except StopIteration as stop:
            return stop.value


HERE, NOWHERE = frozenset({str(BUNDLE)}), frozenset[str]()


def test_a_move_is_over_once_the_target_lists_the_bundle() -> None:
    script = Script(Unload=GOOD, ListOwned_a=[HERE, NOWHERE], ListOwned_b=[NOWHERE, HERE])
    ended = run(script)
    assert (ended.outcome, ended.owner) == (OrderOutcome.MOVED, "b:1")
    kinds = [type(call).__name__ for call in script.asked[:5]]
    assert kinds == ["Prepare", "ReadRing", "ListOwned", "Unload", "LookUp"], "the owner is looked at last"
    assert script.asked[3] == ask.Unload(BUNDLE, "a:1", "b:1", "leader")
    assert script.count(ask.Unload) == 1


def test_only_the_modular_manager_needs_a_lookup() -> None:
    script = Script(Unload=GOOD, ListOwned_a=[HERE, NOWHERE], ListOwned_b=HERE)
    run(script, modular=False)
    assert script.count(ask.LookUp) == script.count(ask.Prepare) == 0


def test_a_204_that_did_nothing_stayed() -> None:
    script = Script(Unload=GOOD, ListOwned_a=HERE, ListOwned_b=NOWHERE)
    ended = run(script)
    assert (ended.outcome, ended.sent) == (OrderOutcome.STAYED, True), "the leader keeps the destination"
    assert script.count(ask.Unload) == 1


def test_a_bundle_that_was_given_up_and_came_back_used_the_destination_up() -> None:
    ended = run(Script(Unload=GOOD, LookUp=True, ListOwned_a=HERE, ListOwned_b=NOWHERE))
    assert (ended.outcome, ended.sent) == (OrderOutcome.STAYED, False)


def test_a_lost_answer_is_found_out_and_never_repeated() -> None:
    lost = Reply(0, reached=True, detail="no answer")
    script = Script(Unload=lost, ListOwned_a=[HERE, NOWHERE], ListOwned_b=[NOWHERE, NOWHERE, HERE])
    assert run(script).outcome is OrderOutcome.MOVED
    assert script.count(ask.Unload) == 1


def test_what_never_reached_the_owner_is_tried_again() -> None:
    unreached = Reply(0, reached=False, detail="no connection")
    script = Script(Unload=[unreached, unreached, GOOD], ListOwned_a=[HERE, HERE, HERE, NOWHERE], ListOwned_b=HERE)
    assert run(script).outcome is OrderOutcome.MOVED
    assert script.count(ask.Unload) == 3
    ended = run(Script(Unload=unreached, ListOwned_a=HERE))
    assert (ended.outcome, ended.sent) == (OrderOutcome.FAILED, False)
    noted = Reply(0, reached=False, detail="no connection", redirected=True)
    assert run(Script(Unload=noted, ListOwned_a=HERE)).sent, "the leader may keep the destination"


def test_nothing_is_tried_again_once_the_source_does_not_list_the_bundle() -> None:
    noted = Reply(0, reached=False, detail="no connection", redirected=True)
    for owned, outcome in ((NOWHERE, OrderOutcome.REFUSED), (None, OrderOutcome.FAILED)):
        script = Script(Unload=noted, ListOwned_a=[HERE, owned], ListOwned_b=NOWHERE)
        ended = run(script)
        assert (ended.outcome, ended.sent, script.count(ask.Unload)) == (outcome, True, 1)


@pytest.mark.parametrize(
    ("status", "unanswered", "reached"),
    [
        (0, False, False),  # nobody received it, or who did has redirected it
        (0, True, True),  # at the source, at the bundle's new owner, at the leader: any of them may own it by then
        (204, False, True),
        (412, False, True),
    ],
)
def test_whether_a_request_may_have_reached_an_owner(status: int, unanswered: bool, reached: bool) -> None:
    assert ask.may_have_reached(status, unanswered) is reached


@pytest.mark.parametrize(("ring", "outcome"), [(RING, OrderOutcome.REFUSED), ((0, RING_END), OrderOutcome.GONE)])
def test_a_refusal_is_no_move(ring: tuple[int, ...], outcome: OrderOutcome) -> None:
    refused = Reply(412, reached=True, detail="Invalid upper boundary")
    ended = run(Script(ReadRing=[RING, ring], Unload=refused, ListOwned_a=HERE, ListOwned_b=NOWHERE))
    assert (ended.outcome, ended.detail) == (outcome, "HTTP 412: Invalid upper boundary")


@pytest.mark.parametrize("status", [404, 409, 412])
def test_a_bundle_that_the_target_lists_has_moved_whatever_the_status_was(status: int) -> None:
    """Pulsar refuses what somebody else has just done."""
    refused = Reply(status, reached=True, detail="is not owned by this broker", redirected=True)
    ended = run(Script(Unload=refused, ListOwned_a=[HERE, NOWHERE], ListOwned_b=HERE))
    assert (ended.outcome, ended.owner) == (OrderOutcome.MOVED, "b:1")
    assert ended.to_data()["destination_kept"], "no lookup of this order has used it up"


def test_of_a_refused_order_the_owner_is_named_as_the_lists_say() -> None:
    refused = Reply(409, reached=True, detail="inactive destination")
    for here, there, found, told in (
        (HERE, NOWHERE, None, (OrderOutcome.REFUSED, "a:1")),
        (None, None, "c:1", (OrderOutcome.REFUSED, None)),
        (NOWHERE, None, "c:1", (OrderOutcome.ELSEWHERE, "c:1")),
        (NOWHERE, NOWHERE, None, (OrderOutcome.ELSEWHERE, None)),
    ):
        script = Script(Unload=refused, ListOwned_a=[HERE, here], ListOwned_b=there, FindOwner=found)
        ended = run(script)
        assert (ended.outcome, ended.owner) == told
        assert ended.sent, "the leader notes the destination before it checks anything"


def test_nothing_is_sent_for_a_bundle_that_is_elsewhere_or_gone() -> None:
    for answers, outcome in (
        ({"ReadRing": ()}, OrderOutcome.GONE),
        ({"ReadRing": None}, OrderOutcome.FAILED),
        ({"ListOwned_a": None}, OrderOutcome.FAILED),
        ({"ListOwned_a": NOWHERE, "ListOwned_b": NOWHERE}, OrderOutcome.REFUSED),
        ({"ListOwned_a": NOWHERE, "ListOwned_b": HERE}, OrderOutcome.MOVED),
    ):
        script = Script(**answers)
        ended = run(script)
        assert (ended.outcome, ended.sent, script.count(ask.Unload)) == (outcome, False, 0)
        script = Script(CountTopics=1, **answers)
        assert run(script, OrderKind.SPLIT).outcome is (
            outcome if outcome is not OrderOutcome.MOVED else outcome.REFUSED
        )


def test_another_owner_is_named() -> None:
    script = Script(Unload=GOOD, ListOwned_a=[HERE, NOWHERE], ListOwned_b=NOWHERE, FindOwner=[None, "c:1"])
    ended = run(script)
    assert (ended.outcome, ended.owner, ended.sent) == (OrderOutcome.ELSEWHERE, "c:1", False), "it was used up"
    ended = run(Script(Unload=GOOD, ListOwned_a=[HERE, NOWHERE], FindOwner="c:1"), OrderKind.UNLOAD)
    assert (ended.outcome, ended.owner) == (OrderOutcome.MOVED, "c:1")


@pytest.mark.parametrize("status", [0, 500, 503])
def test_a_bundle_that_nobody_lists_is_looked_for_until_the_deadline_unless_pulsar_says_that_it_is_done(
    status: int,
) -> None:
    """Its request may be carried out yet, in the extensible manager for minutes: `elsewhere` would be a guess."""
    waited_ms = 0

    def moves_late(call: ask.Call) -> Any:
        nonlocal waited_ms
        waited_ms += call.ms if isinstance(call, ask.Pause) else 0
        late = isinstance(call, ask.ListOwned) and call.broker == "b:1" and waited_ms > 140_000
        return HERE if late else script(call)

    script = Script(Unload=Reply(status, reached=True), ListOwned_a=[HERE, NOWHERE], ListOwned_b=NOWHERE)
    assert run(moves_late, modular=False).outcome is OrderOutcome.MOVED


@pytest.mark.parametrize("modular", [True, False])
def test_the_wait_for_an_answer_leaves_time_to_look_at_the_lists_before_the_deadline(modular: bool) -> None:
    """With a longer one, an order whose answer is lost would end as `expired` although its bundle has moved."""
    facts = {"broker:a:1": {"unload_timeout_ms": 5_000}}
    for broker in ("a:1", "b:1"):
        left_ms = order_allowance_ms(facts, broker, modular) - answer_timeout_ms(facts, broker)
        assert left_ms >= 20_000
        assert answer_timeout_ms(facts, broker) > unload_timeout_ms(facts, broker), "the broker may take as long"


def test_a_bundle_that_nobody_lists_is_given_up() -> None:
    ended = run(Script(Unload=GOOD, ListOwned_a=[HERE, NOWHERE], ListOwned_b=NOWHERE))
    assert (ended.outcome, ended.owner) == (OrderOutcome.ELSEWHERE, None)


def test_a_split_is_over_once_the_ring_has_both_halves() -> None:
    split = (0, 77, 0x40000000, RING_END)
    assert run(Script(ReadRing=[RING, RING, split], Split=GOOD, ListOwned_a=HERE), OrderKind.SPLIT).outcome is (
        OrderOutcome.SPLIT
    )
    unchanged = run(Script(Split=GOOD, ListOwned_a=HERE), OrderKind.SPLIT)
    assert (unchanged.outcome, unchanged.detail) == (OrderOutcome.REFUSED, "the ring has not changed")
    script = Script(CountTopics=1, ListOwned_a=HERE)
    assert run(script, OrderKind.SPLIT).outcome is OrderOutcome.REFUSED
    assert script.count(ask.Split) == 0


def test_non_persistent_topics_are_not_moved_where_they_are_to_be_spared() -> None:
    script = Script(CountNonPersistent=3, ListOwned_a=HERE, ListOwned_b=NOWHERE)
    ended = run(script, spare=True)
    assert (ended.outcome, ended.owner, ended.sent) == (OrderOutcome.REFUSED, "a:1", False)
    assert "3 non-persistent topics" in ended.detail
    assert script.count(ask.Unload) == 0


@pytest.mark.parametrize("count", [0, None])
def test_a_bundle_without_them_or_of_which_it_is_not_known_is_moved(count: int | None) -> None:
    script = Script(CountNonPersistent=count, Unload=GOOD, ListOwned_a=[HERE, NOWHERE], ListOwned_b=[NOWHERE, HERE])
    assert run(script, spare=True).outcome is OrderOutcome.MOVED


def test_a_split_leaves_topics_where_they_are() -> None:
    script = Script(Split=GOOD, ReadRing=[RING, (0, 77, 0x40000000, RING_END)], ListOwned_a=HERE)
    assert run(script, OrderKind.SPLIT, spare=True).outcome is OrderOutcome.SPLIT
    assert script.count(ask.CountNonPersistent) == 0


MIDDLE = BUNDLE.middle()
OF_ROUND = Order("o", OrderKind.SPLIT, BUNDLE, "a:1", "me", 7, None, MIDDLE, decision_id="d")


def cut_at(boundary: int, **answers: Any) -> Script:
    """Pulsar cuts the bundle there."""
    after = (0, boundary, 0x40000000, RING_END)
    return Script(Split=GOOD, ReadRing=[RING, after], ListOwned_a=HERE, **answers)


@pytest.mark.parametrize("modular", [True, False])
def test_a_round_s_split_cuts_where_half_of_the_load_lies(modular: bool) -> None:
    script = cut_at(9_999, FindBoundary=Boundary(9_999))
    ended = play(script, OF_ROUND, modular)
    assert (ended.outcome, ended.boundary, ended.detail) == (OrderOutcome.SPLIT, 9_999, "")
    assert ended.to_data()["boundary"] == 9_999
    kinds = [type(call).__name__ for call in script.asked[:5]]
    assert kinds == ["CountTopics", "FindBoundary", "ReadRing", "ListOwned", "Split"], "the owner is looked at last"
    assert script.asked[1] == ask.FindBoundary(BUNDLE, "a:1")
    assert script.asked[4] == ask.Split(BUNDLE, "a:1", 9_999)


def test_a_ring_that_was_cut_elsewhere_is_no_split() -> None:
    """The half of the load counts, not what the round proposed."""
    ended = play(cut_at(MIDDLE, FindBoundary=Boundary(9_999)), OF_ROUND)
    assert (ended.outcome, ended.boundary) == (OrderOutcome.GONE, 9_999)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (Boundary(None, "topics were not read: timed out"), "topics were not read: timed out"),
        (Boundary(0), "0x00000000 is outside the range"),
        (Boundary(0x40000000), "0x40000000 is outside the range"),
    ],
)
def test_without_a_boundary_by_load_the_proposed_one_is_used_and_the_end_says_why(found: Boundary, why: str) -> None:
    script = cut_at(MIDDLE, FindBoundary=found)
    ended = play(script, OF_ROUND)
    assert (ended.outcome, ended.boundary) == (OrderOutcome.SPLIT, MIDDLE)
    assert ended.detail == f"at the proposed boundary: {why}"
    refused = Script(Split=Reply(412, True, "no"), ListOwned_a=HERE, FindBoundary=found)
    assert play(refused, OF_ROUND).detail == f"HTTP 412: no; at the proposed boundary: {why}"
    unchanged = Script(Split=GOOD, ListOwned_a=HERE, FindBoundary=found)
    assert play(unchanged, OF_ROUND).detail == f"the ring has not changed; at the proposed boundary: {why}"


@pytest.mark.parametrize(
    "order",
    [
        Order("o", OrderKind.SPLIT, BUNDLE, "a:1", "me", 7, None, 77, command_id="c"),
        Order("o", OrderKind.SPLIT, BUNDLE, "a:1", "me", 7, None, MIDDLE, command_id="c"),
        Order("o", OrderKind.SPLIT, BUNDLE, "a:1", "me", 7, None, 77, decision_id="d"),
    ],
)
def test_a_boundary_that_somebody_chose_is_kept(order: Order) -> None:
    assert order.boundary is not None
    script = cut_at(order.boundary)
    ended = play(script, order)
    assert (ended.outcome, ended.boundary, script.count(ask.FindBoundary)) == (OrderOutcome.SPLIT, order.boundary, 0)


def test_a_split_that_reached_nobody_cut_nowhere() -> None:
    unreached = Reply(0, reached=False, detail="no connection")
    script = Script(Split=unreached, ListOwned_a=HERE, FindBoundary=Boundary(9_999))
    ended = play(script, OF_ROUND)
    assert (ended.outcome, ended.boundary, ended.detail) == (OrderOutcome.FAILED, None, "no connection")
    assert script.count(ask.FindBoundary) == 1, "its tries cut at one place"
    assert {call.boundary for call in script.asked if isinstance(call, ask.Split)} == {9_999}


def test_one_topic_is_not_parted_and_its_load_not_asked() -> None:
    script = Script(CountTopics=1, ListOwned_a=HERE)
    assert play(script, OF_ROUND).outcome is OrderOutcome.REFUSED
    assert script.count(ask.FindBoundary) == script.count(ask.Split) == 0
