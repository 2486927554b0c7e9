"""Reports are read in bulk, whatever their size: the judge takes four times as much CPU for a bundle."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from controller.agent.reports.report import build_report
from controller.brokers.runtime import BundleStats, LoadSample
from controller.bus.producer import to_json
from controller.domain.ids import Session
from controller.domain.ring import initial_bundles
from controller.loads.columns import read

SESSION = Session("b1:8080", 1, "nonce", 1)


@pytest.mark.parametrize("topics", [[], ["persistent://t/ns/a", "persistent://t/ns/b"]])
@pytest.mark.parametrize(("bundles", "listed"), [(1, 1), (1_000, 100), (1_000, 1_000), (10_000, 10_000)])
def test_what_an_agent_writes_is_read_in_bulk(bundles: int, listed: int, topics: list[str]) -> None:
    stats = replace(BundleStats(msg_rate_in=1.0, throughput_in=9.0, topics=2), partitioned_topics=topics)
    sample = LoadSample({}, dict.fromkeys(initial_bundles("t/ns", bundles), stats))
    report = build_report(SESSION, 1, 2, sample, {}, top_k=listed)
    for value in (to_json(report), json.dumps(report).encode()):
        table, positions = read([value])
        assert positions == [0]
        assert [len(rows) for rows in table["bundles"].to_pylist()] == [listed]
