"""`benchmarks/measure/policy/field_truths.py` tells the truth of the parts that it names, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.measure.policy.field_truths import A_CORE, PARTS, Teller, told
from controller.policy.usage.model import UsageModel
from controller.policy.view.snapshot import Snapshot
from controller.sim.field.cluster import CPU, Cluster
from controller.sim.field.observation import Observer
from controller.sim.field.play import play, player_of
from controller.sim.field.players import StrategyPlayer
from controller.sim.field.scenarios import skew

Telling = tuple[Cluster, Snapshot, Snapshot]  # as it is, and as it is told


def first_round(part: str, *parts: str) -> Telling:
    """Of a cluster with a broker that is slow and has something else to do."""
    cluster = skew(np.random.default_rng(1)).cluster
    cluster.slow[0], cluster.other_cpu[0] = 2.0, 0.1
    observer = Observer(cluster, np.random.default_rng(2))
    teller = Teller({part, *parts}, cluster, observer)
    found: list[Telling] = []

    def tell(snapshot: Snapshot, usage: UsageModel) -> Snapshot:
        found.append((cluster, snapshot, teller.tell(snapshot, usage)))
        return snapshot

    StrategyPlayer("steady", teller.settings, observer, tell).decide(observer.observe(0, False))
    return found[0]


def test_without_a_part_it_plays_as_it_is() -> None:
    usual, same = play("leave", player_of("steady"), 1), play("leave", lambda c, seen: told([], c, seen), 1)
    assert (same.ratio, same.moves) == (usual.ratio, usual.moves)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_changes_what_it_names_alone(part: str) -> None:
    _, before, after = first_round(part)
    thought, said = before.frame.estimates, after.frame.estimates
    assert thought is not None
    assert said is not None
    changed = {
        "costs": (said.bundle("cpu_cost") != thought.bundle("cpu_cost")).any(),
        "usage": (said.broker("cpu_used") != thought.broker("cpu_used")).any(),
        "speeds": (said.broker("speed_permille") != thought.broker("speed_permille")).any(),
    }
    wanted = "costs" if part == "prior" else part
    assert [name for name, differs in changed.items() if differs] == [name for name in changed if name == wanted]
    assert (said.bundle("cpu_error") == 0).all() == (part == "costs")


def test_what_is_told_is_true() -> None:
    cluster, _, after = first_round("costs", "usage", "speeds")
    said = after.frame.estimates
    assert said is not None
    assert said.bundle("cpu_cost").sum() == pytest.approx(cluster.load()[:, CPU].sum() * A_CORE, rel=1e-6)
    np.testing.assert_allclose(
        said.broker("cpu_used") / (cluster.cores * A_CORE), cluster.utilisation()[:, CPU], rtol=1e-4
    )
    assert said.broker("speed_permille")[0] == 2_000
    assert said.broker("cpu_base")[0] == pytest.approx(0.1 * cluster.cores[0] * A_CORE)
