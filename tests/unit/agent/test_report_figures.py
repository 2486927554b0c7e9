"""What of a runtime's sample is reported: the controller takes it, and the log names what was left out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from controller.agent.metrics import AgentMetrics
from controller.agent.reports.figures import keep_reportable
from controller.agent.reports.report import build_report
from controller.agent.reports.reporter import Reporter
from controller.brokers.memory.fences import MemoryFences
from controller.brokers.memory.runtime import MemoryRuntime
from controller.brokers.runtime import BundleStats, LoadSample
from controller.loads.judge import judge
from controller.loads.rules import ReportLimits
from controller.loads.settings import LoadsSettings
from tests.unit.agent.test_agent_report import ME, WHOLE
from tests.unit.agent.test_agent_report import _sample as sample_of
from tests.unit.agent.test_agent_report import _Sent as Sent

LIMITS = ReportLimits.of(LoadsSettings())
BAD: list[tuple[object, str]] = [
    ("12", "'12'"), (-5, "-5"), (float("nan"), "nan"), (float("inf"), "inf"), (None, "None"), (True, "True"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), BAD)
def test_a_figure_that_no_controller_takes_is_left_out_and_named(value: Any, text: str) -> None:
    sample = sample_of([5.0, 7.0])
    first, second = sample.bundles
    sample.bundles[second].msg_rate_in = value
    sample.rpc_queue_ms = value
    sample.resources["memory"] = (value, 100.0)
    kept, troubles = keep_reportable(sample)
    assert sorted(troubles) == ["memory", "msg_rate_in", "rpc_queue_ms"]
    assert all(text in said for said in troubles.values())
    assert str(second) in troubles["msg_rate_in"]
    report = build_report(ME, 1, 10, kept, kept.resources, 5)
    assert report["resources"]["memory"] == {"usage": -1.0, "limit": -1.0}
    assert [row["msg_rate_in"] for row in report["bundles"]] == [5.0, 0]
    assert kept.bundles[first] is sample.bundles[first]
    assert [kept.bundles[second].throughput_in, kept.resources["cpu"]] == [70.0, (30.0, 200.0)]
    verdict = judge(raw := json.dumps(report).encode(), len(raw), ME.broker.encode(), 10, LIMITS)
    assert (verdict.rule, verdict.detail) == (None, "")


@pytest.mark.parametrize("pair", [12.0, "12", (1.0,), (1.0, 2.0, 3.0), (1.0, None)])
def test_a_resource_that_is_no_pair_of_numbers_is_left_out(pair: Any) -> None:
    kept, troubles = keep_reportable(LoadSample({"cpu": pair}, {}))
    assert (kept.resources, list(troubles)) == ({}, ["cpu"])
    assert "cpu is " in troubles["cpu"]


def test_a_resource_that_nobody_knows_is_named_with_those_that_are_known() -> None:
    kept, troubles = keep_reportable(LoadSample({"gpu": (1.0, 2.0)}, {}))
    assert (kept.resources, list(troubles)) == ({}, ["gpu"])
    assert "'gpu' is none of cpu, memory" in troubles["gpu"]


@pytest.mark.parametrize("pair", [(-1.0, -1.0), (0.0, -1000.0), (3, 0)])
def test_an_unknown_limit_is_no_trouble(pair: tuple[float, float]) -> None:
    sample = LoadSample({"cpu": pair}, {})
    assert keep_reportable(sample) == (sample, {})


def test_what_is_left_out_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> list[Any]:
        runtime, sent = MemoryRuntime(MemoryFences()), Sent()
        await runtime.serve(WHOLE, 1)
        runtime.loads[WHOLE] = BundleStats(msg_rate_in=-5, topics=4)
        runtime.resources = {"gpu": (1.0, 2.0)}
        reporter = Reporter(runtime, sent, "load-reports", top_k=5, wall_ms=lambda: 9, metrics=AgentMetrics())
        for _ in range(3):
            await reporter.report(ME)
        return sent.records

    assert [row["msg_rate_in"] for record in asyncio.run(scenario()) for row in record["bundles"]] == [0, 0, 0]
    said = sorted(record.getMessage() for record in caplog.records)
    assert [text.partition(": ")[2].split()[:2] for text in said] == [["msg_rate_in", "of"], ["resource", "'gpu'"]]
