"""Who is in charge of a Pulsar cluster: after a release no order goes until the cluster is adopted again."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.entries import Entry, Kind
from controller.domain.events import Command
from controller.domain.observed import AdoptionPhase
from tests.unit.control.observed_driver import BUNDLES, ObservedDriver, observed_driver
from tests.unit.control.step_driver import StepDriver, with_settings

FIRST, SECOND, THIRD, FOURTH = BUNDLES
SHEDDING, SPLIT = "loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled"
BEFORE = {SHEDDING: "true", SPLIT: None}
OFF = {SHEDDING: "false", SPLIT: "false"}


def phase_of(driver: ObservedDriver) -> AdoptionPhase | None:
    adoption = driver.state.observed.adoption
    return adoption.phase if adoption is not None else None


def before_of(driver: ObservedDriver) -> Any:
    assert driver.state.observed.adoption is not None
    return driver.state.observed.adoption.before


def cluster_of(driver: ObservedDriver) -> str:
    assert driver.state.observed.adoption is not None
    return driver.state.observed.adoption.cluster


def outcomes(entries: list[Entry]) -> dict[str | None, str]:
    return {e.bundle: e.data["outcome"] for e in entries if e.kind is Kind.ORDER_ENDED}


def unload(number: int, to: str = "b:1") -> Command:
    return Command(f"u{number}", "unload_bundle", {"bundle": str(BUNDLES[number]), "to": to})


def test_an_adoption_says_who_when_and_what_was_there() -> None:
    driver = observed_driver()
    entries = driver.command("adopt", before=BEFORE)
    assert [entry.kind for entry in entries] == [Kind.COMMAND_ACCEPTED, Kind.ADOPTION]
    adoption = driver.state.observed.adoption
    assert adoption is not None
    assert (adoption.phase, adoption.before, adoption.who, adoption.why) == (
        AdoptionPhase.ADOPTED, BEFORE, "tester", "test",
    )  # fmt: skip
    assert adoption.seq == entries[-1].seq


def test_an_adoption_is_of_one_cluster_until_it_is_released() -> None:
    driver = observed_driver()
    driver.command("adopt", before=BEFORE)
    assert cluster_of(driver) == "", "an older version does not name it"
    driver.command("adopt", before=OFF, cluster="east")
    driver.command("adopt", before=OFF, cluster="west")
    assert driver.rejection().startswith("the journal's Pulsar cluster is east, not west")
    driver.command("adopt", before=OFF)
    driver.command("release")
    assert cluster_of(driver) == "east"
    driver.command("end_release")
    assert cluster_of(driver) == "east"
    driver.command("adopt", before=BEFORE, cluster="west")
    assert (cluster_of(driver), before_of(driver)) == ("west", BEFORE)


@pytest.mark.parametrize("name", [1, None, "x" * 201, "two\nlines"])
def test_the_name_of_a_cluster_is_a_text(name: object) -> None:
    driver = observed_driver()
    driver.command("adopt", before=BEFORE, cluster=name)
    assert "cluster" in driver.rejection()


def test_adopting_again_keeps_what_was_there_first() -> None:
    driver = observed_driver()
    driver.command("adopt", before=BEFORE)
    driver.command("adopt", before=OFF)
    assert before_of(driver) == BEFORE, "the first one was interrupted after its writes"
    driver.command("release")
    driver.command("adopt", before=OFF)
    assert (phase_of(driver), before_of(driver)) == (AdoptionPhase.ADOPTED, BEFORE), "the release was interrupted"


def test_after_a_whole_release_the_next_adoption_finds_what_is_there_now() -> None:
    driver = observed_driver()
    driver.command("adopt", before=BEFORE)
    driver.command("release")
    driver.command("end_release")
    assert (phase_of(driver), before_of(driver)) == (AdoptionPhase.RELEASED, BEFORE)
    now = {SHEDDING: None, SPLIT: "true"}
    driver.command("adopt", before=now)
    assert before_of(driver) == now


@pytest.mark.parametrize(
    "before", [None, {}, {SHEDDING: "true"}, {SHEDDING: 1, SPLIT: None}, {SHEDDING: "x" * 201, SPLIT: None},
               {SHEDDING: None, SPLIT: None, "brokerClientAuthenticationParameters": "token:x"}],
)  # fmt: skip
def test_an_adoption_names_the_two_settings_and_no_other(before: object) -> None:
    driver = observed_driver()
    driver.command("adopt", before=before)
    assert "override" in driver.rejection()
    assert "token" not in driver.rejection()
    assert phase_of(driver) is None


def test_no_order_after_a_release_until_the_cluster_is_adopted() -> None:
    driver = observed_driver()
    driver.command("adopt", before=BEFORE)
    driver.command("release")
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    assert "was released by tester" in driver.rejection()
    driver.command("drain", broker="a:1")
    driver.wait(2_000)
    assert not driver.state.observed.orders
    driver.command("end_release")
    driver.command("split_bundle", bundle=str(FIRST))
    assert "`ballast pulsar adopt --apply` lets Ballast send orders again" in driver.rejection()
    driver.command("adopt", before=OFF)
    driver.wait(1_000)
    assert str(FIRST) in driver.state.observed.orders, "the drain goes on"


def test_a_cluster_that_nobody_adopted_can_be_released_and_adopted() -> None:
    driver = observed_driver()
    driver.command("release")
    assert (phase_of(driver), before_of(driver)) == (AdoptionPhase.RELEASING, {})
    driver.command("adopt", before=BEFORE)
    assert before_of(driver) == BEFORE


def test_a_release_drops_what_waits_and_lets_open_orders_end() -> None:
    driver = observed_driver(with_settings(orders_in_flight=1))
    driver.command("adopt", before=BEFORE)
    driver.command("unload_namespace", namespace="t/n", to="b:1")
    (open_order,) = driver.state.observed.orders.values()
    entries = driver.command("release")
    assert entries[-1].data["dropped"] == 2
    driver.end_order(open_order.bundle, "moved", owner="b:1")
    driver.wait(1_000)
    assert not driver.state.observed.orders
    entries = driver.command("end_release")
    assert [entry.kind for entry in entries] == [Kind.COMMAND_ACCEPTED, Kind.ADOPTION]
    assert phase_of(driver) is AdoptionPhase.RELEASED


def test_what_is_still_open_at_the_end_is_in_doubt() -> None:
    driver = observed_driver()
    driver.command("adopt", before=BEFORE)
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.command("release")
    assert outcomes(driver.command("end_release")) == {str(FIRST): "released"}
    driver.command("adopt", before=BEFORE)
    driver.command("unload_bundle", bundle=str(FIRST))
    assert "ended in doubt" in driver.rejection(), "its request may still be on its way"
    driver.tell("a:1", "observed", confirmed=[str(FIRST)], requested_seq=driver.state.seq)
    driver.command("unload_bundle", bundle=str(FIRST), to="c:1")
    assert driver.state.observed.orders[str(FIRST)].target == "c:1"


def test_both_commands_may_come_twice() -> None:
    driver = observed_driver()
    driver.command("adopt", before=BEFORE)
    for kind in ("release", "release", "end_release", "end_release", "release"):
        driver.command(kind)
        assert driver.state.commands[f"c{driver.commands}"] == "accepted"
    assert phase_of(driver) is AdoptionPhase.RELEASED, "there is nothing to release again"


def test_the_end_of_a_release_that_was_overtaken_changes_nothing() -> None:
    driver = observed_driver()
    driver.command("end_release")
    assert "nobody is releasing it" in driver.rejection()
    driver.command("adopt", before=BEFORE)
    driver.command("release")
    driver.command("adopt", before=BEFORE)
    driver.command("end_release")
    assert "tester has adopted it since" in driver.rejection()
    assert phase_of(driver) is AdoptionPhase.ADOPTED


def test_a_release_in_the_same_batch_is_before_any_order() -> None:
    """As in the first batch of a controller, which has all commands that were sent while none ran."""
    driver = observed_driver()
    entries = driver.run(unload(0), Command("r", "release", {}), unload(2))
    assert not [entry for entry in entries if entry.kind is Kind.ORDER]
    assert [(e.command_id, e.kind) for e in entries if e.command_id and e.kind is not Kind.ADOPTION] == [
        ("u0", Kind.COMMAND_REJECTED), ("r", Kind.COMMAND_ACCEPTED), ("u2", Kind.COMMAND_REJECTED),
    ]  # fmt: skip
    entries = driver.run(Command("a", "adopt", {"before": BEFORE}), unload(1, "a:1"))
    assert [entry.kind for entry in entries if entry.kind is Kind.ORDER] == [Kind.ORDER]


def test_brokers_that_follow_the_journal_are_neither_adopted_nor_released() -> None:
    driver = StepDriver()
    driver.join("a:1")
    for kind in ("adopt", "release"):
        (entry,) = driver.command(kind, before=BEFORE)
        assert entry.kind is Kind.COMMAND_REJECTED
        assert "only a Pulsar cluster" in str(entry.reason)
