"""How commands tell of orders, their ends and what keeps them back."""

from __future__ import annotations

import pytest

from controller.cli.entry_text import print_entries
from controller.config.load import load_settings
from controller.config.placement_values import placement_settings
from controller.domain.decision import Reason
from controller.domain.entries import Kind
from controller.domain.reasons.table import REASON_TABLE
from controller.domain.state import LIVE
from controller.operations.bundles import find_order_obstacle, unassigned_text
from controller.operations.doctor.cluster import check_pulsar
from controller.operations.doctor.finding import Severity
from controller.operations.text import time_text
from tests.unit.control.observed_driver import BUNDLES, ObservedDriver, observed_driver
from tests.unit.control.step_driver import StepDriver


def shown(driver: ObservedDriver, kind: Kind, capsys: pytest.CaptureFixture[str]) -> str:
    """The newest entry of a kind as `ballast journal` prints it."""
    print_entries([next(entry for entry in reversed(driver.journal) if entry.kind is kind)])
    return " ".join(capsys.readouterr().out.split())


def test_an_order_that_brought_nothing_says_who_owns_the_bundle_and_for_how_long_it_rests(
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="b:1")
    assert "move a:1 → b:1" in shown(driver, Kind.ORDER, capsys)
    (end,) = driver.end_order(BUNDLES[0], "stayed", owner="a:1", took_ms=4_200, detail="204 No Content")
    told = shown(driver, Kind.ORDER_ENDED, capsys)
    assert "stayed: a:1 owns it, after 4.2 s; rounds leave it alone until" in told
    assert time_text(end.data["not_before_ms"]) in told
    assert "204 No Content" in told


def test_a_split_tells_where_it_was_ordered_and_where_it_was_cut(capsys: pytest.CaptureFixture[str]) -> None:
    driver = observed_driver()
    driver.command("split_bundle", bundle=str(BUNDLES[0]), boundary=0x1234)
    assert "split a:1 at 0x00001234" in shown(driver, Kind.ORDER, capsys)
    driver.end_order(BUNDLES[0], "split", owner="a:1", took_ms=300, boundary=0x4321)
    assert "split at 0x00004321: a:1 owns it, after 300 ms" in shown(driver, Kind.ORDER_ENDED, capsys)


def test_an_order_without_an_answer_claims_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(BUNDLES[0]))
    assert "unload a:1 → any broker" in shown(driver, Kind.ORDER, capsys)
    driver.end_order(BUNDLES[0], "gone")
    told = shown(driver, Kind.ORDER_ENDED, capsys)
    assert "gone" in told
    assert "after" not in told


@pytest.mark.parametrize(("mode", "severity"), [("shadow", Severity.NOTE), (LIVE, Severity.WARNING)])
def test_the_doctor_warns_of_what_keeps_orders_back_where_they_are_wanted(mode: str, severity: Severity) -> None:
    driver, settings = observed_driver(), load_settings(None)
    driver.command("mode", mode=mode)
    (finding,) = check_pulsar(driver.state, settings)
    assert finding.severity is Severity.OK
    driver.configure("b:1", shedding=True)
    (finding,) = check_pulsar(driver.state, settings)
    assert finding.severity is severity
    assert "loadBalancerSheddingEnabled is true" in finding.text


def test_what_says_how_to_send_orders_again_names_no_dry_run() -> None:
    driver = observed_driver()
    driver.command("release")
    obstacle = find_order_obstacle(driver.state, placement_settings(load_settings(None)))
    assert obstacle == "the cluster was released by tester: `ballast pulsar adopt --apply` takes it over again"
    for reason in (Reason.RELEASED, Reason.ANOTHER_BALANCER):
        assert "`ballast pulsar adopt --apply`" in REASON_TABLE[reason].act


def test_bundles_that_pulsar_has_not_assigned_yet_are_told() -> None:
    driver = observed_driver()
    driver.observe("c:1", BUNDLES[2])
    assert unassigned_text(driver.state) == ""
    driver.observe("c:1")
    assert unassigned_text(driver.state).startswith("1 bundle without an owner: Pulsar assigns")
    assert unassigned_text(driver.state, "t/other") == ""


def test_the_doctor_says_nothing_of_pulsar_where_ballast_owns_the_bundles() -> None:
    driver = StepDriver()
    driver.join("a:1")
    assert list(check_pulsar(driver.state, load_settings(None))) == []
