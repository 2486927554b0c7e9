"""Every round of the fields comes to its plan again from the bundles that a stored round names, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from controller.decide import session
from controller.domain.settings.policy import PolicySettings
from controller.policy.plan import Plan, make_plan
from controller.policy.round import mark_deciding
from controller.policy.view.frame import Frame
from controller.policy.view.snapshot import Snapshot, from_frame
from controller.sim.field.play import play, player_of

MakePlan = Callable[[Snapshot, str, Mapping[str, Any], PolicySettings], Plan]


def and_again(different: list[str]) -> MakePlan:
    """As `make_plan`; notes the first rounds whose replay decides differently."""

    def make(snapshot: Snapshot, strategy: str, memory: Mapping[str, Any], settings: PolicySettings) -> Plan:
        plan = make_plan(snapshot, strategy, memory, settings)
        stored = json.dumps(snapshot.frame.select(mark_deciding(plan, memory, settings)).to_json())
        again = make_plan(from_frame(Frame.from_json(json.loads(stored)), settings), strategy, memory, settings)
        for one, other in zip(plan.decisions, again.decisions, strict=False):
            if one != other:
                different.append(f"round {snapshot.at_ms}: {one} was {other}")
                break
        return plan

    return make


@pytest.mark.parametrize(
    ("scenario", "seed"),
    [("periodic", 1), ("hot", 1), ("late", 1), ("waking", 1), *(("drawn", seed) for seed in range(1, 7))],
)
def test_every_round_of_steady_comes_to_its_plan_again(
    monkeypatch: pytest.MonkeyPatch, scenario: str, seed: int
) -> None:
    different: list[str] = []
    monkeypatch.setattr(session, "make_plan", and_again(different))
    play(scenario, player_of("steady"), seed)
    assert not different, f"{len(different)} rounds, the first: {different[0]}"
