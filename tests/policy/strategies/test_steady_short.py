"""Strategy `steady` in a cluster that is too small for its load: what can be evened out is, and no more than that."""

from __future__ import annotations

import pytest

from benchmarks.published.clusters import moves
from controller.domain.decision import Reason
from tests.policy.strategies.test_steady_base import based, lived, told, used


@pytest.mark.parametrize("works", [(99, 99, 60, 88), (99, 80, 80), (99, 99, 99, 50)])
def test_a_broker_at_its_limit_gives_to_those_that_are_not(works: tuple[float, ...]) -> None:
    built = based(0, *works)
    lived(built, 6)
    assert max(used(built)) <= 1.06 * sum(works) / len(works)


@pytest.mark.parametrize("works", [(90, 90, 90, 90), (88, 91, 87, 90), (99, 99, 99)])
def test_where_nobody_has_less_nothing_moves(works: tuple[float, ...]) -> None:
    results = lived(based(0, *works), 6)
    assert not [move for result in results for move in moves(result)]
    assert told(results) == {Reason.UNDER_PROVISIONED}


def test_the_evidence_says_that_the_cluster_is_too_small() -> None:
    results = lived(based(0, 99, 99, 60, 88), 1)
    (result,) = results
    assert moves(result)
    assert all(move.evidence["under_provisioned"] for move in moves(result))


def test_moves_end_once_the_load_is_even() -> None:
    built = based(0, 99, 99, 60, 88)
    lived(built, 6)
    assert not [move for result in lived(built, 12) for move in moves(result)]


def test_a_cluster_that_was_never_seen_below_its_limits_is_not_taken_for_idle() -> None:
    (result,) = lived(based(0, 100, 100, 100), 1)
    assert {decision.evidence["score"] for decision in result.decisions} == {10_000}
    assert told([result]) == {Reason.UNDER_PROVISIONED}
