"""After a restart, an outage, and a batch that Kafka or Spark held up.

What a controller was told and had not done yet when it was killed, the next one finds in the journal. A batch that was
read late has an older `now`, and the next one is judged as of its end.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.domain.apply import fold
from controller.domain.decision import RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.events import Command, Heartbeat
from controller.domain.facts import order_allowance_ms
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.ring import initial_bundles
from controller.domain.state import ClusterState
from controller.domain.state_codec import decode, encode
from tests.unit.control.observed_driver import BUNDLES, observed_driver
from tests.unit.control.step_driver import StepDriver, with_settings

CLUSTER_LEASE_MS = 15_000  # of the cluster profile
WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)
SILENT = ("a:1", "b:1", "c:1")


def frozen() -> StepDriver:
    """Five brokers, three of them silent for good: the guard holds their leases."""
    driver = StepDriver()
    for name in "abcde":
        driver.join(f"{name}:1")
    driver.silent.update(SILENT)
    driver.wait(10_000)
    assert driver.state.frozen
    return driver


def ended(driver: StepDriver) -> set[str]:
    return {e.broker or "" for e in driver.journal if e.kind is Kind.SESSION_ENDED}


def patience_ms(driver: StepDriver) -> int:
    return driver.settings.lease_ms + driver.settings.margin_ms


def test_a_thaw_outlives_the_controller_that_accepted_it() -> None:
    driver = frozen()
    driver.command("thaw")
    assert ended(driver) == set(), "the judgement comes with the next batch"
    driver.restart()
    driver.wait(patience_ms(driver) + 1_000)
    assert ended(driver) == set(SILENT)
    assert not driver.state.frozen
    assert not driver.state.thawing


def test_a_restart_does_not_thaw_by_itself() -> None:
    """Nobody has come back: a fresh lease for everybody is no news of anybody."""
    driver = frozen()
    before = len([e for e in driver.journal if e.kind is Kind.GUARD])
    driver.restart()
    driver.wait(patience_ms(driver) + 5_000)
    assert driver.state.frozen
    assert ended(driver) == set()
    assert len([e for e in driver.journal if e.kind is Kind.GUARD]) == before


def test_who_had_ended_before_the_guard_froze_still_counts_as_silent_after_a_restart() -> None:
    """Two of five end, the third freezes the guard: forgotten, it would be one of the three that live, and thaw it."""
    driver = StepDriver()
    for name in "abcde":
        driver.join(f"{name}:1")
    for silent in ("a:1", "b:1", "c:1"):
        driver.silent.add(silent)
        driver.wait(3_000)
    driver.wait(8_000)
    assert driver.state.frozen
    assert ended(driver) == {"a:1", "b:1"}
    driver.restart()
    driver.wait(patience_ms(driver) + 5_000)
    assert driver.state.frozen
    assert ended(driver) == {"a:1", "b:1"}
    driver.command("thaw")
    driver.wait(1_000)
    assert ended(driver) == {"a:1", "b:1", "c:1"}


def test_after_a_restart_the_guard_thaws_once_they_are_heard() -> None:
    driver = frozen()
    driver.restart()
    driver.silent.clear()
    driver.wait(patience_ms(driver) + 1_000)
    assert not driver.state.frozen
    assert ended(driver) == set()


def test_brokers_that_return_make_a_thaw_pointless() -> None:
    driver = frozen()
    driver.silent.clear()
    driver.command("thaw")
    driver.wait(1_000)
    assert not driver.state.frozen
    assert ended(driver) == set()
    driver.silent.update(SILENT)
    driver.wait(10_000)
    assert driver.state.frozen, "an earlier thaw must not count for a later failure"


@pytest.mark.covers("force-evaluation")
def test_a_wanted_round_stays_wanted_until_one_has_seen_the_wish() -> None:
    driver = StepDriver()
    driver.command("round_now")
    wish = next(e for e in driver.journal if e.data.get("kind") == "round_now")
    assert (driver.state.round_wanted, driver.state.round_wanted_seq) == (wish.command_id, wish.seq)
    driver.restart()
    driver.round(_round("1000", 1_000, state_seq=wish.seq - 1))
    assert driver.state.round_wanted == wish.command_id, "that round was computed before the command"
    driver.round(_round("1000-now", 1_000, state_seq=wish.seq))
    assert driver.state.round_wanted == ""


def test_a_challenger_answers_no_wish() -> None:
    driver = StepDriver()
    driver.command("round_now")
    driver.round(_round("1000", 1_000, state_seq=driver.state.seq, challenger=True))
    assert driver.state.round_wanted


def test_a_round_that_a_restarted_worker_computes_again_is_dropped_with_its_challengers() -> None:
    driver, told = StepDriver(), []
    for number in (1, 2):
        acting = _round(f"{number}000", 1_000 * number, state_seq=driver.state.seq)
        told.append([acting, *(replace(acting, strategy=name, challenger=True) for name in ("steady", "threshold"))])
    first, second = told
    stored = 0
    for result in (*first, *first, *second, *first, *second):
        driver.round(result)
        stored += len(driver.evidence)
    journaled = [(e.data["round_id"], e.data["strategy"]) for e in driver.journal if e.kind is Kind.ROUND]
    assert journaled == [(result.round_id, result.strategy) for result in (*first, *second)]
    assert stored == len(journaled), "evidence is stored for none that was dropped"


def test_wishes_survive_a_base_snapshot_and_older_snapshots_have_none() -> None:
    driver = frozen()
    driver.command("thaw")
    driver.command("round_now")
    assert decode(encode(driver.state)) == driver.state
    old = (
        encode(ClusterState(seq=4))
        .replace('"thawing":false,', "")
        .replace(',"round_wanted":"","round_wanted_seq":0', "")
    )
    assert "wanted" not in old
    assert decode(old) == ClusterState(seq=4)


def test_a_rejected_command_is_no_wish() -> None:
    refused = Entry(1, Kind.COMMAND_REJECTED, "i", 0, 0, command_id="c", data={"kind": "thaw"})
    assert not fold(ClusterState(frozen=True), [refused]).thawing


def _round(round_id: str, at_ms: int, state_seq: int, challenger: bool = False) -> RoundResult:
    return RoundResult(round_id, at_ms, state_seq, "headroom", (), (), {}, "hash", challenger)


def next_batch(driver: StepDriver, late_ms: int) -> None:
    """The late batch has ended; the next one comes 200 ms later."""
    driver.now_ms, driver.read_later_ms = driver.now_ms + late_ms + 200, 0


@pytest.mark.parametrize("late_ms", [5_500, 10_000, 14_000])
def test_a_grant_of_a_late_batch_has_its_whole_deadline(late_ms: int) -> None:
    """What a late batch grants has only just been granted: a grantee that has had 200 ms is not silent."""
    driver = StepDriver(with_settings(lease_ms=CLUSTER_LEASE_MS))
    a, _ = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=4)
    for bundle in initial_bundles("t/n", 4):
        driver.own(a, bundle)
    driver.read_later_ms = late_ms
    driver.run(*(Heartbeat(s._replace(number=2), driver.state.seq) for s in driver.sessions.values()), beats=False)
    driver.sessions = {b: s._replace(number=2) for b, s in driver.sessions.items()}
    assert {record.state for record in driver.state.bundles.values()} == {State.ASSIGNING}
    next_batch(driver, late_ms)
    taken_back = [e.bundle for e in driver.run() if e.kind is Kind.OWNERSHIP]
    assert taken_back == [], f"{len(taken_back)} of 4 grants were taken back after 200 ms"


def test_a_transfer_that_was_commanded_in_a_late_batch_is_not_given_up_at_once() -> None:
    driver = StepDriver(with_settings(lease_ms=CLUSTER_LEASE_MS))
    a, _ = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    driver.read_later_ms = 8_000
    driver.run(Command("move", "unload_bundle", {"bundle": str(WHOLE), "to": "b:1"}, "tester", "test"))
    assert driver.of(WHOLE).state is State.TRANSFERRING
    next_batch(driver, 8_000)
    driver.run()
    assert driver.of(WHOLE).state is State.TRANSFERRING, "the operator was told that it is accepted"


def in_flight() -> StepDriver:
    """A transfer to b:1, which never answers."""
    driver = StepDriver()
    a, _ = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    driver.command("unload_bundle", bundle=str(WHOLE), to="b:1")  # which never answers
    driver.now_ms += 200
    return driver


def test_a_deadline_is_extended_by_an_outage_once() -> None:
    """The batch that ends an outage of ten minutes is judged as of its beginning, and the next one as of its end: both
    find that nothing was read for longer than a lease, but it is one outage."""
    driver = in_flight()
    driver.run()
    driver.read_later_ms = 600_000
    driver.run()
    next_batch(driver, 600_000)
    driver.wait(driver.settings.accept_deadline_ms + 10_000)
    assert driver.of(WHOLE).state is State.OWNED, "in flight, and will be for ten more minutes"


def test_a_deadline_is_extended_by_the_whole_of_a_slow_outage() -> None:
    """Kafka answers slower and slower: no batch is read late enough for an outage, until the one after them is planned
    longer than a lease after them. From the first on, nobody's answer can have arrived."""
    driver = in_flight()
    slow_ms = driver.settings.lease_ms - 1_000
    driver.read_later_ms = slow_ms
    driver.run()
    next_batch(driver, slow_ms + 2_000)
    driver.run()
    driver.wait(driver.settings.accept_deadline_ms - 1_500)
    assert driver.of(WHOLE).state is State.TRANSFERRING
    driver.wait(3_000)
    assert driver.of(WHOLE).state is State.OWNED


def test_the_deadline_of_an_order_stands_still_while_nothing_can_be_read() -> None:
    """The answer of its agent may lie in what is still to be read: a bundle that moved must not end in doubt."""
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="b:1")
    order = driver.order_id(BUNDLES[0])
    driver.now_ms += order_allowance_ms(driver.state.observed.facts, "a:1", driver.state.modular) + 1_000
    driver.run()
    assert driver.order_id(BUNDLES[0]) == order, "it has expired although nothing was read since it was sent"
    driver.end_order(BUNDLES[0], "moved", owner="b:1")
    assert driver.owner(BUNDLES[0]) == "b:1"
    assert driver.state.observed.blocks == {}
