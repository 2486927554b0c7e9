"""Orders to brokers that decide ownership themselves: when they are given, how they end, what follows."""

from __future__ import annotations

import pytest

from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.entries import Kind
from controller.domain.events import UNLISTED, BrokerEvent, Heartbeat
from controller.domain.ids import Bundle, Session
from controller.domain.observed import Order, OrderKind
from controller.domain.state import METADATA
from controller.domain.state_codec import decode, encode
from controller.ledger.evidence import NAMING
from tests.unit.control.observed_driver import BUNDLES, CONFIGURATION, RING, ObservedDriver, observed_driver
from tests.unit.control.step_driver import StepDriver, with_settings

FIRST, SECOND, THIRD, FOURTH = BUNDLES
FIRST_RANGE = "0x00000000_0x40000000"


def test_an_order_moves_an_observed_bundle() -> None:
    driver = observed_driver()
    entries = driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert [entry.kind for entry in entries] == [Kind.COMMAND_ACCEPTED, Kind.ORDER]
    order = driver.state.observed.orders[str(FIRST)]
    assert (order.kind, order.source, order.target, order.executor) == (OrderKind.MOVE, "a:1", "b:1", "agent")
    assert driver.owner(FIRST) == "a:1", "the bundle is where Pulsar says, whatever was ordered"
    assert driver.state.holdings.total("b:1") == 2, "it counts for its target already"
    driver.end_order(FIRST, "moved", owner="b:1")
    assert driver.owner(FIRST) == "b:1"
    assert not driver.state.observed.orders
    assert driver.observe("b:1", FIRST, SECOND) == [], "the broker lists what the journal has"


@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [
        ("shedding", True, "loadBalancerSheddingEnabled is true"),
        ("auto_split", True, "loadBalancerAutoBundleSplitEnabled is true"),
        ("manager", "SimpleLoadManagerImpl", "loadManagerClassName is SimpleLoadManagerImpl"),
        ("manager", "extensible", "different load managers"),
        ("version", "2.11.4", "Pulsar 2.11.4"),
        ("syncer", "MetadataStoreToSystemTopicSyncer", "Syncer"),
    ],
)
def test_no_order_while_another_balancer_may_act(setting: str, value: object, named: str) -> None:
    driver = observed_driver()
    driver.configure("b:1", **{setting: value})
    driver.command("unload_bundle", bundle=str(FIRST), to="c:1")
    assert named in driver.rejection()
    driver.configure("b:1")
    driver.command("unload_bundle", bundle=str(FIRST), to="c:1")
    assert str(FIRST) in driver.state.observed.orders


def test_a_broker_that_has_told_nothing_may_have_another_balancer() -> None:
    driver = observed_driver()
    driver.join("d:1", nonce="agent", authority=METADATA)
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert "d:1 has not reported its configuration" in driver.rejection()


def test_load_balancing_that_is_off_altogether_is_no_other_balancer() -> None:
    driver = observed_driver(shedding=True, auto_split=True, load_balancer=False)
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert str(FIRST) in driver.state.observed.orders


def test_shadow_mode_and_the_breaker_send_nothing() -> None:
    driver = observed_driver()
    driver.command("mode", mode="shadow")
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert "mode is shadow" in driver.rejection()
    driver.command("mode", mode="live")
    for broker in ("b:1", "c:1"):
        driver.tell("a:1", "fact", key=f"suspect:{broker}", value={"why": "no answer"})
    assert driver.state.frozen
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert "many brokers are silent" in driver.rejection()
    driver.tell("a:1", "fact", key="denied", value={"why": "HTTP 401"})
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert "the cluster lets Ballast send no orders: HTTP 401" in driver.rejection(), "what to mend comes first"


def test_brokers_that_pulsar_lists_no_more_count_for_the_breaker() -> None:
    driver = observed_driver()
    for broker in ("b:1", "c:1"):
        driver.run(BrokerEvent("goodbye", driver.sessions.pop(broker), 0, reason="unlisted"))
    driver.run()
    assert driver.state.frozen


def test_an_agent_that_leaves_is_no_mass_failure() -> None:
    driver = observed_driver()
    for session in list(driver.sessions.values()):
        driver.sessions.clear()
        driver.run(BrokerEvent("goodbye", session, 0))
    driver.run()
    assert not driver.state.sessions
    assert not driver.state.frozen


def test_an_agent_that_falls_silent_is_no_mass_failure() -> None:
    driver = observed_driver()
    driver.silent |= {"a:1", "b:1", "c:1"}
    driver.wait(8_000)
    assert not driver.state.sessions
    assert not driver.state.frozen


def test_missing_rights_and_suspects_stop_orders() -> None:
    driver = observed_driver()
    driver.tell("a:1", "fact", key="denied", value={"why": "403 on unload"})
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert "403 on unload" in driver.rejection()
    driver.tell("a:1", "fact", key="denied", value=None)
    driver.tell("a:1", "fact", key="suspect:b:1", value={"why": "no answer"})
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert "b:1 does not answer" in driver.rejection()
    driver.command("unload_bundle", bundle=str(SECOND), to="a:1")
    assert "b:1 does not answer" in driver.rejection()
    driver.command("unload_bundle", bundle=str(FIRST), to="c:1")
    assert str(FIRST) in driver.state.observed.orders


def test_orders_are_limited_for_the_cluster_and_for_a_broker() -> None:
    driver = observed_driver(with_settings(orders_in_flight=2))
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.command("unload_bundle", bundle=str(FOURTH), to="c:1")
    driver.command("unload_bundle", bundle=str(SECOND), to="c:1")
    assert "2 orders are open, at most 2" in driver.rejection()
    driver.end_order(FOURTH, "moved", owner="c:1")
    driver.command("unload_bundle", bundle=str(SECOND), to="c:1")
    assert len(driver.state.observed.orders) == 2


def test_a_bundle_has_one_order_at_a_time() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    first = driver.order_id(FIRST)
    driver.command("unload_bundle", bundle=str(FIRST), to="c:1")
    assert f"order {first} about {FIRST} is open" in driver.rejection()


def test_an_unanswered_order_expires_and_its_bundle_is_blocked_until_it_was_observed_again() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    before = driver.state.seq
    driver.wait(91_000, step_ms=1_000)
    ended = next(e for e in reversed(driver.journal) if e.kind is Kind.ORDER_ENDED)
    assert ended.data["outcome"] == "expired"
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    in_doubt = f"the last order about {FIRST} ended in doubt"
    assert in_doubt in driver.rejection()
    driver.tell("a:1", "observed", confirmed=[str(FIRST)], requested_seq=before)
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert in_doubt in driver.rejection(), "that list had been requested before the order ended"
    driver.tell("a:1", "observed", confirmed=[str(FIRST)], requested_seq=driver.state.seq)
    driver.command("unload_bundle", bundle=str(FIRST), to="c:1")
    assert driver.state.observed.orders[str(FIRST)].target == "c:1"


def test_a_late_answer_changes_nothing() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    order_id = driver.order_id(FIRST)
    driver.wait(91_000, step_ms=1_000)
    driver.tell("a:1", "order_ended", FIRST, id=order_id, outcome="moved", owner="b:1")
    assert driver.watch.refused["late_order_answer"] == 1
    assert driver.owner(FIRST) == "a:1"


def test_the_answer_of_another_agent_changes_nothing() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    data = {"id": driver.order_id(FIRST), "outcome": "moved"}
    registered = driver.join("d:1", nonce="rival", authority=METADATA)
    for rival in (registered, Session("a:1", 1, "rival", 1)):
        driver.run(BrokerEvent("order_ended", rival, 0, FIRST, data=data))
        assert str(FIRST) in driver.state.observed.orders
    assert driver.watch.refused == {"late_order_answer": 1, "event_of_ended_session": 1}


def test_an_agent_that_dies_takes_its_orders_with_it() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.silent |= {"a:1", "b:1", "c:1"}
    driver.wait(8_000)
    ended = next(e for e in reversed(driver.journal) if e.kind is Kind.ORDER_ENDED)
    assert ended.data["outcome"] == "executor_gone"
    assert driver.state.observed.bundles[str(FIRST)].stale
    assert driver.owner(FIRST) == "a:1", "what was seen stays as it was"


def test_one_session_that_ends_leaves_the_orders_of_its_agent_open() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.tell("b:1", "goodbye")
    del driver.sessions["b:1"]
    assert str(FIRST) in driver.state.observed.orders


def test_orders_that_bring_nothing_back_off_for_twice_as_long_each_time() -> None:
    driver = observed_driver()
    pauses = []
    for outcome in ("stayed", "refused", "stayed"):
        driver.command("unload_bundle", bundle=str(FIRST))
        entry = driver.end_order(FIRST, outcome, owner="a:1", ended_at_ms=1_000_000)[-1]
        pauses.append(entry.data["not_before_ms"] - 1_000_000)
    assert pauses == [120_000, 240_000, 480_000]
    driver.command("unload_bundle", bundle=str(FIRST))
    driver.end_order(FIRST, "moved", owner="b:1")
    assert str(FIRST) not in driver.state.observed.blocks


def with_an_equal_range() -> tuple[ObservedDriver, Bundle]:
    """A cluster in which another namespace has a bundle of the first one's range."""
    driver, other = observed_driver(), Bundle("t/other", FIRST.lower, FIRST.upper)
    driver.tell("a:1", "ring", namespace="t/other", boundaries=list(RING))
    driver.tell("b:1", "observed", added=[str(other)])
    return driver, other


def test_under_the_modular_manager_a_range_has_one_order_at_a_time() -> None:
    driver, other = with_an_equal_range()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.command("unload_bundle", bundle=str(other), to="c:1")
    assert f"an order about range {FIRST_RANGE} of another namespace is open" in driver.rejection()
    driver.end_order(FIRST, "stayed", owner="a:1")
    driver.command("unload_bundle", bundle=str(other), to="c:1")
    assert "may still keep a destination" in driver.rejection()
    driver.tell("a:1", "fact", key="leader", value={"broker": "c:1"})
    driver.command("unload_bundle", bundle=str(other), to="c:1")
    assert str(other) in driver.state.observed.orders


def test_a_plain_unload_does_not_use_up_the_destination_of_another_order() -> None:
    """The lookup that places its bundle would take it where isolation was checked for another namespace alone."""
    driver, other = with_an_equal_range()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.command("unload_bundle", bundle=str(other))
    assert f"an order about range {FIRST_RANGE} of another namespace is open" in driver.rejection()
    driver.end_order(FIRST, "failed")
    driver.tell("a:1", "observed", confirmed=[str(FIRST)], requested_seq=driver.state.seq)
    for bundle in (other, FIRST):
        driver.command("unload_bundle", bundle=str(bundle))
        assert "may still keep a destination" in driver.rejection()
    assert "name a target (--to)" in driver.rejection(), "a move of the bundle itself writes it anew"
    driver.tell("a:1", "fact", key="leader", value={"broker": "c:1"})
    driver.command("unload_bundle", bundle=str(other))
    assert driver.state.observed.orders[str(other)].kind is OrderKind.UNLOAD


def test_while_a_plain_unload_is_in_doubt_its_range_gets_no_other_order() -> None:
    """It may be carried out yet, and then use the other one's destination up."""
    driver, other = with_an_equal_range()
    driver.command("unload_bundle", bundle=str(FIRST))
    driver.command("unload_bundle", bundle=str(other), to="c:1")
    assert "of another namespace is open" in driver.rejection()
    driver.wait(91_000, step_ms=1_000)
    assert driver.state.observed.blocks[str(FIRST)].in_doubt_seq
    driver.command("unload_bundle", bundle=str(other), to="c:1")
    assert "or ended in doubt" in driver.rejection()
    driver.tell("a:1", "observed", confirmed=[str(FIRST)], requested_seq=driver.state.seq)
    driver.command("unload_bundle", bundle=str(other), to="c:1")
    assert str(other) in driver.state.observed.orders


def test_a_bundle_whose_order_failed_may_be_ordered_again_and_frees_its_range() -> None:
    """As of an agent that died between destination and unload: its bundle never moves by itself."""
    driver, other = with_an_equal_range()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.end_order(FIRST, "failed")
    driver.tell("a:1", "observed", confirmed=[str(FIRST)], requested_seq=driver.state.seq)
    driver.command("unload_bundle", bundle=str(other), to="c:1")
    assert "may still keep a destination" in driver.rejection()
    driver.command("unload_bundle", bundle=str(FIRST), to="c:1")
    assert str(FIRST) in driver.state.observed.orders
    driver.end_order(FIRST, "moved", owner="c:1")
    assert not driver.state.observed.range_blocks
    driver.command("unload_bundle", bundle=str(other), to="c:1")
    assert str(other) in driver.state.observed.orders


def test_a_range_stays_blocked_when_a_restarted_agent_lists_what_was_there() -> None:
    """Nothing was placed, so Pulsar may keep the destination still."""
    driver, other = with_an_equal_range()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.end_order(FIRST, "failed")
    lists = {broker: driver.state.holdings.observed_at(broker) for broker in ("a:1", "b:1", "c:1")}
    for broker in lists:
        driver.tell(broker, "goodbye")
        driver.sessions.pop(broker)
    for broker, names in lists.items():
        driver.join(broker, incarnation=2, nonce="n2", authority=METADATA, runtime="pulsar", can_fence=False)
        driver.tell(broker, "observed", added=sorted(names))
    assert not any(seen.stale for seen in driver.state.observed.bundles.values())
    driver.command("unload_bundle", bundle=str(other), to="b:1")
    assert "may still keep a destination" in driver.rejection()
    driver.tell("c:1", "observed", added=[str(FIRST)])
    assert not driver.state.observed.range_blocks, "now it was placed"


def test_a_request_that_was_never_sent_blocks_no_range() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.end_order(FIRST, "refused", sent=False)
    assert not driver.state.observed.range_blocks


def test_a_bundle_that_somebody_else_brought_to_the_target_leaves_the_range_blocked() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.end_order(FIRST, "moved", owner="b:1", sent=True, destination_kept=True)
    assert driver.state.observed.range_blocks == {FIRST_RANGE: str(FIRST)}
    driver.command("unload_bundle", bundle=str(FIRST), to="c:1")
    driver.end_order(FIRST, "moved", owner="c:1", sent=True)
    assert not driver.state.observed.range_blocks


def test_the_extensible_manager_knows_destinations_by_namespace() -> None:
    driver = observed_driver(manager="extensible")
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.end_order(FIRST, "stayed", owner="a:1")
    assert not driver.state.observed.range_blocks


def test_a_split_needs_a_boundary_inside_and_room_in_the_namespace() -> None:
    driver = observed_driver()
    driver.command("split_bundle", bundle=str(FIRST), boundary=FIRST.upper)
    assert "not strictly inside" in driver.rejection()
    driver.command("split_bundle", bundle=str(FIRST), boundary=5)
    assert driver.state.in_namespace("t/n") == 5, "an open split counts as done"
    driver.tell("a:1", "ring", namespace="t/n", boundaries=sorted({*RING, 5}))
    driver.end_order(FIRST, "split", owner="a:1")
    assert driver.state.in_namespace("t/n") == 5
    assert str(FIRST) not in driver.state.observed.bundles


def test_a_namespace_is_unloaded_a_few_bundles_at_a_time() -> None:
    driver = observed_driver(with_settings(orders_in_flight=1))
    driver.command("unload_namespace", namespace="t/n", to="b:1")
    moved = []
    for _ in range(3):
        (name,) = driver.state.observed.orders
        bundle = next(b for b in BUNDLES if str(b) == name)
        driver.end_order(bundle, "moved", owner="b:1")
        moved.append(bundle)
        driver.run()
    assert sorted(moved) == sorted([FIRST, THIRD, FOURTH])
    assert not driver.state.observed.orders


def test_of_an_unloaded_namespace_what_the_target_owns_stays_and_the_answer_says_so() -> None:
    driver = observed_driver()
    answer = driver.command("unload_namespace", namespace="t/n", to="a:1")[0]
    assert answer.kind is Kind.COMMAND_ACCEPTED
    assert answer.reason == "a:1 owns 2 of the 4 owned bundles of t/n already: what is there stays"
    assert set(driver.state.observed.orders) == {str(SECOND), str(THIRD)}
    for bundle in (SECOND, THIRD):
        driver.end_order(bundle, "moved", owner="a:1")
    driver.command("unload_namespace", namespace="t/n", to="a:1")
    assert driver.rejection() == "every owned bundle of t/n is at a:1 already"
    assert driver.command("unload_namespace", namespace="t/n", to="b:1")[0].reason is None


def test_who_changes_their_mind_gets_back_what_is_on_its_way() -> None:
    """Bundles of the target that are moving or wait to be moved elsewhere are not there to stay."""
    driver = observed_driver(with_settings(orders_in_flight=1))
    driver.command("unload_namespace", namespace="t/n", to="b:1")
    (moving,) = driver.state.observed.orders
    answer = driver.command("unload_namespace", namespace="t/n", to="a:1")[0]
    at_a = [b for b in BUNDLES if driver.state.observed.bundles[str(b)].broker == "a:1"]
    staying = [b for b in at_a if str(b) != moving]
    assert answer.reason == f"a:1 owns {len(staying)} of the 4 owned bundles of t/n already: what is there stays"
    for _ in range(8):
        for name in list(driver.state.observed.orders):
            bundle = next(b for b in BUNDLES if str(b) == name)
            driver.end_order(bundle, "moved", owner=driver.state.observed.orders[name].target)
        driver.run()
    assert {driver.state.observed.bundles[str(b)].broker for b in BUNDLES} == {"a:1"}
    assert not driver.state.observed.orders


def test_equal_ranges_of_two_unloaded_namespaces_take_turns() -> None:
    driver, other = with_an_equal_range()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.command("unload_namespace", namespace="t/other", to="c:1")
    assert str(other) not in driver.state.observed.orders
    driver.end_order(FIRST, "moved", owner="b:1")
    driver.run()
    assert driver.state.observed.orders[str(other)].target == "c:1"


def test_equal_ranges_of_two_namespaces_that_pulsar_is_to_place_take_turns_and_all_are_unloaded() -> None:
    driver, other = with_an_equal_range()
    driver.command("unload_namespace", namespace="t/n")
    driver.command("unload_namespace", namespace="t/other")
    unloaded = []
    for _ in range(8):
        orders = driver.state.observed.orders
        assert len({order.range_text for order in orders.values()}) == len(orders)
        for order in list(orders.values()):
            owner = "c:1" if order.source != "c:1" else "a:1"
            driver.end_order(order.bundle, "moved", owner=owner)
            unloaded.append(order.bundle)
        driver.run()
    assert sorted(unloaded) == sorted([*BUNDLES, other])
    assert not driver.watch.queued_orders
    assert not [entry for entry in driver.journal if entry.kind is Kind.ALARM]


def test_namespaces_and_topics_are_pulsars() -> None:
    driver = observed_driver()
    driver.command("create_namespace", namespace="t/new", bundles=4)
    assert "pulsar-admin namespaces create" in driver.rejection()


def test_a_cluster_has_one_authority() -> None:
    driver = observed_driver()
    driver.run(Heartbeat(Session("r:1", 1, "n", 1), 0, {"runtime": "reference"}))
    assert "r:1" not in driver.state.brokers
    alarms = [e for e in driver.journal if e.kind is Kind.ALARM]
    assert [(e.reason, e.broker, e.data) for e in alarms] == [
        ("other_authority", "r:1", {"cluster": "metadata", "broker": "journal"})
    ]
    owned = StepDriver()
    owned.join("a:1")
    owned.run(Heartbeat(Session("p:1", 1, "n", 1), 0, {"authority": METADATA}))
    assert "p:1" not in owned.state.brokers


@pytest.mark.parametrize(
    "data",
    [
        {"namespace": "t/n", "boundaries": [0, 5]},
        {"namespace": "t/n", "boundaries": [5, 0xFFFFFFFF]},
        {"namespace": "t/n", "boundaries": [0, 7, 7, 0xFFFFFFFF]},
        {"namespace": "t/n", "boundaries": [0, True, 0xFFFFFFFF]},
        {"namespace": "t/n", "boundaries": "0"},
        {"namespace": "t", "boundaries": [0, 0xFFFFFFFF]},
        {},
    ],
)
def test_a_ring_that_is_none_is_refused(data: dict[str, object]) -> None:
    driver = observed_driver()
    before = driver.state
    driver.tell("a:1", "ring", **data)
    assert driver.watch.refused["ring_invalid"] == 1
    assert driver.state.observed == before.observed


def test_bundles_outside_the_ring_and_names_that_do_not_parse_are_left_out() -> None:
    driver = observed_driver()
    outside = "t/n/0x00000000_0x12345678"
    driver.tell("c:1", "observed", added=[outside, "pulsar/a:1/0x00000000_0xffffffff", "nonsense", 7])
    assert outside not in driver.state.observed.bundles
    assert set(driver.state.observed.bundles) == {str(bundle) for bundle in BUNDLES}
    assert driver.watch.refused == {"observed_outside_ring": 2, "observed_no_bundle": 1}


def test_the_newest_claim_counts_and_a_late_farewell_does_not() -> None:
    driver = observed_driver()
    driver.tell("b:1", "observed", added=[str(FIRST)])
    driver.tell("a:1", "observed", removed=[str(FIRST)])
    assert driver.owner(FIRST) == "b:1"
    assert driver.state.observed.bundles[str(FIRST)].moved_at_ms == driver.state.round_at_ms


def test_a_disputed_bundle_gets_no_order() -> None:
    driver = observed_driver()
    driver.tell("a:1", "observed", disputed=[str(FIRST)])
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert "is claimed by several brokers" in driver.rejection()
    driver.tell("a:1", "observed", agreed=[str(FIRST)])
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert str(FIRST) in driver.state.observed.orders


def test_a_brokers_configuration_is_journaled_when_it_changes() -> None:
    driver = observed_driver()
    before = driver.state.seq
    driver.configure("a:1")
    assert driver.state.seq == before
    driver.configure("a:1", shedding=True)
    assert driver.state.observed.facts["broker:a:1"] == {**CONFIGURATION, "shedding": True}


def test_orders_are_limited_as_configured() -> None:
    driver = observed_driver(with_settings(orders_per_broker=1, order_back_off_ms=7_000))
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.command("unload_bundle", bundle=str(FOURTH), to="c:1")
    assert "a:1 takes part in 1 open orders, at most 1" in driver.rejection()
    driver.end_order(FIRST, "stayed", owner="a:1", ended_at_ms=1_000)
    assert driver.state.observed.blocks[str(FIRST)].not_before_ms == 8_000


def test_every_kind_of_entry_that_names_an_attempt_is_looked_for_when_evidence_is_read() -> None:
    driver = observed_driver()
    driver.command("drain", broker="a:1")
    driver.wait(2_000)
    named = {entry.kind.value for entry in driver.journal if entry.attempt_id is not None}
    assert "order" in named, "the step's own decision to empty the broker"
    assert named <= set(NAMING)


def order_split_of_round(driver: ObservedDriver) -> Order:
    """A round wants the first bundle to be split; the order that it becomes."""
    seen = driver.state.observed.bundles[str(FIRST)]
    what = str(FIRST), seen.broker, None, seen.seq, FIRST.middle()
    decision = Decision("r1-0000", DecisionKind.SPLIT, Label.SUCCESS, Reason.SPLIT_TO_BALANCE, *what)
    driver.round(RoundResult("r1", 1_000, driver.state.seq, "any", (decision,), (), {}, "hash"))
    return driver.state.observed.orders[str(FIRST)]


def test_a_round_proposes_a_boundary_and_an_operator_names_one() -> None:
    driver = observed_driver()
    order = order_split_of_round(driver)
    assert (order.kind, order.boundary, order.boundary_is_proposed) == (OrderKind.SPLIT, FIRST.middle(), True)
    assert decode(encode(driver.state)).observed.orders[str(FIRST)].boundary_is_proposed
    for boundary in (5, None):  # without one, the middle is what the operator asked for
        driver = observed_driver()
        named = {} if boundary is None else {"boundary": boundary}
        driver.command("split_bundle", bundle=str(FIRST), **named)
        order = driver.state.observed.orders[str(FIRST)]
        assert (order.boundary, order.boundary_is_proposed) == (boundary or FIRST.middle(), False)


@pytest.mark.parametrize(
    ("told", "kept"),
    [(77, 77), (None, None), (FIRST.lower, None), (FIRST.upper, None), (True, None), ("77", None), (77.0, None)],
)
def test_the_end_of_a_split_has_the_boundary_that_the_agent_used(told: object, kept: int | None) -> None:
    """Agents of older versions tell none, and what is no boundary of the bundle is not kept."""
    driver = observed_driver()
    order_split_of_round(driver)
    account = {} if told is None else {"boundary": told}
    (ended,) = driver.end_order(FIRST, "split", owner="a:1", **account)
    assert (ended.kind, ended.data.get("boundary")) == (Kind.ORDER_ENDED, kept)
    assert ("boundary" in ended.data) is (kept is not None)


def test_a_target_that_never_existed_is_not_called_gone() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(FIRST), to="broker9:8080")
    assert driver.rejection().endswith("there is no broker broker9:8080; live: a:1, b:1, c:1")
    for broker in ("d:1", "e:1", "f:1", "g:1"):
        driver.join(broker, nonce="agent", authority=METADATA, runtime="pulsar", can_fence=False)
        driver.configure(broker)
    driver.say(driver.sessions["b:1"], "goodbye", reason=UNLISTED)
    driver.silent.add("b:1")
    driver.command("unload_namespace", namespace="t/n", to="broker9:8080")
    assert driver.rejection().endswith("live: a:1, c:1, d:1, e:1, f:1 and 1 more")
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert driver.rejection().endswith("b:1 is gone"), "its session has ended"


def test_a_move_has_no_boundary() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    (ended,) = driver.end_order(FIRST, "moved", owner="b:1", boundary=77)
    assert "boundary" not in ended.data
