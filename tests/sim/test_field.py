"""The field: the same minutes for every strategy, honest figures, and what `steady` reaches in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.measure.policy.strategy_field import GREEDY, figures, run_one, standing, table
from controller.policy.view.frame import Frame
from controller.sim.field.field import (
    EVENT_MINUTE,
    MINUTES,
    World,
    bundle_names,
    costs_of,
    imbalance,
    play,
    policy_path,
)
from controller.sim.field.scenarios import SCENARIOS


def world(scenario: str, seed: int = 1) -> World:
    return SCENARIOS[scenario](np.random.default_rng(seed))


@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_clusters_are_of_the_sizes_they_should_be(scenario: str) -> None:
    made = world(scenario)
    assert 12 <= len(made.cores) <= 20
    assert 240 <= len(made.load) <= 400
    assert made.owner.max() < len(made.cores)
    utilisation = costs_of(made.fields(0)).sum(axis=0)[0] / (made.cores.sum() * 100)
    assert 0.2 <= utilisation <= 0.75


def test_who_starts_balanced_does_and_who_does_not_does_not() -> None:
    for scenario in SCENARIOS:
        made = world(scenario)
        alive = np.ones(len(made.cores), bool)
        ratio = min(
            imbalance(made, costs_of(made.fields(at)), made.owner, alive) for at in (0, 6)
        )  # one without the job
        assert (ratio < 1.05) == (scenario in ("periodic", "calm")), scenario


def test_a_run_is_the_same_every_time_and_moves_do_not_change_the_load() -> None:
    first, again = (run_one("drift", "steady", 2) for _ in range(2))
    assert first == again
    assert first.ratio[0] == run_one("drift", GREEDY, 2).ratio[0]
    assert len(first.ratio) == MINUTES
    assert sum(first.moves_by_minute) == first.moves


def test_the_best_achievable_is_bounded_by_the_biggest_bundle_on_the_biggest_broker() -> None:
    made = world("hetero")
    one = replace(made, cores=np.array([8.0, 32.0]), load=np.array([800.0]), bytes_share=np.ones(1), inward=np.ones(1),
                  sessions=np.ones(1), owner=np.array([1]), factor=lambda minute: np.ones(1))  # fmt: skip
    cost = costs_of(one.fields(0))
    assert imbalance(one, cost, one.owner, np.ones(2, bool)) == pytest.approx(1.0)
    assert imbalance(one, cost, np.array([0]), np.ones(2, bool)) == pytest.approx(4.0)


def test_a_dead_brokers_bundles_are_placed_at_once_and_nobody_sees_it_again() -> None:
    seen: list[Frame] = []
    decide = policy_path("headroom")

    def watching(frame: Frame, memory: object, settings: object) -> object:
        seen.append(frame)
        return decide(frame, memory, settings)  # type: ignore[arg-type]

    made = world("leave")
    play(made, watching, np.random.default_rng(1))  # type: ignore[arg-type]
    before, after = seen[EVENT_MINUTE - 1], seen[EVENT_MINUTE]
    assert set(before.brokers) - set(after.brokers) == {before.brokers[0]}
    assert after.bundle("owner").min() >= 0
    assert after.bundles == bundle_names(len(made.load))


@pytest.mark.parametrize("scenario", ["skew", "hetero"])
def test_steady_levels_a_cluster_and_moves_no_bundle_twice(scenario: str) -> None:
    run = run_one(scenario, "steady", 0)
    assert run.end <= 1.06
    assert run.twice == 0
    assert run.moves <= 80


def test_the_table_and_the_standing_say_what_the_figures_say() -> None:
    found = figures(["threshold", "steady"], 1, ["skew"])
    cells = found["skew"]
    assert f"{cells['steady']['mean']:.2f}→" in table(found)[1]
    share = standing(found)
    assert share["skew"]["rival"] == "threshold"
    assert share["skew"]["mean_of_best_rival"] == pytest.approx(
        cells["steady"]["mean"] / cells["threshold"]["mean"], abs=1e-3
    )
    assert standing({"skew": {"steady": cells["steady"]}}) == {}
