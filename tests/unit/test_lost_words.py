"""Why a candidate that no rule forbids was passed over: never a sentence that the figures beside it contradict."""

from __future__ import annotations

from typing import Any

import pytest

from controller.operations.evidence_words import result_text

CHOSEN = {"bundle": "x", "target": "b", "source_after": 4_081, "target_after": 4_058, "lost_by": ""}
LEFT = {**CHOSEN, "bundle": "y"}
COUNTS = "its disruption, or what its figures may be wrong by, counts against it"


def _decision(*others: dict[str, Any], **changes: Any) -> dict[str, Any]:
    evidence = {"mean": 4_032, "pairs": [CHOSEN, *others], **changes.pop("evidence", {})}
    return {"kind": "transfer", "strategy": "steady", "bundle": "x", "target": "b", "evidence": evidence, **changes}


def _told(row: dict[str, Any], **changes: Any) -> str:
    return result_text(row, _decision(row, **changes))


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        ((4_146, 3_993), "allowed, but another one brings more: the higher of the two at 40.8 %, not 41.5 %"),
        ((4_055, 4_083), "allowed, but another one brings more, by less than a tenth of a point"),
        ((4_066, 4_072), f"allowed, but {COUNTS}"),
        ((4_000, 4_081), f"allowed, and as low, but {COUNTS}"),
    ],
)
def test_of_steady_the_higher_of_the_two_decides_then_disruption_and_uncertainty(
    scores: tuple[int, int], text: str
) -> None:
    assert _told({**LEFT, "source_after": scores[0], "target_after": scores[1]}) == text


def test_of_steady_a_bundle_goes_where_it_surely_leaves_the_target_lowest() -> None:
    text = _told({**CHOSEN, "target": "c", "target_after": 4_000})
    assert text == "allowed, but the chosen target stays lower when what may be wrong with its estimate is counted"


def test_a_swap_is_preferred_by_certainty_not_by_disruption() -> None:
    taken = {**CHOSEN, "in_exchange_for": "z"}
    row = {**taken, "bundle": "y", "source_after": 4_000, "target_after": 4_000}
    decision = _decision(evidence={"swapped_with": "z", "pairs": [taken, row]})
    assert result_text(row, decision) == "allowed, but what its figures may be wrong by counts against it"
    assert result_text(taken, decision) == "chosen"


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        ((3_900, 4_000), "allowed, but it would take its source below the mean"),
        ((4_200, 4_000), "allowed, but another one leaves the source closer to the mean"),
        ((4_081, 4_060), "allowed, but another one leaves its target lower"),
        ((4_081, 4_058), "allowed, but another one was chosen"),
    ],
)
def test_of_headroom_the_source_closest_to_the_mean_decides(scores: tuple[int, int], text: str) -> None:
    assert _told({**LEFT, "source_after": scores[0], "target_after": scores[1]}, strategy="headroom") == text


def test_where_the_stored_figures_do_not_tell_nothing_is_claimed() -> None:
    assert _told(LEFT, strategy="weighted") == "allowed, but another one was chosen"
    assert _told({"bundle": "x", "target": "c", "lost_by": ""}, strategy="placement").startswith("allowed, and as good")
    unlisted = _decision(evidence={"pairs": [LEFT]})
    assert result_text(LEFT, unlisted) == "allowed, but another one was chosen"
    assert _told(LEFT, kind="skip", bundle=None, target=None) == "allowed, but nothing was moved"
    assert _told({"bundle": "y", "throughput": 7, "target": "c", "lost_by": ""}) == "chosen as well"
    assert _told({"bundle": "y"}) == ""


def test_a_rule_that_forbids_it_comes_first() -> None:
    text = _told({**LEFT, "lost_by": "405_would_not_improve"})
    assert text == "405_would_not_improve (hard): would not improve the balance"
