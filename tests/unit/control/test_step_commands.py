"""Commands, splits, modes and rounds."""

from __future__ import annotations

import pytest

from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.entries import Kind
from controller.domain.events import Command
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.domain.settings.policy import SplitSettings
from tests.unit.control.step_driver import StepDriver, with_settings

WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)
LOWER, UPPER = WHOLE.split_at(WHOLE.middle())


def two(mode: str = "live", **settings: object) -> tuple[StepDriver, Session, Session]:
    driver = StepDriver(with_settings(**settings), mode=mode)
    a, b = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    return driver, a, b


def rejection(driver: StepDriver, kind: str, **args: object) -> str:
    entries = driver.command(kind, **args)
    assert [e.kind for e in entries] == [Kind.COMMAND_REJECTED]
    return str(entries[0].reason)


def transfer(driver: StepDriver, target: str, at_ms: int = 60_000, **changes: object) -> RoundResult:
    fields = {"epoch": driver.of(WHOLE).epoch, **changes}
    decision = Decision(
        "r1-1", DecisionKind.TRANSFER, Label.SUCCESS, Reason.OVERLOADED, str(WHOLE), "a:1", target, **fields
    )
    return RoundResult(f"r{at_ms}", at_ms, driver.state.seq, "test", (decision,), (), {}, "hash")


@pytest.mark.parametrize(
    ("kind", "args", "needle"),
    [
        ("create_namespace", {"namespace": "no-slash"}, "tenant/namespace"),
        ("create_namespace", {"namespace": "t/n"}, "exists already"),
        ("create_namespace", {"namespace": "t/m", "bundles": 0}, "1..65536"),
        ("create_namespace", {"namespace": "t/m\n"}, "printable"),
        ("create_namespace", {"namespace": "t\u00a0x/m"}, "printable"),
        ("create_namespace", {"namespace": "t/" + "m" * 300}, "at most"),
        ("create_namespace", {"namespace": "t/m", "bundles": "four"}, "whole number"),
        ("create_topic", {"topic": "persistent://t/none/x"}, "does not exist"),
        ("create_topic", {"topic": "x"}, "persistent://"),
        ("unload_bundle", {"bundle": "t/n/0x0_0x1"}, "0xLLLLLLLL"),
        ("unload_bundle", {"bundle": "t/n/0x00000000_0x80000000"}, "no bundle"),
        ("unload_bundle", {"bundle": str(WHOLE), "to": "z:1"}, "alive: a:1, b:1"),
        ("unload_bundle", {"bundle": str(WHOLE), "to": "a:1"}, f"a:1 owns {WHOLE} already"),
        ("unload_namespace", {"namespace": "t/none"}, "does not exist"),
        ("unload_topic", {"topic": "persistent://t/none/x"}, "does not exist"),
        ("split_bundle", {"bundle": str(WHOLE), "boundary": 0}, "strictly inside"),
        ("drain", {"broker": "z:1"}, "known: a:1, b:1"),
        ("mode", {"mode": "fast"}, "shadow, live, paused"),
        ("thaw", {}, "has not tripped"),
        ("fly", {}, "none of"),
    ],
)
def test_commands_that_cannot_be_carried_out_say_why(kind: str, args: dict, needle: str) -> None:
    driver, _, _ = two()
    assert needle in rejection(driver, kind, **args)


@pytest.mark.covers("namespace-unload")
def test_of_an_unloaded_namespace_what_the_target_owns_stays_and_the_answer_says_so() -> None:
    driver, a, b = two()
    driver.command("create_namespace", namespace="t/m", bundles=3)
    first, second, third = driver.state.namespaces["t/m"]
    driver.own(a, first)
    driver.own(b, second)
    entries = driver.command("unload_namespace", namespace="t/m", to="b:1")
    assert [(e.kind, e.bundle) for e in entries] == [(Kind.COMMAND_ACCEPTED, None), (Kind.OWNERSHIP, str(first))]
    assert entries[0].reason == "b:1 owns 1 of the 2 owned bundles of t/m already: what is there stays"
    assert driver.of(third).state is State.FREE
    assert "every owned bundle of t/m is at b:1 already" in rejection(
        driver, "unload_namespace", namespace="t/m", to="b:1"
    )
    (answer, *moves) = driver.command("unload_namespace", namespace="t/n", to="b:1")
    assert (answer.reason, len(moves)) == (None, 1)
    again = rejection(driver, "unload_namespace", namespace="t/n", to="b:1")
    assert "no bundle of t/n is owned now" in again, "it is on its way: there is nothing to move"


@pytest.mark.covers("bundles-at-creation")
def test_a_command_happens_once_for_its_id() -> None:
    driver, _, _ = two()
    command = Command("same", "create_namespace", {"namespace": "t/m", "bundles": 2})
    first = driver.run(command)
    assert [e.kind for e in first] == [Kind.COMMAND_ACCEPTED, Kind.NAMESPACE_CREATED]
    assert driver.run(command, command) == []


@pytest.mark.covers("topic-unload")
def test_topic_unload_keeps_owner_and_epoch() -> None:
    driver, a, _ = two()
    topic = "persistent://t/n/x"
    driver.command("create_topic", topic=topic, partitions=3)
    before = driver.of(WHOLE)
    entries = driver.command("unload_topic", topic=topic)
    unloads = [e for e in entries if e.kind is Kind.TOPIC_UNLOAD]
    assert [e.data["topic"] for e in unloads] == [f"{topic}-partition-{i}" for i in range(3)]
    assert {e.by for e in unloads} == {str(a)}
    assert driver.of(WHOLE) == before


@pytest.mark.covers("split-in-two", "split-parent-retired")
def test_split_by_command_retires_the_parent_and_leaves_both_halves_with_the_owner() -> None:
    driver, a, _ = two()
    epoch = driver.of(WHOLE).epoch
    driver.command("split_bundle", bundle=str(WHOLE))
    assert driver.of(WHOLE).state is State.SPLITTING
    (split,) = [e for e in driver.say(a, "split_done", WHOLE) if e.kind is Kind.SPLIT]
    assert (split.command_id, split.decision_id) == (f"c{driver.commands}", None)
    assert driver.of(WHOLE).state is State.RETIRED
    for child in (LOWER, UPPER):
        assert (driver.of(child).state, driver.of(child).by) == (State.OWNED, a)
        assert driver.of(child).epoch > epoch
    assert driver.say(a, "split_done", WHOLE) == []


@pytest.mark.covers("split-unload-switch", "split-half-moves", "split-example")
@pytest.mark.parametrize(("loads", "moved"), [((5, 9), LOWER), ((9, 5), UPPER)])
@pytest.mark.parametrize("auto_unload", [True, False])
def test_proposed_split_sends_the_quieter_half_on(loads: tuple[int, int], moved: Bundle, auto_unload: bool) -> None:
    driver, a, b = two(split=SplitSettings(auto_unload=auto_unload))
    driver.say(a, "split_proposed", WHOLE, reason=Reason.SPLIT_MSG_RATE.value)
    driver.say(a, "split_done", WHOLE, data={"lower_load": loads[0], "upper_load": loads[1]})
    stays = LOWER if moved == UPPER else UPPER
    assert driver.of(stays).state is State.OWNED
    expected = (State.TRANSFERRING, b) if auto_unload else (State.OWNED, None)
    assert (driver.of(moved).state, driver.of(moved).to) == expected


BEST = {"lower_load": 9, "upper_load": 1, "best_boundary": 0x1000, "best_lower_load": 4, "best_upper_load": 6}


@pytest.mark.covers("split-in-two")
def test_an_owner_that_knows_its_topics_cuts_where_their_load_is_even() -> None:
    driver, a, b = two(split=SplitSettings(auto_unload=True))
    driver.say(a, "split_proposed", WHOLE)
    (split,) = [e for e in driver.say(a, "split_done", WHOLE, data=BEST) if e.kind is Kind.SPLIT]
    lower, upper = WHOLE.split_at(0x1000)
    assert set(split.data["children"]) == {str(lower), str(upper)}
    assert (driver.of(lower).to, driver.of(upper).by) == (b, a)  # the quieter by the loads of that very cut


def test_a_round_s_split_in_the_middle_is_the_owner_s_to_place() -> None:
    driver, a, _ = two(split=SplitSettings(auto_unload=False))
    split = Decision(
        "r-1", DecisionKind.SPLIT, Label.SUCCESS, Reason.SPLIT_MSG_RATE, str(WHOLE), "a:1",
        epoch=driver.of(WHOLE).epoch, boundary=WHOLE.middle(),
    )  # fmt: skip
    driver.round(RoundResult("r1", 60_000, driver.state.seq, "test", (split,), (), {}, "hash"))
    driver.say(a, "split_done", WHOLE, data=BEST)
    assert [b.upper for b in driver.state.namespaces["t/n"]] == [0x1000, 0xFFFFFFFF]


@pytest.mark.parametrize("best", [0, 0xFFFFFFFF, -5, 2**40, "0x1000", True, None, 1.5])
def test_a_cut_that_is_none_is_passed_over(best: object) -> None:
    driver, a, _ = two(split=SplitSettings(auto_unload=False))
    driver.say(a, "split_proposed", WHOLE)
    driver.say(a, "split_done", WHOLE, data={**BEST, "best_boundary": best})
    assert driver.state.namespaces["t/n"] == (LOWER, UPPER)


@pytest.mark.parametrize("boundary", [0x2000, None])
def test_where_an_operator_cuts_is_the_operator_s_choice(boundary: int | None) -> None:
    driver, a, _ = two()
    driver.command("split_bundle", bundle=str(WHOLE), **({"boundary": boundary} if boundary else {}))
    driver.say(a, "split_done", WHOLE, data=BEST)
    assert driver.state.namespaces["t/n"][0].upper == (boundary or WHOLE.middle())


def test_a_half_that_was_sent_on_is_in_its_grace_period() -> None:
    driver, a, b = two(split=SplitSettings(auto_unload=True))
    driver.round(RoundResult("r0", 60_000, driver.state.seq, "test", (), (), {}, "hash"))
    driver.say(a, "split_proposed", WHOLE)
    driver.say(a, "split_done", WHOLE)
    driver.say(b, "accepted", UPPER)
    driver.say(a, "released", UPPER)
    driver.say(b, "serving", UPPER)
    move = Decision(
        "r1-1", DecisionKind.TRANSFER, Label.SUCCESS, Reason.OVERLOADED, str(UPPER), "b:1", "a:1",
        epoch=driver.of(UPPER).epoch,
    )  # fmt: skip
    driver.round(RoundResult("r120000", 120_000, driver.state.seq, "test", (move,), (), {}, "hash"))
    assert driver.evidence[0].outcomes == {"r1-1": Reason.GRACE_PERIOD.value}


@pytest.mark.covers("split-switch", "split-proposed-locally")
@pytest.mark.parametrize(
    ("mode", "enabled", "splits"), [("live", True, True), ("live", False, False), ("shadow", True, False)]
)
def test_proposals_need_live_mode_and_the_switch(mode: str, enabled: bool, splits: bool) -> None:
    driver, a, _ = two(mode, split=SplitSettings(enabled=enabled))
    driver.say(a, "split_proposed", WHOLE)
    assert (driver.of(WHOLE).state is State.SPLITTING) is splits


@pytest.mark.covers("split-max-bundles")
def test_bundle_limit_counts_splits_in_flight() -> None:
    driver, a, _ = two(split=SplitSettings(namespace_maximum_bundles=3, auto_unload=False))
    driver.command("split_bundle", bundle=str(WHOLE))
    driver.say(a, "split_done", WHOLE)
    driver.say(a, "split_proposed", LOWER)
    assert driver.of(LOWER).state is State.SPLITTING
    assert driver.say(a, "split_proposed", UPPER) == []
    assert "maximum of 3" in rejection(driver, "split_bundle", bundle=str(UPPER))


def test_split_that_is_rejected_or_late_leaves_the_owner() -> None:
    driver, a, _ = two()
    driver.command("split_bundle", bundle=str(WHOLE))
    driver.say(a, "rejected", WHOLE, reason="busy")
    assert driver.of(WHOLE).state is State.OWNED
    driver.command("split_bundle", bundle=str(WHOLE))
    late = driver.of(WHOLE).epoch
    driver.wait(16_000)
    assert driver.of(WHOLE).state is State.OWNED
    assert driver.say(a, "split_done", WHOLE, epoch=late) == []


@pytest.mark.covers("keeps-balancing", "shedding-switch", "move-proposed-and-recorded")
def test_round_moves_in_live_mode_and_only_tells_in_shadow_and_paused() -> None:
    for mode, outcome in (("live", "executed"), ("shadow", "301_shadow_mode"), ("paused", "302_paused_mode")):
        driver, _, _ = two(mode)
        driver.round(transfer(driver, "b:1"))
        assert driver.evidence[0].outcomes == {"r1-1": outcome}
        assert (driver.of(WHOLE).state is State.TRANSFERRING) is (mode == "live")
        round_entry = next(e for e in reversed(driver.journal) if e.kind is Kind.ROUND)
        assert round_entry.attempt_id == driver.evidence[0].attempt_id


def test_round_decisions_on_a_state_that_moved_on_are_void() -> None:
    driver, _, _ = two()
    for result, outcome in (
        (transfer(driver, "b:1", at_ms=60_000, epoch=99), "408_state_has_moved_on"),
        (transfer(driver, "z:9", at_ms=70_000), "408_state_has_moved_on"),
        (transfer(driver, "a:1", at_ms=80_000), "408_state_has_moved_on"),
    ):
        driver.round(result)
        assert driver.evidence[0].outcomes == {"r1-1": outcome}
    driver.command("drain", broker="b:1")
    driver.round(transfer(driver, "b:1", at_ms=90_000))
    assert driver.evidence[0].outcomes == {"r1-1": "305_broker_drained"}


@pytest.mark.covers("grace-period")
def test_a_moved_bundle_stays_through_its_grace_period() -> None:
    driver, a, b = two()
    driver.round(transfer(driver, "b:1", at_ms=60_000))
    driver.say(b, "accepted", WHOLE)
    driver.say(a, "released", WHOLE)
    driver.say(b, "serving", WHOLE)
    driver.round(transfer(driver, "a:1", at_ms=60_000 + 30 * 60_000 - 1))
    assert driver.evidence[0].outcomes == {"r1-1": "201_grace_period"}
    driver.round(transfer(driver, "a:1", at_ms=60_000 + 30 * 60_000))
    assert driver.evidence[0].outcomes == {"r1-1": "executed"}


def test_a_refused_move_starts_no_grace_period_and_a_commanded_one_does() -> None:
    driver, _, b = two()
    driver.round(transfer(driver, "b:1", at_ms=60_000))
    driver.say(b, "rejected", WHOLE, reason="304_broker_cap")
    assert (driver.of(WHOLE).moved_at_ms, driver.of(WHOLE).moving_at_ms) == (0, 0)
    driver.own(b, WHOLE)
    assert driver.of(WHOLE).moved_at_ms == 60_000
    driver.round(transfer(driver, "a:1", at_ms=120_000))
    assert driver.evidence[0].outcomes == {"r1-1": "201_grace_period"}


def test_a_round_computed_twice_counts_once() -> None:
    driver, _, _ = two()
    driver.round(transfer(driver, "b:1"))
    rounds = driver.state.rounds
    assert driver.round(transfer(driver, "a:1")) == []
    assert driver.state.rounds == rounds


def test_targets_that_leave_are_refused() -> None:
    driver, _, b = two()
    driver.say(b, "leaving")
    assert "leaving" in rejection(driver, "unload_bundle", bundle=str(WHOLE), to="b:1")


def test_a_drained_brokers_transfer_is_not_attributed_to_an_older_decision() -> None:
    driver, a, b = two()
    driver.round(transfer(driver, "b:1"))
    driver.say(b, "accepted", WHOLE)
    driver.say(a, "released", WHOLE)
    owned = [e for e in driver.say(b, "serving", WHOLE) if e.kind is Kind.OWNERSHIP]
    assert [e.decision_id for e in owned] == ["r1-1"]
    moves = [e for e in driver.command("drain", broker="b:1") if e.kind is Kind.OWNERSHIP]
    assert [(e.state, e.decision_id) for e in moves] == [("transferring", f"step-i-{driver.batches}-0000")]


@pytest.mark.covers("right-settings")
def test_challengers_are_recorded_and_never_carried_out() -> None:
    driver, _, _ = two()
    result = transfer(driver, "b:1")
    object.__setattr__(result, "challenger", True)
    driver.round(result)
    assert driver.evidence[0].outcomes == {"r1-1": "challenger"}
    assert driver.state.rounds == 0
    assert driver.state.round_memory == {}
    (entry,) = [e for e in driver.journal if e.kind is Kind.ROUND]
    assert "memory" not in entry.data  # it would be in the journal once more for each of them


@pytest.mark.covers("bundles-independent", "bundles-at-creation", "sixteen-bundles")
def test_sixteen_bundles_spread_to_sixteen_brokers() -> None:
    driver = StepDriver()
    for i in range(16):
        driver.join(f"b{i:02}:1")
    driver.command("create_namespace", namespace="t/n", bundles=16)
    for bundle in driver.state.namespaces["t/n"]:
        driver.lookup(bundle)
    assert len({r.to.broker for r in driver.state.bundles.values() if r.to}) == 16


def test_offsets_are_journaled_with_whatever_counts_and_not_with_heartbeats_alone() -> None:
    driver, a, _ = two()
    seq = driver.state.seq
    driver.run()
    driver.say(a, "inventory", serving={str(WHOLE): 1})
    assert driver.state.seq == seq
    driver.say(a, "accepted", WHOLE, epoch=0)
    assert driver.state.seq == seq + 1
    assert driver.state.offsets["t"]["0"] == driver.batches


def test_a_rejected_command_that_is_read_again_is_not_carried_out() -> None:
    """Kafka may deliver it twice, and what it was rejected for may be over by then; its sender was told no."""
    driver = StepDriver()
    command = Command("c-again", "drain", {"broker": "a:1"}, "tester", "test")
    driver.run(command)
    driver.join("a:1")
    driver.run(command)
    outcomes = [e.kind for e in driver.journal if e.command_id == "c-again" and e.kind.value.startswith("command_")]
    assert outcomes == [Kind.COMMAND_REJECTED]
    assert not driver.state.brokers["a:1"].drained
