"""When the demo's cluster counts as calm, and what is said when it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.testbed.demo.calm import Look, Standing, calm_since, unrest

QUIET = Standing("b1", 0.30, 0.30, "not hot (100_balanced)", restless=False)
RESTLESS = Standing("b2", 0.36, 0.30, "moved too recently (201_grace_period)", restless=True)
EVENT_MS, HORIZON_MS = 100_000, 20_000


def looks(*looks: Look) -> list[Look]:
    """Five seconds apart, the first as soon as averages begin after the event."""
    return [replace(look, at_ms=EVENT_MS + HORIZON_MS + 5_000 * at) for at, look in enumerate(looks)]


CALM, MOVING, UNEVEN = Look(0, 0, (QUIET,)), Look(0, 2, (QUIET,)), Look(0, 0, (QUIET, RESTLESS))


@pytest.mark.parametrize(
    ("seen", "since"),
    [
        ([CALM, CALM], None),  # not yet long enough
        ([CALM, CALM, CALM], 120_000),
        ([UNEVEN, CALM, CALM, CALM, CALM], 125_000),
        ([CALM, CALM, MOVING, CALM, CALM], None),
        ([CALM, CALM, CALM, UNEVEN], None),  # it was calm and is not any more
    ],
)
def test_calm_is_what_lasts_three_rounds_and_lasts_still(seen: list[Look], since: int | None) -> None:
    assert calm_since(looks(*seen), EVENT_MS, HORIZON_MS, under_way=0) == since


def test_averages_that_began_before_the_last_event_prove_nothing() -> None:
    seen = looks(CALM, CALM, CALM)
    assert calm_since(seen, EVENT_MS + 1, HORIZON_MS, under_way=0) is None


def test_nothing_is_calm_while_a_bundle_is_under_way() -> None:
    assert calm_since(looks(CALM, CALM, CALM), EVENT_MS, HORIZON_MS, under_way=1) is None


def row(**changes: object) -> dict[str, object]:
    given = {"broker": "b1", "score": 0.3, "mean": 0.3, "hits": 0, "is_source": False, "eligible": True}
    return {**given, "reason": "100_balanced", "reason_words": "not hot", **changes}


@pytest.mark.parametrize(
    ("changes", "restless"),
    [
        ({}, False),
        ({"hits": 3, "score": 0.33}, True),
        ({"hits": 3, "score": 0.31}, False),  # back within the tolerance, which the strategy asks more of
        ({"hits": 0, "score": 0.33}, False),  # the strategy has nothing against it
        ({"is_source": True}, True),
        ({"eligible": False}, True),
        ({"eligible": False, "score": None, "mean": None}, True),
    ],
)
def test_a_broker_is_restless_when_the_strategy_has_something_against_it(
    changes: dict[str, object], restless: bool
) -> None:
    assert Standing.from_row(row(**changes), tolerance=0.05).restless is restless


def test_a_broker_that_was_counted_long_enough_and_is_no_source_is_left_alone() -> None:
    above = row(hits=16, score=0.33, reason="200_hit_count")
    assert not Standing.from_row(above, 0.05, {"hits": 16, "hits_needed": 8}).restless, "no more than noise"
    assert Standing.from_row(above, 0.05, {"hits": 6, "hits_needed": 8}).restless
    assert Standing.from_row(above, 0.05).restless


def test_what_is_not_calm_is_named_with_its_reason() -> None:
    (told,) = unrest(looks(CALM, UNEVEN), [])
    assert told == "b2 is 36.0% busy where 30.0% would be even: moved too recently (201_grace_period)"
    assert unrest([], ["demo/orders/0x00000000_0x80000000"])[0] == "demo/orders/0x00000000_0x80000000 is under way"
    assert unrest(looks(CALM, UNEVEN), [], due=24) == [
        "only 2 rounds came of 24 that were due: this machine is busy",
        told,
    ]
    assert unrest([], []) == ["no round yet"]
    assert unrest(looks(MOVING), []) == ["the newest round still decided 2 moves or splits"]
    unknown = Standing.from_row(row(score=None, eligible=False, reason="400_no_load_data", reason_words="no reports"))
    assert unrest([Look(0, 0, (unknown,))], []) == ["b1 has no known load: no reports (400_no_load_data)"]
