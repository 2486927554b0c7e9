"""What brings little of what a broker must give leaves in steps of several moves, all judged at once; if at all."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from benchmarks.published.clusters import ClusterBuilder, loads, moves, reason_of
from controller.domain.decision import Reason
from controller.domain.load import SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.policy.placement.constraints import assess, constrain
from controller.policy.strategies.steady.model import Model
from controller.policy.strategies.steady.pairs import Bounds, Candidates, Judged, evaluate
from controller.policy.strategies.steady.usage import Usage

SETTINGS = PolicySettings(strategy="steady")


def in_trouble(*percents: float, parts: int) -> ClusterBuilder:
    """Brokers b0, b1, … with these CPU percentages in equal bundles; `steady` decides."""
    built = loads(*percents, parts=parts)
    built.settings = SETTINGS
    return built


def judged(built: ClusterBuilder, source: int, targets: list[int], bounds: Bounds) -> tuple[Model, Judged]:
    """All bundles of the source with these targets."""
    snapshot = constrain(assess(built.snapshot(), SETTINGS), SETTINGS)
    model = Model(snapshot, Usage.of(snapshot), SETTINGS.shed.overloaded_threshold)
    bundles = snapshot.bundles_of(source)
    found = Candidates.of(model, source, bundles, np.zeros(len(bundles)))
    return model, evaluate(model, found, np.array(targets), None).within(bounds)


def test_what_brings_little_leaves_in_steps_each_bundle_to_another_target() -> None:
    """Scores add up, and evidence has every move first among its pairs."""
    chosen = moves(in_trouble(95, *[40] * 9, parts=300).round())
    first = chosen[0]
    step = [first, *(d for d in chosen if d.evidence.get("follows") == first.bundle)]
    assert len(step) == 9 == len({d.target for d in step})
    for before, after in pairwise(chosen):
        assert after.before["b0"] == before.after["b0"], "each begins where the one before it ended"
    for one in chosen:
        pair = one.evidence["pairs"][0]
        assert (pair["bundle"], pair["target"], pair["lost_by"]) == (one.bundle, one.target, "")
        predicted = pair["source_after"], pair["target_after"]
        assert [score / SCORE_UNIT for score in predicted] == [one.after["b0"], one.after[str(one.target)]]


def test_a_large_part_of_what_a_broker_gives_leaves_alone() -> None:
    """The next move is judged after it: the lowest target may be the same one."""
    chosen = moves(in_trouble(90, 20, 60, 60, parts=12).round())
    assert [d.target for d in chosen][:2] == ["b1", "b1"]
    assert not any("follows" in d.evidence for d in chosen[:2])


@pytest.mark.parametrize("limit", [{"namespace_moves_per_min": 2}, {"broker_moves_per_min": 2}])
def test_a_step_ends_where_nothing_more_may_move(limit: dict[str, Any]) -> None:
    """What pacing would hold back is not chosen: the model would count on it."""
    found = in_trouble(95, *[40] * 9, parts=300).with_settings(pacing=limit).round().decisions
    assert any("follows" in d.evidence for d in found)
    assert not [d for d in found if "would_be" in d.evidence]


def holds_now(model: Model, pairs: Judged) -> bool:
    """Whether the first bundle may still go to the first target."""
    return pairs.holds(float(model.score[0]), pairs.pairs.source_now(model, 0), 0, 0)


def test_a_pair_no_longer_holds_when_its_source_has_given_enough() -> None:
    """The next one would leave it below what it should keep, or take hardly more off it than its target gets."""
    built = in_trouble(80, 20, 40, parts=8)
    for bounds in (Bounds(0.01, 0.65, 0.85), Bounds(0.09, 0.0, 0.85)):
        model, pairs = judged(built, 0, [1], bounds)
        assert holds_now(model, pairs)
        for bundle in pairs.pairs.candidates.bundles[1:3].tolist():
            model.move(int(bundle), 2)
        assert holds_now(model, pairs) is (bounds.source_at_least == 0.0)
        for bundle in pairs.pairs.candidates.bundles[3:6].tolist():
            model.move(int(bundle), 2)
        assert not holds_now(model, pairs)


def test_brokers_with_nothing_but_small_bundles_use_up_no_attempts_to_swap() -> None:
    """Seventeen of them, and one that only a swap relieves."""
    built = in_trouble(*[78] * 17, parts=52)
    for name, parts in (("s", [38.0] * 2), *((f"low{at}", [25.0] * 2) for at in range(50))):
        built.broker(name, cpu=sum(parts))
        for points in parts:
            built.bundle(name, cpu=points, topics=1.0)
    rounds = [built.round(), *(built.later().round() for _ in range(5))]
    assert any(d.swapped_with for result in rounds for d in moves(result) if d.source == "s")


def test_crumbs_that_bring_nothing_together_stay_even_on_an_overloaded_broker() -> None:
    """Its other bundles moved a minute ago. Two hundred crumbs come to four tenths of a point."""
    built = in_trouble(95, *[40] * 9, parts=9)
    for bundle in [d for d in built.bundles if d["broker"] == "b0"]:
        record = built.state.bundles[str(bundle["bundle"])]
        built.state.put(replace(record, moved_at_ms=built.at_ms - 60_000))
    for _ in range(200):
        built.bundle("b0", cpu=0.002)
    result = built.round()
    assert not moves(result)
    assert reason_of(result, "b0") is Reason.GRACE_PERIOD
