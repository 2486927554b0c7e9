"""What an agent does on each word of the journal, by the table of docs/agent.md."""

from __future__ import annotations

import pytest

from controller.agent.handover import actions as do
from controller.agent.handover.actions import Answer, Outcome
from controller.domain.entries import Kind
from controller.domain.ids import RING_END, Bundle, Session
from controller.domain.ownership import State
from tests.unit.agent.agent_world import NAMESPACE, WHOLE, Journal, ModelAgent

A, B, C = (Session(f"{name}:1", 1, f"n{name}", 1) for name in "abc")
MIDDLE = WHOLE.middle()


@pytest.fixture
def journal() -> Journal:
    journal = Journal()
    for session in (A, B, C):
        journal.register(session)
    journal.namespace()
    return journal


def _owner(journal: Journal, session: Session = A) -> ModelAgent:
    """An agent that was assigned the bundle and serves it at epoch 1."""
    agent = ModelAgent(session)
    journal.own(State.ASSIGNING, 1, to=session)
    agent.read(journal)
    agent.finish()
    journal.own(State.OWNED, 1, by=session)
    agent.read(journal)
    assert agent.served == {WHOLE: 1}
    agent.said.clear()
    return agent


def _target(journal: Journal, epoch: int = 2) -> ModelAgent:
    """B, after it accepted a transfer from A."""
    agent = ModelAgent(B)
    journal.own(State.TRANSFERRING, epoch, A, B)
    agent.read(journal)
    agent.finish()
    assert agent.said == [Answer("accepted", WHOLE, epoch)]
    agent.said.clear()
    return agent


def test_assigned_bundle_is_served_and_said(journal: Journal) -> None:
    agent = ModelAgent(A)
    journal.own(State.ASSIGNING, 1, to=A)
    assert agent.read(journal) == [do.Serve(WHOLE, 1)]
    assert agent.finish() == [Answer("serving", WHOLE, 1)]


def test_answers_are_repeated_each_second_until_the_journal_moves_on(journal: Journal) -> None:
    agent = ModelAgent(A)
    journal.own(State.ASSIGNING, 1, to=A)
    agent.read(journal)
    agent.finish()
    assert agent.tick(999) == []
    assert agent.tick(1) == [Answer("serving", WHOLE, 1)]
    assert agent.tick(1_000) == [Answer("serving", WHOLE, 1)]
    journal.own(State.OWNED, 1, by=A)
    assert agent.read(journal) == []
    assert agent.tick(5_000) == []


def test_refused_assignment_is_rejected_and_never_served(journal: Journal) -> None:
    agent = ModelAgent(A, refusals={WHOLE: "304_broker_cap"})
    journal.own(State.ASSIGNING, 1, to=A)
    assert agent.read(journal) == [Answer("rejected", WHOLE, 1, "304_broker_cap")]
    agent.refusals.clear()
    assert agent.tick() == [Answer("rejected", WHOLE, 1, "304_broker_cap")]


def test_fenced_assignment_is_dropped_then_rejected(journal: Journal) -> None:
    agent = ModelAgent(A)
    journal.own(State.ASSIGNING, 1, to=A)
    agent.read(journal)
    assert agent.finish(outcome=Outcome.FENCED) == [do.Drop(WHOLE)]
    assert agent.finish() == [Answer("rejected", WHOLE, 1, "fenced")]


def test_failed_serve_is_tried_again_after_a_second(journal: Journal) -> None:
    agent = ModelAgent(A)
    journal.own(State.ASSIGNING, 1, to=A)
    agent.read(journal)
    assert agent.finish(outcome=Outcome.FAILED) == []
    assert agent.tick(900) == []
    assert agent.tick(100) == [do.Serve(WHOLE, 1)]


@pytest.mark.covers("target-agrees")
def test_target_holds_then_accepts(journal: Journal) -> None:
    _owner(journal)
    agent = ModelAgent(B)
    journal.own(State.TRANSFERRING, 2, A, B)
    assert agent.read(journal) == [do.Hold(WHOLE)]
    assert agent.finish() == [Answer("accepted", WHOLE, 2)]


@pytest.mark.covers("target-agrees")
def test_target_rejects_what_it_refuses_without_holding(journal: Journal) -> None:
    _owner(journal)
    agent = ModelAgent(B, refusals={WHOLE: "304_broker_cap"})
    journal.own(State.TRANSFERRING, 2, A, B)
    assert agent.read(journal) == [Answer("rejected", WHOLE, 2, "304_broker_cap")]


@pytest.mark.covers("balancing-costs-little")
def test_owner_serves_on_while_transferring(journal: Journal) -> None:
    agent = _owner(journal)
    journal.own(State.TRANSFERRING, 2, A, B)
    assert agent.read(journal) == []
    assert agent.served == {WHOLE: 1}


@pytest.mark.covers("ownership-transfer", "graceful-release")
def test_owner_releases_to_the_target_and_says_so(journal: Journal) -> None:
    agent = _owner(journal)
    journal.own(State.TRANSFERRING, 2, A, B)
    journal.own(State.RELEASING, 2, A, B)
    assert agent.read(journal) == [do.Release(WHOLE, B)]
    assert agent.finish() == [Answer("released", WHOLE, 2)]
    assert agent.served == {}


def test_journaled_released_is_not_repeated(journal: Journal) -> None:
    agent = _owner(journal)
    journal.own(State.RELEASING, 2, A, None)
    agent.read(journal)
    agent.finish()
    journal.own(State.RELEASING, 2, A, None, released=True)
    assert agent.read(journal) == []
    assert agent.tick() == []


def test_by_answers_released_though_it_serves_nothing(journal: Journal) -> None:
    journal.own(State.ASSIGNING, 1, to=A)
    journal.own(State.RELEASING, 2, A, B)
    agent = ModelAgent(A)
    assert agent.read(journal) == [Answer("released", WHOLE, 2)]


def test_hanging_release_becomes_a_drop_and_is_answered(journal: Journal) -> None:
    agent = _owner(journal)
    journal.own(State.RELEASING, 2, A, None)
    agent.read(journal)
    assert agent.finish(outcome=Outcome.FAILED, effect=False) == [do.Drop(WHOLE)]
    assert agent.finish() == [Answer("released", WHOLE, 2)]


@pytest.mark.covers("short-blip")
def test_target_serves_at_once_on_released(journal: Journal) -> None:
    _owner(journal)
    agent = _target(journal)
    journal.own(State.RELEASING, 2, A, B)
    assert agent.read(journal) == []
    assert agent.hear(WHOLE, 2, A) == [do.Serve(WHOLE, 2)]
    assert agent.finish() == [Answer("serving", WHOLE, 2)]


def test_released_ahead_of_the_journal_is_remembered(journal: Journal) -> None:
    _owner(journal)
    agent = _target(journal)
    assert agent.hear(WHOLE, 2, A) == []
    journal.own(State.RELEASING, 2, A, B)
    assert agent.read(journal) == [do.Serve(WHOLE, 2)]


@pytest.mark.parametrize(
    ("epoch", "by"),
    [(1, A), (3, A), (2, C), (2, A._replace(number=2)), (2, A._replace(nonce="other"))],
    ids=["older epoch", "newer epoch", "another broker", "another session", "another process"],
)
def test_released_of_another_epoch_or_session_starts_nothing(journal: Journal, epoch: int, by: Session) -> None:
    _owner(journal)
    agent = _target(journal)
    agent.hear(WHOLE, epoch, by)
    journal.own(State.RELEASING, 2, A, B)
    assert agent.read(journal) == []
    assert agent.hear(WHOLE, epoch, by) == []
    assert agent.running == {}


def test_remembered_released_is_dropped_when_the_epoch_moves_on(journal: Journal) -> None:
    _owner(journal)
    agent = _target(journal)
    agent.hear(WHOLE, 2, A)
    journal.own(State.OWNED, 3, A)
    agent.read(journal)
    agent.settle()
    journal.own(State.TRANSFERRING, 4, A, B)
    journal.own(State.RELEASING, 4, A, B)
    agent.read(journal)
    agent.settle()
    assert agent.served == {}


@pytest.mark.parametrize("data", [{"released": True}, {"fence": True}])
def test_released_or_fence_in_the_entry_starts_serving(journal: Journal, data: dict[str, bool]) -> None:
    _owner(journal)
    agent = ModelAgent(B)
    journal.own(State.RELEASING, 2, A, B, **data)
    assert agent.read(journal) == [do.Serve(WHOLE, 2)]


def test_fencer_fences_without_serving(journal: Journal) -> None:
    _owner(journal)
    agent = ModelAgent(C)
    journal.own(State.RELEASING, 2, A, None, fencer=str(C), fence=True)
    assert agent.read(journal) == [do.Fence(WHOLE, 2)]
    assert agent.finish() == [Answer("fenced", WHOLE, 2)]


def test_owner_adopts_the_epoch_it_goes_back_to(journal: Journal) -> None:
    agent = _owner(journal)
    journal.own(State.TRANSFERRING, 2, A, B)
    journal.own(State.OWNED, 3, A)
    assert agent.read(journal) == [do.Serve(WHOLE, 3)]
    agent.finish()
    assert agent.served == {WHOLE: 3}
    assert agent.said == []


def test_inventory_names_the_adopted_epoch_while_the_runtime_is_still_at_it(journal: Journal) -> None:
    agent = _owner(journal)
    journal.own(State.TRANSFERRING, 2, A, B)
    journal.own(State.OWNED, 3, A)
    agent.read(journal)
    assert agent.core.inventory() == {WHOLE: 3}


def test_owned_but_not_served_starts_nothing(journal: Journal) -> None:
    journal.own(State.ASSIGNING, 1, to=A)
    journal.own(State.OWNED, 1, A)
    agent = ModelAgent(A)
    assert agent.read(journal) == []
    assert agent.core.inventory() == {}


def test_target_that_is_not_named_any_more_lets_go(journal: Journal) -> None:
    _owner(journal)
    agent = _target(journal)
    journal.own(State.OWNED, 3, A)
    assert agent.read(journal) == [do.Drop(WHOLE)]


def test_served_bundle_that_names_another_is_dropped(journal: Journal) -> None:
    agent = _owner(journal)
    journal.own(State.FREE, 1)
    assert agent.read(journal) == [do.Drop(WHOLE)]


def test_grant_taken_back_while_serving_begins_is_broken_off_then_released(journal: Journal) -> None:
    agent = ModelAgent(A)
    journal.own(State.ASSIGNING, 1, to=A)
    agent.read(journal)
    journal.own(State.RELEASING, 2, A, B)
    assert agent.read(journal) == [do.Cancel(WHOLE)]
    assert agent.finish(outcome=Outcome.CANCELLED) == [do.Release(WHOLE, B)]
    assert agent.finish() == [Answer("released", WHOLE, 2)]
    assert agent.served == {}


def test_split_is_agreed_to_then_carried_out_on_the_entry(journal: Journal) -> None:
    agent = _owner(journal)
    journal.own(State.SPLITTING, 2, A, boundary=MIDDLE)
    assert agent.read(journal) == [Answer("split_done", WHOLE, 2)]
    left, right = WHOLE.split_at(MIDDLE)
    journal.add(Kind.SPLIT, bundle=str(WHOLE), by=str(A), data={"children": {str(left): 3, str(right): 3}})
    assert agent.read(journal) == [do.Split(WHOLE, {left: 3, right: 3})]
    assert agent.core.inventory() == {left: 3, right: 3}
    agent.finish()
    assert agent.served == {left: 3, right: 3}


@pytest.mark.covers("split-half-moves")
def test_child_sent_on_in_the_same_batch_waits_for_the_split(journal: Journal) -> None:
    agent = _owner(journal)
    left, right = WHOLE.split_at(MIDDLE)
    journal.own(State.SPLITTING, 2, A, boundary=MIDDLE)
    journal.add(Kind.SPLIT, bundle=str(WHOLE), by=str(A), data={"children": {str(left): 3, str(right): 3}})
    journal.own(State.RELEASING, 4, A, B, bundle=right)
    assert agent.read(journal) == [do.Split(WHOLE, {left: 3, right: 3})]
    assert agent.finish() == [do.Release(right, B)]
    assert agent.finish(right) == [Answer("released", right, 4)]
    assert agent.served == {left: 3}


@pytest.mark.parametrize("refused", [False, True])
def test_a_part_that_comes_back_waits_until_the_whole_has_been_dropped(journal: Journal, refused: bool) -> None:
    """A lost the bundle, which B then split; A reads that and the offer of a half in one go."""
    agent = _owner(journal)
    left, right = WHOLE.split_at(MIDDLE)
    journal.own(State.FREE, 1)
    journal.own(State.ASSIGNING, 2, to=B)
    journal.own(State.OWNED, 2, B)
    journal.own(State.SPLITTING, 3, B, boundary=MIDDLE)
    journal.add(Kind.SPLIT, bundle=str(WHOLE), by=str(B), data={"children": {str(left): 4, str(right): 4}})
    journal.own(State.FREE, 4, bundle=left)
    journal.own(State.ASSIGNING, 5, to=A, bundle=left)
    if refused:
        agent.refusals[left] = "304_broker_cap"
    assert agent.read(journal) == [do.Drop(WHOLE)]
    assert agent.tick() == []
    assert agent.finish() == []
    follows = Answer("rejected", left, 5, "304_broker_cap") if refused else do.Serve(left, 5)
    assert agent.tick() == [follows]


def test_failed_split_drops_parent_and_children(journal: Journal) -> None:
    agent = _owner(journal)
    left, right = WHOLE.split_at(MIDDLE)
    journal.own(State.SPLITTING, 2, A, boundary=MIDDLE)
    journal.add(Kind.SPLIT, bundle=str(WHOLE), by=str(A), data={"children": {str(left): 3, str(right): 3}})
    agent.read(journal)
    agent.finish(outcome=Outcome.FAILED)
    agent.tick()
    agent.settle()
    assert agent.served == {}
    assert agent.core.inventory() == {}


def test_a_child_is_released_once_its_parent_whose_split_failed_has_been_dropped(journal: Journal) -> None:
    """A failed split may have left the parent served, and with it the child's range (found by simulation, seed 191)."""
    agent = _owner(journal)
    left, right = WHOLE.split_at(MIDDLE)
    journal.own(State.SPLITTING, 2, A, boundary=MIDDLE)
    journal.add(Kind.SPLIT, bundle=str(WHOLE), by=str(A), data={"children": {str(left): 3, str(right): 3}})
    journal.own(State.RELEASING, 4, A, B, bundle=right)
    agent.read(journal)
    said = [*agent.finish(outcome=Outcome.FAILED, effect=False), *agent.tick(), *agent.finish(right)]
    assert do.Drop(WHOLE) in said
    assert WHOLE in agent.served
    assert Answer("released", right, 4) not in said
    agent.finish(WHOLE)
    assert agent.served == {}
    assert Answer("released", right, 4) in agent.tick()


@pytest.mark.parametrize("boundary", [None, 0, RING_END])
def test_split_at_an_edge_is_rejected(journal: Journal, boundary: int | None) -> None:
    agent = _owner(journal)
    data = {} if boundary is None else {"boundary": boundary}
    journal.own(State.SPLITTING, 2, A, **data)
    assert agent.read(journal) == [Answer("rejected", WHOLE, 2, "boundary_not_inside")]
    assert agent.served == {WHOLE: 1}


@pytest.mark.covers("topic-unload")
def test_topic_unload_reopens_where_the_bundle_is_served(journal: Journal) -> None:
    agent, other = _owner(journal), ModelAgent(B)
    topic = f"persistent://{NAMESPACE}/x"
    journal.add(Kind.TOPIC_UNLOAD, bundle=str(WHOLE), by=str(A), data={"topic": topic})
    assert agent.read(journal) == [do.Reopen(WHOLE, topic)]
    assert other.read(journal) == []


@pytest.mark.covers("ownership-ends-with-session")
def test_end_of_a_session_drops_everything_and_silences_the_core(journal: Journal) -> None:
    agent = _owner(journal)
    journal.own(State.TRANSFERRING, 2, A, B)
    agent.read(journal)
    assert do.Drop(WHOLE) in agent.core.end()
    journal.own(State.RELEASING, 2, A, B)
    assert agent.core.on_entries(journal.entries[-1:], journal.state, 0) == []
    assert agent.core.tick(10_000) == []


def test_pending_hand_over_does_not_outlive_the_session(journal: Journal) -> None:
    _owner(journal)
    agent = _target(journal)
    journal.own(State.RELEASING, 2, A, B)
    agent.read(journal)
    agent.expire()
    agent.hear(WHOLE, 2, A)
    agent.tick()
    assert agent.running == {}


def test_bundle_that_the_runtime_gave_up_leaves_the_inventory(journal: Journal) -> None:
    agent = _owner(journal)
    agent.core.on_lost([WHOLE], 0)
    assert agent.core.inventory() == {}
    assert agent.tick() == []


def test_hostile_released_events_cannot_fill_the_memory(journal: Journal) -> None:
    agent = ModelAgent(B)
    agent.read(journal)
    for lower in range(12_000):
        agent.hear(Bundle("x/y", lower, lower + 1), 5, A)
    assert len(agent.core._heard) == 10_000


def test_a_half_that_is_split_meanwhile_is_split_next_and_never_dropped(journal: Journal) -> None:
    """Its quarters count as served from the journal's word on: were they missing from the inventory, the controller
    would take them away, and were the half dropped, all its clients would lose their connections."""
    agent = _owner(journal)
    left, right = WHOLE.split_at(MIDDLE)
    journal.own(State.SPLITTING, 2, A, boundary=MIDDLE)
    journal.add(Kind.SPLIT, bundle=str(WHOLE), by=str(A), data={"children": {str(left): 3, str(right): 3}})
    assert agent.read(journal) == [do.Split(WHOLE, {left: 3, right: 3})]
    first, second = left.split_at(MIDDLE // 2)
    journal.own(State.SPLITTING, 4, A, bundle=left, boundary=MIDDLE // 2)
    journal.add(Kind.SPLIT, bundle=str(left), by=str(A), data={"children": {str(first): 5, str(second): 5}})
    assert agent.read(journal) == []
    assert agent.core.inventory() == {right: 3, first: 5, second: 5}
    assert agent.finish() == [do.Split(left, {first: 5, second: 5})]
    agent.finish(left)
    assert agent.served == {right: 3, first: 5, second: 5}
