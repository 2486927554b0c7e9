"""The model of the ownership protocol finds every planted bug, and nothing without one, within small bounds."""

from __future__ import annotations

import random

import pytest

from controller.domain.ownership import TRANSITIONS
from controller.process.paths import ROOT
from controller.sim.model.check import check
from controller.sim.model.configuration import BUGS, CONFIGURATIONS, LEFT_OUT
from controller.sim.model.explore import explore
from controller.sim.model.lease import LeaseModel
from controller.sim.model.protocol import OwnershipModel

OF_THE_LEASE = ["lease_from_acknowledgement", "lease_revives", "no_margin", "restart_keeps_silence"]


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_breaks_what_it_should(name: str) -> None:
    planted = BUGS[name]
    checked = check(CONFIGURATIONS[planted.configuration], planted.disturbances, name)
    assert checked.breach.startswith(planted.unsafe)
    assert checked.ownership.trace


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_without_a_bug_it_is_safe_and_live(name: str) -> None:
    checked = check(CONFIGURATIONS[name], disturbances=1)
    assert checked.breach == ""
    assert checked.ownership.states > 50


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_states_of_one_normal_form_go_on_alike(name: str) -> None:
    model, dice = OwnershipModel(CONFIGURATIONS[name]), random.Random(17)
    for _ in range(12):
        state = model.start()
        for _ in range(50):
            steps = model.steps(state, coded=False)
            alike = {(step.state, step.cost) for step in model.steps(model.code(state))}
            assert {(model.code(step.state), step.cost) for step in steps} == alike
            if steps:
                state = dice.choice(steps).state


def test_two_disturbances_take_every_transition_of_the_table() -> None:
    checked = [check(CONFIGURATIONS[name], disturbances=2) for name in ("one-bundle", "split")]
    assert [one.breach for one in checked] == ["", ""]
    table = {(before, after) for before, states in TRANSITIONS.items() for after in states}
    assert table - checked[0].taken - checked[1].taken == set()


def test_the_lease_expires_for_its_agent_first_and_only_a_bug_changes_that() -> None:
    assert explore(LeaseModel()).breach == ""
    for name in OF_THE_LEASE:
        found = explore(LeaseModel(name))
        assert found.breach, name
        assert found.trace[-1].startswith("the controller ends the lease") or name == "lease_revives"


def test_a_trace_is_short_and_says_who_does_what() -> None:
    checked = check(CONFIGURATIONS["one-bundle"], 1, "unload_frees")
    assert checked.breach == "two servers of bundle 0, at epochs 1 and 3"
    assert checked.ownership.trace == [
        "the controller is commanded to unload the bundle → free, epoch 2",
        "the controller places the bundle → assigning, epoch 3, to B",
        "B reads `assigning` to itself, epoch 3",
        "B serves at epoch 3",
    ]


def test_the_page_names_what_the_model_leaves_out() -> None:
    page = " ".join((ROOT / "docs" / "ownership.md").read_text(encoding="utf-8").split())
    assert [text for text in LEFT_OUT if text not in page] == []
