"""What testbeds start again is what systemd would start again."""

from __future__ import annotations

from controller.agent.lifecycle import AGAIN, BROKEN, LOST, OK
from controller.service.arguments import EXIT_ANOTHER, EXIT_CONFIG, EXIT_FAILED, EXIT_REPLACED
from controller.testbed.units import AGENT, JOB, PULSAR_AGENT, Units, final_codes


def test_the_codes_are_those_of_the_units() -> None:
    assert final_codes(AGENT) == {EXIT_CONFIG, LOST, BROKEN}
    assert final_codes(JOB) == {EXIT_CONFIG, EXIT_ANOTHER, EXIT_REPLACED}
    assert final_codes(PULSAR_AGENT) == {EXIT_CONFIG, BROKEN}, "with --standby it waits for the other one"
    assert {OK, AGAIN, EXIT_FAILED}.isdisjoint(final_codes(AGENT) | final_codes(JOB))
    assert final_codes("ballast-maintain") == set()


def test_a_broker_is_gone_once_all_its_units_have_given_up() -> None:
    units = Units()
    assert not units.has("a:1")
    units.add("a:1")
    units.add("a:1")
    assert not units.give_up("a:1")
    assert units.has("a:1")
    assert units.give_up("a:1")
    assert not units.has("a:1")


def test_of_several_units_that_start_again_one_is_left() -> None:
    units = Units()
    units.add("a:1")
    units.add("a:1")
    units.restart("a:1")
    assert units.give_up("a:1")
