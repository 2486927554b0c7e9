"""The model of the ownership protocol finds every planted bug, and nothing without one, within small bounds."""

from __future__ import annotations

import pytest

from controller.sim.model.check import check
from controller.sim.model.configuration import BUGS, CONFIGURATIONS
from controller.sim.model.explore import TooManyStates, explore
from controller.sim.model.lease import LeaseModel

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
    assert checked.control_calls > 10
    assert checked.core_calls > 10
