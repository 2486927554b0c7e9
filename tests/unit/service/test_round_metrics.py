"""What a journaled round leaves in the metrics, under Ballast's names and under Pulsar's."""

from __future__ import annotations

import math
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.control.context import Evidence
from controller.domain.decision import EXECUTED, Decision, DecisionKind, Label, Reason, RoundResult
from controller.policy.usage.judged import FULL_END, Judged
from controller.process import metrics as process_metrics
from controller.process.metrics import BrokerGauge, exposition
from controller.pulsar.reasons import SplitReason, UnloadReason
from controller.service.metrics import ControlMetrics
from controller.service.rounds import metrics as round_metrics
from controller.service.rounds.metrics import RoundMetrics
from controller.service.rounds.pulsar_metrics import SPLIT_REASONS, unload_reason
from tests.unit.control.plan_driver import ROUND, bundles, decide, move, running


def decision(number: int, kind: DecisionKind, reason: Reason, source: str = "a:1") -> Decision:
    return Decision(f"r-{number}", kind, Label.SUCCESS, reason, bundle=f"t/n/{number}", source=source, target="b:1")


def scored(**scores: float | None) -> tuple[dict[str, Any], ...]:
    return tuple({"broker": f"{name}:1", "score": score, "eligible": True} for name, score in scores.items())


def evidence(
    decisions: tuple[Decision, ...], outcomes: dict[str, str], scores: tuple[dict[str, Any], ...], **more: Any
) -> Evidence:
    result = RoundResult("r", 1, 1, "headroom", decisions, scores, {}, "h", **more)
    return Evidence(result, outcomes, "attempt", "live")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def rounds(registry: CollectorRegistry) -> RoundMetrics:
    return RoundMetrics(registry)


def shown(registry: CollectorRegistry, prefix: str) -> dict[str, float]:
    """Series without those of creation times, by name and labels."""
    lines = (line for line in exposition(registry).decode().splitlines() if not line.startswith("#"))
    values = (line.rpartition(" ") for line in lines if line.startswith(prefix) and "_created" not in line)
    return {name: float(value) for name, _, value in values}


@pytest.mark.covers("metrics", "decision-breakdown")
def test_moves_splits_and_skips_are_counted_by_reason(registry: CollectorRegistry, rounds: RoundMetrics) -> None:
    decisions = (
        decision(0, DecisionKind.TRANSFER, Reason.OVERLOADED),
        decision(1, DecisionKind.TRANSFER, Reason.OVERLOADED),
        decision(2, DecisionKind.UNLOAD, Reason.ABOVE_MEAN, source="c:1"),
        decision(3, DecisionKind.SPLIT, Reason.SPLIT_TOPICS),
        decision(4, DecisionKind.SKIP, Reason.BALANCED, source="b:1"),
        decision(5, DecisionKind.TRANSFER, Reason.OVERLOADED, source="d:1"),
    )
    outcomes = {f"r-{number}": EXECUTED for number in range(4)} | {"r-5": Reason.GRACE_PERIOD.value}
    for _ in range(2):
        rounds.count_round(evidence(decisions, outcomes, scored(a=0.8, b=0.4, c=None)))
    assert shown(registry, "ballast_round_") == {
        'ballast_round_moves_total{reason="101_overloaded"}': 4,
        'ballast_round_moves_total{reason="102_above_mean"}': 2,
        'ballast_round_splits_total{reason="110_split_topics"}': 2,
        'ballast_round_refused_total{outcome="201_grace_period"}': 2,
        'ballast_round_skips_total{reason="100_balanced"}': 2,
    }
    assert shown(registry, "ballast_balance_score") == {"ballast_balance_score": 75.0}
    assert shown(registry, "ballast_broker_score") == {
        'ballast_broker_score{broker="a:1"}': 0.8,
        'ballast_broker_score{broker="b:1"}': 0.4,
    }
    unloading, success = 'metric="bundleUnloading"', 'result="Success"'
    names = shown(registry, "pulsar_lb_")
    assert names == pytest.approx(
        {
            f"pulsar_lb_unload_bundle_total{{{unloading}}}": 6,
            f"pulsar_lb_unload_broker_total{{{unloading}}}": 4,
            f'pulsar_lb_unload_broker_breakdown_total{{{unloading},reason="Overloaded",{success}}}': 2,
            f'pulsar_lb_unload_broker_breakdown_total{{{unloading},reason="Unknown",{success}}}': 2,
            'pulsar_lb_bundles_split_total{metric="bundlesSplit"}': 2,
            f'pulsar_lb_bundles_split_breakdown_total{{metric="bundlesSplit",reason="Topics",{success}}}': 2,
            f'pulsar_lb_resource_usage_stats{{feature="max_ema",{unloading},stat="avg"}}': 0.6,
            f'pulsar_lb_resource_usage_stats{{feature="max_ema",{unloading},stat="std"}}': 0.2,
        }
    )


def test_challengers_change_nothing(registry: CollectorRegistry, rounds: RoundMetrics) -> None:
    before = exposition(registry)
    moved = decision(0, DecisionKind.TRANSFER, Reason.OVERLOADED)
    rounds.count_round(evidence((moved,), {"r-0": "challenger"}, scored(a=0.8), challenger=True))
    assert exposition(registry) == before


def test_moves_of_a_plan_count_once_as_waiting_and_like_a_round_s_once_they_are_approved(
    registry: CollectorRegistry,
) -> None:
    metrics, driver = ControlMetrics(registry), running()
    waits = Reason.AWAITING_APPROVAL.value
    for at_ms in (10_000_000, 10_060_000, 10_120_000):  # the plan waits, later rounds stand behind it
        assert decide(driver, move(driver, 0), move(driver, 1), at_ms=at_ms) == [waits] * 2
        metrics.rounds.count_round(driver.evidence[-1])
    assert shown(registry, "ballast_round_refused_total") == {f'ballast_round_refused_total{{outcome="{waits}"}}': 2}
    driver.command("unload_bundle", bundle=str(bundles(driver)[1]), to="c:1")
    driver.command("approve", round=ROUND)
    assert driver.decided is not None
    metrics.count_placed(driver.decided)
    metrics.rounds.count_approved(driver.decided)
    assert shown(registry, "ballast_placements_total") == {}
    assert shown(registry, "ballast_round_moves_total") == {'ballast_round_moves_total{reason="102_above_mean"}': 1}
    assert shown(registry, "ballast_round_refused_total") == {
        f'ballast_round_refused_total{{outcome="{waits}"}}': 2,
        'ballast_round_refused_total{outcome="408_state_has_moved_on"}': 1,
    }
    assert registry.get_sample_value("pulsar_lb_unload_bundle_total", {"metric": "bundleUnloading"}) == 1


def test_moves_of_a_declined_plan_count_once_however_many_rounds_want_them_again(registry: CollectorRegistry) -> None:
    metrics, driver = ControlMetrics(registry), running()
    refused = "ballast_round_refused_total"
    waits, declined = Reason.AWAITING_APPROVAL.value, Reason.PLAN_DECLINED.value
    decide(driver, move(driver, 0), move(driver, 1))
    metrics.rounds.count_round(driver.evidence[-1])
    metrics.count_committed(driver.command("decline", round=ROUND))
    for at_ms in (10_060_000, 10_120_000):
        assert decide(driver, move(driver, 0), move(driver, 1), at_ms=at_ms) == [declined] * 2
        metrics.rounds.count_round(driver.evidence[-1])
    assert shown(registry, refused) == {f'{refused}{{outcome="{of}"}}': 2 for of in (waits, declined)}
    assert shown(registry, "ballast_round_moves_total") == {}


def test_a_score_of_nothing_is_no_number(registry: CollectorRegistry, rounds: RoundMetrics) -> None:
    assert math.isnan(shown(registry, "ballast_balance_score")["ballast_balance_score"])
    rounds.count_round(evidence((), {}, scored(a=0.5)))
    rounds.count_round(evidence((), {}, scored(a=None)))
    assert math.isnan(shown(registry, "ballast_balance_score")["ballast_balance_score"])
    assert shown(registry, "ballast_broker_score") == {}, "a broker that is gone is shown no longer"


def end(predicted: float, realised: float | None, half_width: float = 0.05, why_not: str = "") -> Judged:
    return Judged(0, "a:1", 1, predicted, half_width, realised, why_not)


def test_reliefs_are_those_of_the_newest_sources(
    registry: CollectorRegistry, rounds: RoundMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds.count_judged([end(-0.1, -0.08), end(0.1, 0.3), end(-0.3, None, why_not=FULL_END), end(-0.2, -0.1)])
    results = {"inside": 1, "outside": 2, "at_its_limit": 1}
    assert shown(registry, "ballast_moves_judged") == {
        f'ballast_moves_judged_total{{result="{name}"}}': count for name, count in results.items()
    }
    assert shown(registry, "ballast_moves_predicted")["ballast_moves_predicted_relief_ratio"] == pytest.approx(0.15)
    assert shown(registry, "ballast_moves_realised")["ballast_moves_realised_relief_ratio"] == pytest.approx(0.09)
    rounds.count_judged([end(-0.4, -0.4)] * round_metrics.JUDGED_KEPT)
    assert shown(registry, "ballast_moves_realised")["ballast_moves_realised_relief_ratio"] == pytest.approx(0.4)


def test_more_brokers_than_a_gauge_shows_are_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_metrics, "MOST_BROKERS", 2)
    registry = CollectorRegistry()
    BrokerGauge("score", "of a broker", registry).show({"a": 0.1, "b": 0.3, "c": 0.2})
    assert shown(registry, "score") == {'score{broker="b"}': 0.3, 'score{broker="c"}': 0.2}


def test_reasons_have_the_names_that_pulsar_gives_them() -> None:
    found = {reason: unload_reason(reason) for reason in Reason}
    assert found[Reason.OVERLOADED] is UnloadReason.OVERLOADED
    assert found[Reason.UNDERLOADED] is UnloadReason.UNDERLOADED
    assert found[Reason.MISPLACED] is UnloadReason.UNKNOWN
    assert set(SPLIT_REASONS.values()) == set(SplitReason) - {SplitReason.ADMIN, SplitReason.UNKNOWN}
