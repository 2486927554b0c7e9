"""Every reason has words, an explanation and keys that exist; words have the evidence's figures where it has them."""

from __future__ import annotations

from string import Formatter

import pytest

from controller.config.settings import Settings
from controller.domain.decision import Reason
from controller.domain.reasons.table import REASON_TABLE
from controller.domain.reasons.words import describe_decision_row, describe_reason, describe_score, find_reason
from controller.pulsar.reasons import SplitReason, UnloadReason

EVERYTHING = {
    "score": 9_100, "mean": 6_000, "usage": 9_000, "average": 8_000, "history": 7_700, "threshold": 1_000,
    "partner": "b2:8080", "paced_by": "cluster", "too_big": "t/n/0x0_0x1", "isolation": "gold", "gap_points": 12.5,
    "cost_permille": 2_000, "limits": {"cpu": 400, "topics": 1_100}, "hits": 5, "hits_needed": 6,
}  # fmt: skip


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_explained(reason: Reason) -> None:
    told = REASON_TABLE[reason]
    assert not [name for _, name, _, _ in Formatter().parse(told.words[-1]) if name]
    assert all(text.endswith(".") and len(text) > 5 for text in (told.meaning, told.act))
    assert describe_reason(reason.value) == told.words[-1]
    for key in told.keys:
        section, _, name = key.partition(".")
        assert name in type(getattr(Settings(), section)).model_fields, key


@pytest.mark.parametrize(
    ("code", "evidence", "words"),
    [
        ("200_hit_count", {"hits": 5, "hits_needed": 6}, "hot in 5 of the 6 rounds needed"),
        ("200_hit_count", {"hits": 8, "hits_needed": 6}, "hot in 8 rounds, but not clearly enough"),
        ("200_hit_count", {"hits": 1}, "hot in 1 round; more are needed"),
        ("200_hit_count", {"hits": 2, "std": 4_000}, "the cluster uneven in 2 cycles; more are needed"),
        ("200_hit_count", {"hits": 2, "gap_points": 16.25, "partner": "b2"}, "16.2 points above b2 in 2 rounds; more"),
        ("200_hit_count", {"hits": "many"}, "not hot in enough rounds yet"),
        ("101_overloaded", {"score": 9_100, "limits": {"cpu": 910, "topics": 1_100}}, "topics at 110 % of its limit"),
        ("101_overloaded", {"score": 9_123, "mean": 6_000}, "at 91.2 % against 60.0 % on average: overloaded"),
        ("102_above_mean", {"score": None, "mean": -1}, "above the mean"),
        (
            "100_balanced", {"score": 781, "mean": 1_585, "passing": 1_379},
            "not hot: at 7.8 % against 15.8 % on average, and 13.8 % more that is not expected to last",
        ),
        ("112_split_msg_rate", {"permille_of_limit": {"112_split_msg_rate": 1_250}}, "125 % of the messages/s that"),
        ("201_grace_period", {"bundles_lost": {"201_grace_period": 4}}, "moved too recently: 4 of its bundles"),
        ("201_grace_period", {"bundles_lost": {"307_pinned": 4}}, "moved too recently"),
        ("407_unsplittable", {"too_big": "t/n/0x0_0x1"}, "t/n/0x0_0x1 cannot be cut: one topic or one hash"),
    ],
)  # fmt: skip
def test_words_have_the_figures_of_the_evidence(code: str, evidence: dict[str, object], words: str) -> None:
    assert describe_reason(code, evidence).startswith(words)


@pytest.mark.parametrize("reason", Reason)
def test_no_evidence_is_too_much_for_words(reason: Reason) -> None:
    told = describe_reason(reason.value, {**EVERYTHING, "permille_of_limit": {reason.value: 1_100}})
    assert told
    assert "{" not in told
    for hostile in (dict.fromkeys(EVERYTHING), dict.fromkeys(EVERYTHING, "x"), {"hits": True}):
        assert describe_reason(reason.value, hostile)


def test_what_is_no_code_has_no_words() -> None:
    assert [describe_reason(code) for code in ("999_of_the_future", "executed", "", None)] == [""] * 4


def test_an_exchange_says_which_half_comes_back() -> None:
    evidence = {"score": 9_000, "mean": 6_000, "swapped_with": "t/n/0x0_0x1"}
    leaves = {"reason": "102_above_mean", "source": "hot", "target": "cold", "evidence": evidence}
    before = {"hot": 0.9, "cold": 0.3}
    assert describe_decision_row({**leaves, "before": before}) == "at 90.0 % against 60.0 % on average"
    returns = {**leaves, "source": "cold", "target": "hot", "before": before}
    assert describe_decision_row(returns) == "in exchange for t/n/0x0_0x1"


def test_reasons_are_found_by_number_code_and_pulsars_name() -> None:
    numbers = [reason.value[:3] for reason in Reason]
    assert len(set(numbers)) == len(numbers)
    for reason in Reason:
        assert find_reason(reason.value) is find_reason(reason.value[:3]) is reason
    named = {told.value: find_reason(told.value) for enum in (UnloadReason, SplitReason) for told in enum}
    assert named.pop("Unknown") is None
    assert None not in named.values()
    assert named["HitCount"] is find_reason("hitcount") is Reason.HIT_COUNT
    assert [find_reason(name) for name in ("", "999", "41", "4120", "b1:8080", "t/n/0x0_0x1", "1790-0004")] == [
        None
    ] * 7


JUDGED = {"score": 4_090, "mean": 4_313, "limit": 4_985}  # the level is the mean of what brokers are judged by


@pytest.mark.parametrize(
    ("code", "evidence", "measured", "told"),
    [
        ("100_balanced", JUDGED, 0.409, "not hot: at 40.9 % against 43.1 % on average"),
        (
            "100_balanced", JUDGED, 0.649,
            "not hot: at 40.9 % against 43.1 % on average, by estimate; 64.9 % was measured",
        ),
        (
            "102_above_mean", {"score": 2_814, "mean": 703}, 0.2222,
            "at 28.1 % against 7.0 % on average, by estimate; 22.2 % was measured",
        ),
        ("412_external_load", JUDGED, 0.649, "at 40.9 %, most of it not from its bundles, by estimate; 64.9 "
                                             "% was measured"),
        ("102_above_mean", {**JUDGED, "gap_points": 20.0, "partner": "b2"}, 0.649, "20.0 points above b2"),
        ("413_slow_broker", {**JUDGED, "cost_permille": None}, 0.649, "slower than the others"),
        ("100_balanced", {}, 0.649, "not hot"),
        ("100_balanced", JUDGED, None, "not hot: at 40.9 % against 43.1 % on average"),
        ("999_of_the_future", JUDGED, 0.649, ""),
    ],
)  # fmt: skip
def test_a_score_is_told_with_the_mean_it_was_judged_by_and_beside_it_what_was_measured(
    code: str, evidence: dict[str, object], measured: float | None, told: str
) -> None:
    assert describe_score(code, evidence, measured) == told


def test_a_broker_that_was_to_get_bundles_was_judged_with_them() -> None:
    told = "not hot: at 40.9 % against 43.1 % on average, by estimate, with what it was to get; 0.0 % was "
    assert describe_score("100_balanced", JUDGED, 0.0, receives=True) == told + "measured"
