"""What `ballast decide` keeps between lines, and that it decides what a round of the job would."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.published.clusters import loads, moves
from controller.cli.tryout.decide import answer
from controller.decide.line import parse_line
from controller.decide.session import UNDERWAY_MS, DecideSession, Underway
from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.errors import BadRecord
from controller.domain.settings.policy import PolicySettings, ShedSettings, SplitSettings
from controller.policy.strategies import STRATEGIES, traits_of
from controller.policy.view.snapshot import Snapshot
from tests.sim.decide.decide_lines import MINUTE_MS, Lines, skewed

EAGER = PolicySettings(shed=ShedSettings(consecutive_rounds=1))


def session(settings: PolicySettings = EAGER, strategy: str = "headroom") -> DecideSession:
    return DecideSession(strategy, settings)


def decided(of: DecideSession, lines: Lines) -> tuple[Decision, ...]:
    return of.decide(of.snapshot(parse_line(lines.next())))


def seen(of: DecideSession, lines: Lines) -> Snapshot:
    return of.snapshot(parse_line(lines.next()))


def answered(of: DecideSession, lines: Lines) -> dict[str, Any]:
    return answer(of, lines.next(), 0.0, lambda: 0.0)


def of_kind(decisions: tuple[Decision, ...], kind: DecisionKind) -> list[Decision]:
    return [d for d in decisions if d.kind is kind]


def test_a_line_is_decided_as_a_round_of_the_same_cluster() -> None:
    percents = (90, 60, 20, 10)
    built = loads(*percents)
    lines = Lines()
    for at, percent in enumerate(percents):
        names = [row["bundle"] for row in built.bundles if row["broker"] == f"b{at}"]
        lines.broker(f"b{at}", dict.fromkeys(names, percent / 10))
    of = session(PolicySettings())
    decided(of, lines)
    ours = of_kind(decided(of, lines), DecisionKind.TRANSFER)
    theirs = moves(built.second_round())
    assert ours
    assert [(d.bundle, d.source, d.target, d.reason) for d in ours] == [
        (d.bundle, d.source, d.target, d.reason) for d in theirs
    ]


def test_hits_are_kept_between_lines() -> None:
    of, lines = session(PolicySettings()), skewed()
    assert not of_kind(decided(of, lines), DecisionKind.TRANSFER)
    assert of_kind(decided(of, lines), DecisionKind.TRANSFER)


def test_a_move_that_the_next_line_shows_is_in_its_grace_period_from_its_decision_on() -> None:
    of, lines = session(), skewed()
    moved = answered(of, lines)
    assert lines.carry_out(moved) > 0
    name = moved["decisions"][0]["bundle"]
    snapshot = seen(of, lines)
    at = snapshot.bundles.index(name)
    assert snapshot.moved_at_ms[at] == 1_000_000
    assert (snapshot.moved_at_ms > 0).sum() == len(moved["decisions"])
    lines.now_ms += 30 * MINUTE_MS
    assert not seen(of, lines).moved_at_ms.any()


def test_a_bundle_is_not_moved_twice_within_its_grace_period() -> None:
    of, lines = session(), skewed()
    rng = random.Random(5)
    last: dict[str, int] = {}
    total = 0
    for _ in range(80):
        for held in lines.brokers.values():
            for name in held:
                held[name] = max(0.5, held[name] + rng.uniform(-2, 2))
        now_ms = lines.now_ms
        found = answered(of, lines)
        for move in found["decisions"]:
            assert now_ms - last.get(move["bundle"], -(10**9)) >= 30 * MINUTE_MS, move
            last[move["bundle"]] = now_ms
        total += lines.carry_out(found)
    assert total > 10


@pytest.mark.parametrize("grace_ms", [0, MINUTE_MS, 30 * MINUTE_MS])
def test_a_move_that_nobody_carried_out_is_decided_again_a_few_minutes_later(grace_ms: int) -> None:
    of, lines = session(replace(EAGER, shed=replace(EAGER.shed, grace_period_ms=grace_ms))), skewed()
    rounds = [of_kind(decided(of, lines), DecisionKind.TRANSFER) for _ in range(UNDERWAY_MS // MINUTE_MS + 1)]
    wanted = [(d.bundle, d.target) for d in rounds[0]]
    assert wanted == [(d.bundle, d.target) for d in rounds[-1]]
    assert not [d for waiting in rounds[1:-1] for d in waiting if d.bundle in dict(wanted)]


def test_a_move_under_way_counts_as_done() -> None:
    """Reports may be older than the move: found on a strange field (stale, seed 8), where it was made twice."""
    of, lines = session(), skewed()
    first = {d.bundle: d.target for d in of_kind(decided(of, lines), DecisionKind.TRANSFER)}
    snapshot = seen(of, lines)
    places = [snapshot.place_of(str(bundle)) for bundle in first]
    assert [snapshot.brokers[snapshot.owner[at]] for at in places] == list(first.values())
    assert snapshot.in_flight[places].all()
    assert snapshot.in_flight.sum() == len(first)


def test_a_move_whose_source_is_gone_is_not_under_way() -> None:
    of, lines = session(), skewed()
    move = of_kind(decided(of, lines), DecisionKind.TRANSFER)[0]
    heir = next(broker for broker in lines.brokers if broker not in (move.source, move.target))
    lines.brokers[heir].update(lines.brokers.pop(str(move.source)))
    snapshot = seen(of, lines)
    at = snapshot.place_of(str(move.bundle))
    assert snapshot.brokers[snapshot.owner[at]] == heir
    assert not snapshot.in_flight.any()


def test_a_move_seen_only_two_lines_later_counts_all_the_same() -> None:
    of, lines = session(), skewed()
    found = answered(of, lines)
    decided(of, lines)
    lines.carry_out(found)
    assert (seen(of, lines).moved_at_ms == 1_000_000).sum() == len(found["decisions"])


def test_a_move_whose_target_died_before_the_next_line_counts_all_the_same() -> None:
    of, lines = session(), skewed()
    found = answered(of, lines)
    assert lines.carry_out(found) > 0
    name, target = found["decisions"][0]["bundle"], found["decisions"][0]["to"]
    other = next(broker for broker in lines.brokers if broker not in (target, found["decisions"][0]["from"]))
    lines.brokers[other].update(lines.brokers.pop(target))
    snapshot = seen(of, lines)
    assert snapshot.moved_at_ms[snapshot.bundles.index(name)] == 1_000_000


def test_a_bundle_that_is_back_at_its_source_as_its_target_died_is_in_its_grace_period() -> None:
    of, lines = session(), skewed()
    found = answered(of, lines)
    assert lines.carry_out(found) > 0
    name, source, target = (found["decisions"][0][key] for key in ("bundle", "from", "to"))
    lines.brokers[source].update(lines.brokers.pop(target))
    snapshot = seen(of, lines)
    assert snapshot.moved_at_ms[snapshot.bundles.index(name)] == 1_000_000


def test_a_bundle_that_two_brokers_tell_of_belongs_to_the_one_it_was_sent_to() -> None:
    of, lines = session(), skewed()
    found = answered(of, lines)
    move = found["decisions"][0]
    lines.brokers[move["to"]][move["bundle"]] = lines.brokers[move["from"]][move["bundle"]]
    snapshot = seen(of, lines)
    at = snapshot.bundles.index(move["bundle"])
    assert snapshot.brokers[snapshot.owner[at]] == move["to"]
    assert len(snapshot.bundles) == 40
    assert snapshot.displaced[at]


def test_the_bundles_of_a_broker_that_was_silent_for_a_line_are_still_in_their_grace_period() -> None:
    of, lines = session(), skewed()
    found = answered(of, lines)
    assert lines.carry_out(found) > 0
    name, target = found["decisions"][0]["bundle"], found["decisions"][0]["to"]
    seen(of, lines)
    held = lines.brokers.pop(target)
    assert name not in seen(of, lines).bundles
    lines.brokers[target] = held
    snapshot = seen(of, lines)
    assert snapshot.moved_at_ms[snapshot.bundles.index(name)] == 1_000_000


def test_names_come_and_go() -> None:
    of, lines = session(), skewed()
    decided(of, lines)
    lines.brokers["b1:8080"]["t/ns/new"] = 5.0
    del lines.brokers["b1:8080"]["t/ns/b1-0"]
    snapshot = seen(of, lines)
    assert "t/ns/new" in snapshot.bundles
    assert "t/ns/b1-0" not in snapshot.bundles
    assert snapshot.fields[snapshot.bundles.index("t/ns/new"), 0] == 250
    lines.brokers["b0:8080"].clear()  # fewer, none of them new
    assert len(seen(of, lines).bundles) == 30


def test_the_order_of_a_line_changes_nothing() -> None:
    forward, backward = skewed(), skewed()
    backward.brokers = {b: dict(reversed(list(h.items()))) for b, h in reversed(list(backward.brokers.items()))}
    ours, theirs = session(), session()
    for _ in range(3):
        first, second = answered(ours, forward), answered(theirs, backward)
        assert first == second
        forward.carry_out(first)
        backward.carry_out(second)


def test_totals_are_the_sums_of_what_each_broker_holds() -> None:
    lines = Lines().broker("z", {"a": 1.0, "b": 2.0}).broker("none").broker("k", {"c": 4.0})
    snapshot = seen(session(), lines)
    assert snapshot.brokers == ("k", "none", "z")
    assert snapshot.totals[:, 0].tolist() == [200, 0, 150]
    assert snapshot.frame.totals.sum() == snapshot.frame.row_fields.sum()
    assert np.allclose(snapshot.utilisation[:, 0], [0.04, 0, 0.03])


def test_memory_in_mebibytes_keeps_its_digits() -> None:
    doc = skewed().document()
    for figures in doc["brokers"].values():
        figures["memory"] = [0.4, 1.5]
    snapshot = session().snapshot(parse_line(json.dumps(doc).encode()))
    assert np.allclose(snapshot.utilisation[:, 1], 0.4 / 1.5, atol=1e-5)


def test_an_unreadable_broker_is_frozen_alone() -> None:
    doc = skewed().document()
    doc["brokers"]["b3:8080"]["cpu"] = [-1, 100]
    of = session()
    decisions = of.decide(of.snapshot(parse_line(json.dumps(doc).encode())))
    assert {d.target for d in of_kind(decisions, DecisionKind.TRANSFER)} == {"b1:8080", "b2:8080"}
    assert [d.reason for d in decisions if d.source == "b3:8080"] == [Reason.NO_LOAD_DATA]


def test_a_broker_that_comes_back_is_another_process() -> None:
    of, lines = session(), skewed()
    first = seen(of, lines)
    held = lines.brokers.pop("b2:8080")
    decided(of, lines)
    lines.broker("b2:8080", held)
    back = seen(of, lines)
    assert first.incarnation.tolist() == [1, 1, 1, 1]
    assert back.incarnation.tolist() == [1, 1, 2, 1]


@pytest.mark.parametrize(("told", "back", "expected"), [(True, 0, 2), (True, 2, 2), (True, 3, 1), (False, 0, 1)])
def test_a_broker_that_is_nearly_empty_after_members_changed_has_restarted(
    told: bool, back: int, expected: int
) -> None:
    of, lines = session(), skewed()
    decided(of, lines)
    for name in list(lines.brokers["b2:8080"])[back:]:
        lines.brokers["b3:8080"][name] = lines.brokers["b2:8080"].pop(name)
    lines.members_changed = told
    assert seen(of, lines).incarnation.tolist() == [1, 1, expected, 1]


def test_a_broker_that_was_emptied_by_decided_moves_has_not_restarted() -> None:
    of, lines = session(), skewed()
    decided(of, lines)
    for name in list(lines.brokers["b2:8080"]):
        of._underway[name] = Underway("b2:8080", "b3:8080", lines.now_ms)
        lines.brokers["b3:8080"][name] = lines.brokers["b2:8080"].pop(name)
    lines.members_changed = True
    assert seen(of, lines).incarnation.tolist() == [1, 1, 1, 1]


def test_a_line_from_the_past_is_refused_and_changes_nothing() -> None:
    of, lines = session(PolicySettings()), skewed()
    decided(of, lines)
    past = skewed()
    past.now_ms = 999_999
    with pytest.raises(BadRecord, match="999999 is before 1000000"):
        of.snapshot(parse_line(past.next()))
    assert of_kind(decided(of, lines), DecisionKind.TRANSFER)


OVERSIZED = PolicySettings(split=SplitSettings(max_topics=9), shed=ShedSettings(enabled=False))


def test_a_name_with_a_range_is_split_in_its_middle_any_other_wherever_its_owner_likes() -> None:
    lines = Lines().broker("a", {"t/ns/0x00000000_0x80000000": 5.0, "some bundle": 5.0, "t/ns/x": 5.0}).broker("b")
    splits = of_kind(decided(session(OVERSIZED), lines), DecisionKind.SPLIT)
    assert {d.bundle: d.boundary for d in splits} == {
        "t/ns/0x00000000_0x80000000": 0x40000000, "some bundle": None, "t/ns/x": None,
    }  # fmt: skip


def test_names_without_a_namespace_have_no_namespace_s_limit() -> None:
    few = replace(OVERSIZED, split=replace(OVERSIZED.split, namespace_maximum_bundles=3))
    lines = Lines().broker("a", {**{f"n{i}": 1.0 for i in range(5)}, **{f"t/ns/{i}": 1.0 for i in range(5)}})
    decisions = decided(session(few), lines.broker("b"))
    assert {d.bundle for d in of_kind(decisions, DecisionKind.SPLIT)} == {f"n{i}" for i in range(5)}
    assert {d.reason for d in decisions if d.bundle and "/" in d.bundle} == {Reason.BUNDLE_LIMIT}


@pytest.mark.covers("shedding-switch")
def test_shedding_is_switched_off_by_configuration() -> None:
    lines = skewed()
    decisions = decided(session(replace(EAGER, shed=replace(EAGER.shed, enabled=False))), lines)
    assert not of_kind(decisions, DecisionKind.TRANSFER)
    assert Reason.SWITCHED_OFF in {d.reason for d in decisions}


@pytest.mark.covers("right-settings")
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_strategy_decides_lines_of_opaque_names(strategy: str) -> None:
    of, lines = session(PolicySettings(), strategy), skewed(brokers=5, parts=12)
    rng = random.Random(3)
    moved = 0
    for _ in range(40):
        for held in lines.brokers.values():
            for name in held:
                held[name] *= rng.uniform(0.97, 1.03)
        found = answered(of, lines)
        assert "error" not in found
        told = {d["bundle"] for d in found["decisions"]}
        assert len(told) == len(found["decisions"])  # nobody is named twice (I7)
        moved += lines.carry_out(found)
    assert moved > 0, strategy


def test_whoever_has_no_budget_exists() -> None:
    pulsars = {name for name, strategy in STRATEGIES.items() if traits_of(strategy).from_pulsar}
    assert pulsars
    assert not any(traits_of(STRATEGIES[name]).budgeted for name in pulsars)


def test_the_three_times_add_up_to_all_that_was_spent() -> None:
    ticks = iter([10.5, 11.0, 13.5])
    found = answer(session(), skewed().next(), 10.0, ticks.__next__)
    assert [found[name] for name in ("parse_ms", "snapshot_ms", "decide_ms")] == [500.0, 500.0, 2_500.0]
    assert next(ticks, None) is None


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_what_a_strategy_remembers_survives_the_journal(strategy: str) -> None:
    """The job's rounds get the memory back as JSON, also after a restart: they decide as if it had never been away."""
    lasting, restarted = skewed(brokers=4, parts=8), skewed(brokers=4, parts=8)
    ours, theirs = session(PolicySettings(), strategy), session(PolicySettings(), strategy)
    rng = random.Random(9)
    for _ in range(12):
        for held, same in zip(lasting.brokers.values(), restarted.brokers.values(), strict=True):
            for name in held:
                held[name] *= rng.uniform(0.9, 1.1)
                same[name] = held[name]
        theirs._memory = json.loads(json.dumps(theirs._memory, allow_nan=False))
        first, second = answered(ours, lasting), answered(theirs, restarted)
        assert first == second
        lasting.carry_out(first)
        restarted.carry_out(second)


def test_a_fault_of_its_own_costs_a_line_and_not_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    of, lines = session(), skewed()
    with monkeypatch.context() as broken:
        broken.setattr(DecideSession, "decide", lambda self, snapshot: 1 // 0)
        assert "ZeroDivisionError" in answered(of, lines)["error"]
    assert "decisions" in answered(of, lines)


@pytest.mark.parametrize("strategy", ["steady", "overload", "threshold"])
def test_a_demand_far_above_a_broker_s_limit_is_relieved(strategy: str) -> None:
    doc = skewed().document()
    for broker in doc["brokers"].values():
        for name in broker["bundles"]:
            broker["bundles"][name] = [100.0, 100.0, 5e6, 5e6, 10, 5, 5]
    hot = next(iter(doc["brokers"]))
    doc["brokers"][hot]["bundles"] |= {f"more-{at}": [100.0, 100.0, 5e6, 5e6, 10, 5, 5] for at in range(40)}
    for name, broker in doc["brokers"].items():  # 10 % of a core for each bundle
        broker["cpu"] = [10.0 * len(broker["bundles"]), 100 if name == hot else 800]
    assert doc["brokers"][hot]["cpu"][0] > 300
    of = session(strategy=strategy)
    decisions: list[Decision] = []
    for _ in range(6):
        doc["now"] += MINUTE_MS
        decisions += of.decide(of.snapshot(parse_line(json.dumps(doc).encode())))
    assert {d.source for d in of_kind(tuple(decisions), DecisionKind.TRANSFER)} >= {hot}


def test_a_utilisation_that_no_traffic_explains_is_a_misreading_for_steady() -> None:
    doc = skewed().document()
    odd = list(doc["brokers"])[-1]
    doc["brokers"][odd]["cpu"] = [1000, 100]
    of = session(strategy="steady")
    decisions: list[Decision] = []
    for _ in range(6):
        doc["now"] += MINUTE_MS
        decisions += of.decide(of.snapshot(parse_line(json.dumps(doc).encode())))
    touched = {name for d in of_kind(tuple(decisions), DecisionKind.TRANSFER) for name in (d.source, d.target)}
    assert touched
    assert odd not in touched


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_rates_of_any_size_neither_wrap_nor_warn(strategy: str) -> None:
    doc = skewed().document()
    for broker in doc["brokers"].values():
        for name in broker["bundles"]:
            broker["bundles"][name] = [2.0**53] * 7
    of = session(strategy=strategy)
    for _ in range(4):
        doc["now"] += MINUTE_MS
        snapshot = of.snapshot(parse_line(json.dumps(doc).encode()))
        assert (snapshot.totals >= 0).all()
        of.decide(snapshot)


def test_average_tells_what_comes_in_from_what_goes_out() -> None:
    """The plan's key is a bundle's load data: equal sums are not equal data."""
    busy = {"a": (90, [1000.0, 0.0, 1e6, 0.0]), "b": (80, [0.0, 1000.0, 0.0, 1e6])}
    brokers = {
        name: {"cpu": [cpu, 100], "bundles": {f"{name}-{at}": [*figures, 5, 1, 1] for at in range(10)}}
        for name, (cpu, figures) in busy.items()
    }
    brokers |= {"c": {"cpu": [10, 100], "bundles": {}}, "d": {"cpu": [20, 100], "bundles": {}}}
    of = session(strategy="average")
    decisions: list[Decision] = []
    for at in range(2):
        raw = json.dumps({"now": at * MINUTE_MS, "brokers": brokers}).encode()
        decisions = of_kind(of.decide(of.snapshot(parse_line(raw))), DecisionKind.TRANSFER)
    assert {(d.source, d.target) for d in decisions} == {("a", "c"), ("b", "d")}


DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize("wrong_ms", [1_000_000 + 365 * DAY_MS, 2**53])
def test_one_line_with_a_time_far_ahead_is_refused_and_costs_no_other_line(wrong_ms: int) -> None:
    session, lines = DecideSession("steady", PolicySettings()), skewed()
    honest = [parse_line(lines.next()) for _ in range(4)]
    for line in honest[:2]:
        session.snapshot(line)
    with pytest.raises(BadRecord, match=f"now = {wrong_ms} is more than a day after {honest[1].now_ms} of the line"):
        session.snapshot(replace(honest[2], now_ms=wrong_ms))
    for line in honest[2:]:
        session.snapshot(line)


def test_a_first_line_with_a_wrong_time_costs_one_line() -> None:
    session, lines = DecideSession("steady", PolicySettings()), skewed()
    honest = [parse_line(lines.next()) for _ in range(3)]
    session.snapshot(replace(honest[0], now_ms=2**53))
    with pytest.raises(BadRecord, match="a second line at the new time begins anew without what was learned"):
        session.snapshot(honest[0])
    fresh = DecideSession("steady", PolicySettings())
    for line in honest[1:]:
        assert session.decide(session.snapshot(line)) == fresh.decide(fresh.snapshot(line))


def test_a_stream_that_pauses_for_weeks_goes_on_with_its_second_line() -> None:
    session, lines = DecideSession("steady", PolicySettings()), skewed()
    session.snapshot(parse_line(lines.next()))
    lines.now_ms += 30 * DAY_MS
    with pytest.raises(BadRecord, match="a second line at the new time goes on there"):
        session.snapshot(parse_line(lines.next()))
    session.snapshot(parse_line(lines.next()))
    lines.now_ms += DAY_MS - 60_000
    session.snapshot(parse_line(lines.next()))


def test_lines_that_are_merely_out_of_order_begin_nothing_anew() -> None:
    session, lines = DecideSession("steady", PolicySettings()), skewed()
    first, second, third, fourth = (parse_line(lines.next()) for _ in range(4))
    for line in (first, third):
        session.snapshot(line)
    with pytest.raises(BadRecord, match="give lines in order"):
        session.snapshot(second)
    session.snapshot(fourth)
    with pytest.raises(BadRecord, match="give lines in order"):
        session.snapshot(third)
