"""Queue time and metadata latency on their way into a round: quantised, stored only for a strategy that reads them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from benchmarks.published.clusters import ClusterBuilder, loads
from controller.domain.load import UNKNOWN
from controller.policy.round import replay_round, run_round
from controller.policy.view.frame import Frame
from controller.policy.view.tabulate import tabulate


def told(**latencies: list[float]) -> tuple[ClusterBuilder, Frame]:
    built = loads(90, 10).silent("quiet")
    brokers, bundles = built.columns()
    columns = {**brokers, **{name: np.array(values) for name, values in latencies.items()}}
    return built, tabulate(built.state, columns, bundles, built.at_ms)


def test_they_are_microseconds_and_unknown_where_nobody_says_anything() -> None:
    _, frame = told(rpc_queue_ms=[1.25, np.nan], metadata_latency_ms=[0.0004, 3.0])
    assert frame.latencies is not None
    assert frame.latencies.tolist() == [[1250, 0], [UNKNOWN, 3000], [UNKNOWN, UNKNOWN]]
    again = Frame.from_json(json.loads(json.dumps(frame.to_json())))
    assert again.latencies is not None
    assert again.latencies.tolist() == frame.latencies.tolist()
    assert again.to_json() == frame.to_json()
    kept = frame.select(np.zeros(len(frame.bundles), bool)).latencies
    assert kept is not None
    assert kept.tolist() == frame.latencies.tolist()


def test_a_table_without_them_gives_the_frame_that_it_always_gave() -> None:
    _, frame = told()
    assert frame.latencies is None
    assert "latencies_us" not in frame.to_json()
    assert Frame.from_json(frame.to_json()).latencies is None


def test_a_round_of_a_strategy_that_does_not_read_them_stores_none_and_hashes_as_before() -> None:
    built = loads(90, 10)
    bare = built.inputs()
    latencies = {"rpc_queue_ms": np.array([5.0, 1.0]), "metadata_latency_ms": np.array([1.0, 1.0])}
    with_them = replace(bare, brokers={**bare.brokers, **latencies})
    assert run_round(with_them).plan_hash == run_round(bare).plan_hash
    assert "latencies_us" not in run_round(with_them).inputs["frame"]
    assert replay_round(run_round(with_them).inputs) == run_round(bare).plan_hash
