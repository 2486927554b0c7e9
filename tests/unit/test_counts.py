"""What is there once is told in the singular."""

from __future__ import annotations

import pytest

from controller.cli.look.status import plan_text
from controller.cli.tryout.produce import unacked_text
from controller.domain.state import ClusterState
from controller.operations.doctor.kafka import judge_lag
from controller.operations.liveness import engine_text
from controller.operations.overview import find_problems
from controller.operations.text import count_text
from tests.unit.test_status_problems import QUIET

PLAN = {"phase": "waiting", "who": "", "round_id": "17", "moves": [{}]}


@pytest.mark.parametrize(("number", "told"), [(0, "0 entries"), (1, "1 entry"), (2, "2 entries")])
def test_a_count_agrees_with_its_noun(number: int, told: str) -> None:
    assert count_text(number, "entry", "entries") == told
    assert count_text(number, "move") == f"{number} move{'' if number == 1 else 's'}"


def test_one_of_something_is_not_several() -> None:
    state = ClusterState(offsets={"t.events": {"0": 4}})
    assert [found.text for found in judge_lag({"t.events": {"0": 5}}, state)] == [
        "1 record of control topics not in the journal's offsets: 1 in t.events"
    ]
    assert plan_text(PLAN, True) == "1 move of round 17: waits for approval"
    ends = {"until_ms": 60_000, "approve_above": 1}
    assert plan_text({**PLAN, **ends}, True).endswith(": waits for approval, expires at about 1970-01-01 00:01:00 UTC")
    assert plan_text({**PLAN, **ends, "phase": "declined", "who": "anna"}, True) == (
        "that of round 17 was declined by anna; plans of more than 1 move (rounds.approve_above) are held back until "
        "about 1970-01-01 00:01:00 UTC"
    )
    assert unacked_text(1).startswith("1 message was not acknowledged within 10 s: `ballast doctor` says ")
    assert unacked_text(5).startswith("5 messages were not acknowledged within 10 s: ")
    assert find_problems({**QUIET, "plan": PLAN})[0].startswith("a plan of 1 move waits: ")
    assert (
        engine_text({"spark": "4.0", "master": "m", "executors": 1, "cores": 1}) == "Spark 4.0 at m, 1 executor, 1 core"
    )
