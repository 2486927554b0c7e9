"""A controller whose rounds may make one move by themselves: plans that wait for an operator.

driver = running()
decide(driver, move(driver, 0), move(driver, 1, "c:1"))
driver.command("approve", round=ROUND)
"""

from __future__ import annotations

from typing import Any

from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.ids import Bundle
from controller.domain.state import JOURNAL
from tests.unit.control.step_driver import StepDriver, with_settings

ROUND = "r10000000"


def running(mode: str = "live", **settings: Any) -> StepDriver:
    """Three brokers; the first one owns the four bundles. A round may make one move by itself."""
    driver = StepDriver(with_settings(**{"approve_above": 1, **settings}), mode=mode)
    for broker in ("a:1", "b:1", "c:1"):
        driver.join(broker, authority=JOURNAL)
    driver.command("create_namespace", namespace="t/n", bundles=4)
    for bundle in driver.state.namespaces["t/n"]:
        driver.own(driver.sessions["a:1"], bundle)
    return driver


def bundles(driver: StepDriver) -> tuple[Bundle, ...]:
    return driver.state.namespaces["t/n"]


def move(driver: StepDriver, at: int, target: str = "b:1", reason: Reason = Reason.ABOVE_MEAN, **more: Any) -> Decision:
    bundle = bundles(driver)[at]
    epoch = driver.of(bundle).epoch
    return Decision(
        f"d{at}", DecisionKind.TRANSFER, Label.SUCCESS, reason, str(bundle), "a:1", target, epoch, strategy="s", **more
    )


def decide(driver: StepDriver, *decisions: Decision, at_ms: int = 10_000_000, score: float = 0.5) -> list[str]:
    """The outcomes of a round with these decisions, in which the first broker has this score."""
    scores = ({"broker": "a:1", "score": score},)
    driver.round(RoundResult(f"r{at_ms}", at_ms, driver.state.seq, "s", decisions, scores, {}, "hash"))
    return [driver.evidence[-1].outcomes[one.id] for one in decisions]
