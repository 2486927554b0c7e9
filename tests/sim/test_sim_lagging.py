"""A broker that stops reading the journal: rounds are told, by the same watch that a running controller has."""

from __future__ import annotations

import pytest

from controller.domain.decision import Reason, RoundResult
from controller.domain.settings.policy import PolicySettings
from controller.policy.round import RoundInputs, learn_and_decide
from controller.policy.usage.model import UsageModel
from controller.sim.load.workloads import LoadSpec
from controller.sim.scenario.faults import Fault
from controller.sim.scenario.scenario import ClusterSpec, Scenario
from controller.sim.simulation import simulate

MINUTE_MS = 60_000


def test_a_round_says_that_a_broker_lags_and_leaves_it_alone_until_it_reads_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds: dict[int, RoundResult] = {}

    def noted(inputs: RoundInputs) -> tuple[tuple[RoundResult, ...], UsageModel]:
        results, usage = learn_and_decide(inputs)
        rounds[len(rounds) + 1] = results[0]
        return results, usage

    monkeypatch.setattr("controller.sim.simulation.learn_and_decide", noted)
    scenario = Scenario(
        cluster=ClusterSpec(brokers=3),
        load=LoadSpec(bundles=60, tenants=3, sigma=0.5),
        faults=(Fault("join", "b4", 3 * MINUTE_MS), Fault("join", "b5", 3 * MINUTE_MS),
                Fault("lag", "b5", 3 * MINUTE_MS + 10_000, 9 * MINUTE_MS)),
        policy=PolicySettings(strategy="steady"),
        lag_limit_entries=10,
        duration_ms=20 * MINUTE_MS,
    )  # fmt: skip
    simulate(scenario, 1)
    targets = {number: {d.target for d in result.decisions} for number, result in rounds.items()}
    said = [n for n, r in rounds.items() if any((d.source, d.reason) == ("b5", Reason.LAGGING) for d in r.decisions)]
    assert len(said) >= 5
    assert all("b5" not in targets[number] for number in said)
    assert max(said) <= 13
    assert any("b5" in targets[number] for number in rounds if number > max(said))
