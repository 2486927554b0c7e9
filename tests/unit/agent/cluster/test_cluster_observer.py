"""What brokers list becomes what the journal lacks: newest claims, disputes, doubts that end, suspects, rings."""

from __future__ import annotations

from controller.agent.cluster.observer import Listing, Observer
from tests.unit.control.observed_driver import BUNDLES, ObservedDriver, observed_driver

FIRST, SECOND, THIRD, FOURTH = map(str, BUNDLES)
LISTS = {"a:1": {FIRST, FOURTH}, "b:1": {SECOND}, "c:1": {THIRD}}


class World:
    """An observer beside a journal that has all of LISTS."""

    def __init__(self) -> None:
        self.driver: ObservedDriver = observed_driver()
        self.observer = Observer()
        self.sent = 0
        for broker, names in LISTS.items():
            self.see(broker, *names)

    def see(self, broker: str, *names: str, answered: bool = True) -> dict[str, object]:
        """A poll of the broker; returns the event that follows, which the journal then has."""
        self.sent += 1
        listed = frozenset(names) if answered else None
        self.observer.note(Listing(broker, self.sent, self.driver.state.seq, listed))
        found = self.observer.find_changes(broker, self.driver.state)
        if found:
            self.driver.tell(broker, "observed", **found)
        return {kind: names for kind, names in found.items() if kind != "requested_seq"}


def test_nothing_is_said_twice() -> None:
    world = World()
    assert world.see("a:1", FIRST, FOURTH) == {}


def test_a_bundle_that_moved_belongs_to_its_newest_claimant() -> None:
    world = World()
    assert world.see("b:1", SECOND, FIRST) == {"added": [FIRST]}
    assert world.driver.owner(BUNDLES[0]) == "b:1"
    assert world.see("a:1", FOURTH) == {}, "it is b's already"
    assert world.see("b:1", SECOND) == {"removed": [FIRST]}
    assert world.driver.owner(BUNDLES[0]) is None


def test_a_list_that_was_requested_earlier_counts_for_nothing() -> None:
    world = World()
    world.see("a:1", FOURTH)
    world.observer.note(Listing("a:1", 1, 0, frozenset({FIRST, FOURTH})))
    assert world.observer.owner_of(FIRST) is None


def test_the_claim_that_was_asked_for_last_counts_and_of_equal_ones_always_the_same() -> None:
    """In whatever order the answers come."""
    brokers = [f"{letter}:1" for letter in "abcdef"]
    for answered in (brokers, brokers[::-1]):
        observer = Observer()
        for broker in answered:
            observer.note(Listing(broker, brokers.index(broker), 0, frozenset({FIRST})))
            observer.note(Listing(broker, 10, 0, frozenset({SECOND, FIRST} if broker == "c:1" else {SECOND})))
        assert observer.owner_of(SECOND) == "f:1"
        assert observer.owner_of(FIRST) == "c:1"


def test_a_bundle_that_two_go_on_claiming_is_disputed_until_one_does() -> None:
    world = World()
    for poll in (1, 2, 3):
        assert not world.driver.state.observed.bundles[FIRST].disputed, f"before poll {poll}"
        world.see("a:1", FIRST, FOURTH)
        assert not world.driver.state.observed.bundles[FIRST].disputed, f"within poll {poll}"
        world.see("b:1", SECOND, FIRST)
    assert world.driver.state.observed.bundles[FIRST].disputed
    world.see("a:1", FOURTH)
    assert world.see("b:1", SECOND, FIRST) == {"agreed": [FIRST]}
    assert not world.driver.state.observed.bundles[FIRST].disputed


def test_a_broker_that_claims_what_another_claimed_last_and_then_falls_silent_is_counted_alone() -> None:
    world = World()
    world.see("b:1", SECOND, FIRST)
    for _ in range(2):
        world.see("a:1", FIRST, FOURTH)
        world.see("b:1", answered=False)
    assert not world.driver.state.observed.bundles[FIRST].disputed
    world.see("a:1", FIRST, FOURTH)
    assert world.driver.state.observed.bundles[FIRST].disputed


def test_a_doubt_ends_when_all_lists_were_requested_after_it_arose() -> None:
    world = World()
    world.driver.command("unload_bundle", bundle=FIRST, to="b:1")
    world.driver.end_order(BUNDLES[0], "failed")
    assert world.see("a:1", FIRST, FOURTH) == {}, "b and c may have got it since they were asked"
    world.see("b:1", SECOND)
    world.see("c:1", THIRD)
    assert world.see("a:1", FIRST, FOURTH) == {"confirmed": [FIRST]}
    assert FIRST not in world.driver.state.observed.blocks


def test_three_polls_without_an_answer_make_a_suspect_and_two_answers_clear_it() -> None:
    world = World()
    for _ in range(2):
        world.see("a:1", answered=False)
    assert not world.observer.suspects
    world.see("a:1", answered=False)
    assert world.observer.suspects == {"a:1"}
    assert world.driver.owner(BUNDLES[0]) == "a:1", "what it listed last stands"
    world.see("a:1", FIRST, FOURTH)
    assert world.observer.suspects == {"a:1"}
    world.see("a:1", FIRST, FOURTH)
    assert not world.observer.suspects


def test_a_range_that_the_known_ring_lacks_has_it_read_again() -> None:
    world = World()
    half = "t/n/0x00000000_0x20000000"
    world.see("a:1", half, FOURTH)
    assert world.observer.find_unknown_rings("a:1", world.driver.state) == {"t/n"}
    assert world.observer.find_unknown_rings("b:1", world.driver.state) == set()


def test_a_broker_that_is_listed_no_more_claims_nothing() -> None:
    world = World()
    world.observer.forget("a:1")
    assert world.observer.owner_of(FIRST) is None
    assert "a:1" not in world.observer.brokers
