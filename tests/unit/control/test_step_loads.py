"""The step places by the newest loads and says why: decisions, their evidence, the attempt that names them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from controller.control.kept_loads import LOADS_COUNT_ROUNDS
from controller.domain.decision import Decision, DecisionKind, Reason, RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle
from controller.domain.overrides import PIN
from controller.domain.ownership import State
from controller.domain.round_loads import RoundLoads
from tests.unit.control.step_driver import StepDriver, with_settings


def told(driver: StepDriver, brokers: dict[str, float], each: float, *, at_seq: int | None = None) -> RoundResult:
    """A finished round that knows these scores, and that each bundle that is owned costs so much."""
    owned = sorted(name for name, record in driver.state.bundles.items() if record.by is not None)
    seq = driver.state.seq if at_seq is None else at_seq
    loads = RoundLoads(
        round_id=f"r{driver.batches}",
        state_seq=seq,
        full=0.85,
        scored=1,
        brokers=tuple(brokers),
        used=np.array(list(brokers.values()), float).tobytes(),
        limit=np.ones(len(brokers)).tobytes(),
        bundles="\n".join(owned).encode(),
        costs=np.full(len(owned), each, np.float32).tobytes(),
    )
    at_ms = 60_000 * (1 + driver.state.rounds)
    return RoundResult(f"r{driver.batches}", at_ms, seq, "test", (), (), {}, "hash", loads=loads)


def four(bundles: int = 8) -> tuple[StepDriver, list[Bundle]]:
    """a:1 owns them all; b:1, c:1 and d:1 nothing."""
    driver = StepDriver()
    for broker in ("a:1", "b:1", "c:1", "d:1"):
        driver.join(broker)
    driver.command("create_namespace", namespace="t/n", bundles=bundles)
    names = list(driver.state.namespaces["t/n"])
    for bundle in names:
        driver.own(driver.sessions["a:1"], bundle)
    return driver, names


def end(driver: StepDriver, broker: str) -> list[Entry]:
    """The broker says goodbye."""
    return driver.say(driver.sessions.pop(broker), "goodbye")


def granted(entries: list[Entry]) -> Counter[str]:
    return Counter(str(e.to).partition("#")[0] for e in grants(entries))


def grants(entries: list[Entry]) -> list[Entry]:
    return [e for e in entries if e.kind is Kind.OWNERSHIP and e.to is not None and e.decision_id]


def test_a_dead_brokers_bundles_go_where_there_is_room() -> None:
    """As it was found: b:1 is the hottest and would get its share of the eight by count."""
    driver, _ = four()
    driver.round(told(driver, {"a:1": 0.32, "b:1": 0.57, "c:1": 0.17, "d:1": 0.08}, each=0.04))
    assert granted(end(driver, "a:1")) == {"d:1": 5, "c:1": 3}


def test_without_loads_they_go_by_count() -> None:
    driver, _ = four()
    entries = end(driver, "a:1")
    assert granted(entries) == {"b:1": 3, "c:1": 3, "d:1": 2}
    evidence = driver.decided.decisions[0].evidence
    assert (evidence["placed_by"], evidence["loads"]) == ("count", "unknown")
    assert evidence["candidates"] == [
        {"target": "b:1", "lost_by": "", "of_namespace": 0, "bundles": 0},
        {"target": "c:1", "lost_by": "", "of_namespace": 0, "bundles": 0},
        {"target": "d:1", "lost_by": "", "of_namespace": 0, "bundles": 0},
    ]


@pytest.mark.parametrize("rounds_later", [LOADS_COUNT_ROUNDS, LOADS_COUNT_ROUNDS + 1])
def test_loads_are_forgotten_after_five_rounds_without_news(rounds_later: int) -> None:
    driver, _ = four()
    driver.round(told(driver, {"a:1": 0.32, "b:1": 0.57, "c:1": 0.17, "d:1": 0.08}, each=0.04))
    driver.wait(rounds_later * driver.settings.round_interval_ms, 5_000)
    assert (granted(end(driver, "a:1"))["b:1"] == 0) == (rounds_later <= LOADS_COUNT_ROUNDS)


def test_a_new_controller_goes_by_count_until_its_first_round() -> None:
    driver, _ = four()
    driver.round(told(driver, {"a:1": 0.32, "b:1": 0.57, "c:1": 0.17, "d:1": 0.08}, each=0.04))
    driver.restart()
    assert granted(end(driver, "a:1"))["b:1"] == 3


def test_what_moved_while_the_round_was_computed_counts() -> None:
    """The round read ownership before d:1 got two bundles of 20 %: it is not the emptiest any more."""
    driver, names = four(4)
    before = driver.state.seq
    for bundle in names[:2]:
        driver.own(driver.sessions["d:1"], bundle)
    driver.round(told(driver, {"a:1": 0.8, "b:1": 0.5, "c:1": 0.25, "d:1": 0.0}, each=0.2, at_seq=before))
    assert granted(end(driver, "a:1")) == {"c:1": 1, "d:1": 1}
    assert driver.watch.loads.model(driver.now_ms, 60_000).standing("d:1").score == pytest.approx(0.6)  # type: ignore[union-attr]


def test_a_broker_that_came_back_is_empty() -> None:
    driver, _ = four(4)
    driver.round(told(driver, {"a:1": 0.2, "b:1": 0.7, "c:1": 0.5, "d:1": 0.5}, each=0.05))
    end(driver, "b:1")
    driver.join("b:1", incarnation=2, nonce="n2")
    assert granted(end(driver, "a:1")) == {"b:1": 4}


def test_evacuated_bundles_go_by_load() -> None:
    driver, _ = four()
    driver.round(told(driver, {"a:1": 0.32, "b:1": 0.57, "c:1": 0.17, "d:1": 0.08}, each=0.04))
    entries = driver.command("drain", broker="a:1")
    assert granted(entries) == {"d:1": 5, "c:1": 3}
    decision = driver.decided.decisions[0]
    assert (decision.kind, decision.reason, decision.source) == (DecisionKind.TRANSFER, Reason.DRAINED, "a:1")
    assert decision.before == pytest.approx({"a:1": 0.32, "d:1": 0.08})
    assert decision.after == pytest.approx({"a:1": 0.28, "d:1": 0.12})


def test_first_lookups_leave_an_overloaded_broker_alone() -> None:
    driver, _ = four(4)
    driver.round(told(driver, {"a:1": 0.9, "b:1": 0.2, "c:1": 0.2, "d:1": 0.88}, each=0.01))
    driver.command("create_namespace", namespace="t/new", bundles=6)
    found: Counter[str] = Counter()
    for bundle in driver.state.namespaces["t/new"]:
        found += granted(driver.lookup(bundle))
    assert found == {"b:1": 3, "c:1": 3}


def test_every_grant_names_its_decision_and_the_batchs_one_attempt() -> None:
    driver, _ = four()
    driver.round(told(driver, {"a:1": 0.32, "b:1": 0.57, "c:1": 0.17, "d:1": 0.08}, each=0.04))
    begun = grants(end(driver, "a:1"))
    found = driver.decided
    assert found.round_id == f"step-i-{driver.batches}"
    assert [e.decision_id for e in begun] == [d.id for d in found.decisions]
    assert {e.attempt_id for e in begun} == {found.attempt_id}
    assert set(found.outcomes.values()) == {"executed"}
    first = found.decisions[0]
    assert (first.kind, first.reason, first.target, first.source) == ("assign", Reason.ORPHANED, "d:1", None)
    assert (first.before, first.after) == ({"d:1": pytest.approx(0.08)}, {"d:1": pytest.approx(0.12)})
    assert first.evidence["candidates"] == [
        {"target": "d:1", "lost_by": "", "target_after": 1200},
        {"target": "c:1", "lost_by": "119_more_loaded", "target_after": 2100},
        {"target": "b:1", "lost_by": "119_more_loaded", "target_after": 6100},
    ]
    served = driver.say(driver.sessions["d:1"], "serving", Bundle.parse(str(first.bundle)))
    assert [e.decision_id for e in served if e.kind is Kind.OWNERSHIP] == [first.id]


def test_at_most_five_brokers_are_told_of() -> None:
    driver, _ = four(2)
    for number in range(9):
        driver.join(f"e{number}:1")
    end(driver, "a:1")
    assert {len(d.evidence["candidates"]) for d in driver.decided.decisions} == {5}


def test_a_pinned_bundle_says_so() -> None:
    driver, names = four(2)
    driver.command("override", override=PIN, bundle=str(names[0]), broker="c:1")
    end(driver, "a:1")
    (pinned,) = [d for d in driver.decided.decisions if d.bundle == str(names[0])]
    assert (pinned.target, pinned.evidence["placed_by"]) == ("c:1", "pin")


def propose(driver: StepDriver, bundle: Bundle) -> list[Entry]:
    owner = driver.of(bundle).by
    assert owner is not None
    return driver.say(owner, "split_proposed", bundle, boundary=bundle.middle(), reason="112_split_msg_rate")


def test_a_split_that_an_agent_proposes_is_a_decision() -> None:
    driver, names = four(2)
    (begun,) = [e for e in propose(driver, names[0]) if e.kind is Kind.OWNERSHIP]
    (decision,) = driver.decided.decisions
    assert (begun.decision_id, begun.attempt_id) == (decision.id, driver.decided.attempt_id)
    assert (decision.kind, decision.reason, decision.boundary) == ("split", Reason.SPLIT_MSG_RATE, names[0].middle())
    assert decision.evidence["proposed_by"] == "a:1"
    assert decision.evidence["limit"] == driver.settings.split.max_msg_rate_per_s
    done = driver.say(driver.sessions["a:1"], "split_done", names[0], data={"lower_load": 1.0, "upper_load": 2.0})
    (split,) = [e for e in done if e.kind is Kind.SPLIT]
    assert split.decision_id == decision.id
    (sent_on,) = driver.decided.decisions
    assert (sent_on.reason, sent_on.kind) == (Reason.SPLIT_SEND_ON, DecisionKind.TRANSFER)
    assert driver.of(str(sent_on.bundle)).cause == sent_on.id


@pytest.mark.parametrize(
    ("mode", "limit", "outcome"),
    [("shadow", 128, "301_shadow_mode"), ("live", 2, "303_namespace_bundle_limit")],
)
def test_a_proposal_that_is_refused_says_why(mode: str, limit: int, outcome: str) -> None:
    split = replace(with_settings().split, namespace_maximum_bundles=limit)
    driver = StepDriver(with_settings(split=split), mode=mode)
    driver.join("a:1")
    driver.command("create_namespace", namespace="t/n", bundles=2)
    bundle = driver.state.namespaces["t/n"][0]
    driver.own(driver.sessions["a:1"], bundle)
    propose(driver, bundle)
    (decision,) = driver.decided.decisions
    assert driver.decided.outcomes == {decision.id: outcome}
    assert (driver.journal[-1].kind, driver.journal[-1].attempt_id) == (Kind.OFFSETS, driver.decided.attempt_id)
    assert driver.of(bundle).state is State.OWNED


def test_a_batch_without_a_decision_of_its_own_has_no_evidence() -> None:
    driver, names = four(2)
    assert driver.run() == []
    assert driver.decided is None
    driver.command("unload_bundle", bundle=str(names[0]), to="b:1")
    assert driver.decided is None, "an operator decided"
    move = Decision("r1-1", DecisionKind.TRANSFER, "success", Reason.OVERLOADED, str(names[1]), "a:1", "b:1")  # type: ignore[arg-type]
    driver.round(RoundResult("r1", 60_000, driver.state.seq, "test", (move,), (), {}, "hash"))
    assert driver.decided is None, "a round decided"
