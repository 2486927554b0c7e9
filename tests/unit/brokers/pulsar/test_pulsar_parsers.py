"""Parsers of Pulsar's answers: recorded ones, and anything else that might come instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.brokers.pulsar.addresses import parse_brokers
from controller.brokers.pulsar.facts import Manager, parse_runtime_configuration
from controller.brokers.pulsar.observe import (
    exclude_namespaces,
    find_overlapping,
    parse_owned,
    parse_ring,
)
from controller.brokers.pulsar.outcomes import Answer, CallFailed, Outcome
from controller.brokers.pulsar.process_cpu import ProcessCpu, ProcessFigures, parse_mbeans
from controller.brokers.pulsar.reports import is_extensible, parse_load_report, parse_metrics
from controller.brokers.pulsar.topic_stats import parse
from controller.domain.ids import Bundle
from controller.process.paths import ROOT
from tests.unit.brokers.pulsar.stand_in import recorded

NOTHING = exclude_namespaces(())
DEFAULT = exclude_namespaces(("public/functions", "*/__kafka"))
OWNED = "t1/ns1/0xe0000000_0xf0000000"
PARSED = json.loads((ROOT / "tests" / "data" / "pulsar_parsed.json").read_text())


def answer(body: Any) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(Outcome.OK, "/path", "http://b:8080", 200, raw)


def test_what_a_recorded_broker_owns() -> None:
    owned = parse_owned(answer(recorded("modular_ownedNamespaces_b2")), NOTHING)
    assert sorted(map(str, owned)) == [
        "t1/ns1/0x70000000_0x80000000",
        "t1/ns1/0x80000000_0x90000000",
        "t1/ns1/0x90000000_0xa0000000",
        "t1/ns1/0xe0000000_0xf0000000",
    ]
    assert all(owned.values())


@pytest.mark.parametrize(
    "name",
    [
        "pulsar/system/0x00000000_0xffffffff",
        "pulsar/b-1.x:8080/0x00000000_0xffffffff",
        "pulsar/cluster/b:8080/0x00000000_0xffffffff",
        "sla-monitor/cluster/b:8080/0x00000000_0xffffffff",
        "tenant/cluster/ns/0x00000000_0xffffffff",
        "public/functions/0x00000000_0x40000000",
        "any/__kafka/0x00000000_0x40000000",
        "t/n/0x40000000_0x40000000",
        "t/n/topic",
    ],
)
def test_what_nobody_may_move_is_left_out(name: str) -> None:
    assert parse_owned(answer({name: {"is_active": True}, OWNED: {}}), DEFAULT) == {Bundle.parse(OWNED): True}


def test_the_recorded_ring() -> None:
    ring = parse_ring(answer(recorded("modular_ns_bundles")), "t1/ns1")
    assert len(ring) == 16
    assert (str(ring[0]), str(ring[-1])) == ("t1/ns1/0x00000000_0x10000000", "t1/ns1/0xf0000000_0xffffffff")


def test_overlapping_ranges_are_found() -> None:
    parts = ["a/a/0x00000000_0x40000000", "a/a/0x40000000_0x80000000", "b/b/0x00000000_0x80000000"]
    assert find_overlapping(map(Bundle.parse, parts)) == set()
    more = [*parts, "b/b/0x40000000_0x80000000", "c/c/0x00000000_0x40000000"]
    assert find_overlapping(map(Bundle.parse, more)) == {"b/b"}


def test_the_recorded_load_report_keeps_what_is_read() -> None:
    given_ = recorded("modular_load-report_b2")
    owned = parse_owned(answer(recorded("modular_ownedNamespaces_b2")), NOTHING)
    found = parse_load_report(answer(given_), owned, NOTHING)
    assert found.report["lastStats"].keys() == given_["lastStats"].keys() == {str(bundle) for bundle in owned}
    assert found.report["cpu"] == given_["cpu"]
    assert found.report["lastStats"][OWNED]["msgRateIn"] == given_["lastStats"][OWNED]["msgRateIn"]
    assert "pulsarServiceUrl" not in found.report
    assert not any(found.excluded.values())


def test_a_bundle_that_was_moved_away_is_not_counted_and_an_idle_one_is_there() -> None:
    idle = Bundle.parse("t1/ns1/0x00000000_0x10000000")
    found = parse_load_report(answer(recorded("modular_load-report_b2")), [Bundle.parse(OWNED), idle], NOTHING)
    assert set(found.report["lastStats"]) == {OWNED, str(idle)}
    assert found.report["lastStats"][str(idle)]["msgRateIn"] == 0


def test_the_load_of_excluded_bundles_is_summed_up() -> None:
    given_ = recorded("modular_load-report_b2")
    given_["lastStats"]["pulsar/system/0x00000000_0xffffffff"] = {"msgRateIn": 5.0, "topics": 2}
    found = parse_load_report(answer(given_), [Bundle.parse(OWNED)], NOTHING)
    assert (found.excluded["msgRateIn"], found.excluded["topics"]) == (5.0, 2.0)


def test_a_report_of_another_load_manager_is_a_bad_answer() -> None:
    with pytest.raises(CallFailed, match="LoadReport"):
        parse_load_report(answer({"loadReportType": "LoadReport", "lastStats": {}, "cpu": {}}), [], NOTHING)


def test_the_extensible_manager_is_known_by_its_refusal() -> None:
    refusal = Answer(Outcome.SERVER_ERROR, "/", "", 500, detail="java.lang.UnsupportedOperationException")
    assert is_extensible(refusal)
    assert not is_extensible(Answer(Outcome.SERVER_ERROR, "/", "", 500, detail="java.lang.NullPointerException"))


def test_usages_of_the_extensible_manager_an_exact_zero_is_unknown() -> None:
    process = ProcessFigures(10.0, 4.0, 7)
    figures = {
        "brk_lb_cpu_usage": 30.0,
        "brk_lb_bandwidth_in_usage": 0.0,
        "jvm_heap_used": 1 << 20,
        "jvm_max_memory": 1 << 22,
    }
    rows = [{"metrics": figures, "dimensions": {}}]
    topics = parse(json.dumps(recorded("extensible_topics_b2")).encode())
    found = parse_metrics(answer(rows), process, [Bundle.parse(OWNED)], topics, NOTHING, 5).report
    assert found["cpu"] == {"usage": 120.0, "limit": 400.0}
    assert found["memory"] == {"usage": 1.0, "limit": 4.0}
    assert found["bandwidthIn"]["limit"] < 0
    assert found["directMemory"] == {"usage": -1.0, "limit": -1.0}
    assert found["msgRateIn"] == found["lastStats"][OWNED]["msgRateIn"] == topics[OWNED]["msgRateIn"]
    idle = [{"metrics": {"brk_lb_cpu_usage": 0.0}}]
    assert parse_metrics(answer(idle), process, [], {}, NOTHING, 5).report["cpu"]["limit"] < 0


def test_recorded_figures_of_the_extensible_manager() -> None:
    process = parse_mbeans(answer(recorded("extensible_mbeans_b1")))
    assert process == ProcessFigures(13.4, 2.0, 1_795_352_899_737)
    found = parse_metrics(answer(recorded("extensible_metrics_b1")), process, [], {}, NOTHING, 5).report
    assert found["memory"]["limit"] == 494.9375
    assert found["cpu"]["usage"] / found["cpu"]["limit"] == pytest.approx(0.0018698261 / 100)
    assert found["bandwidthOut"]["limit"] < 0


def test_cpu_of_the_process_needs_two_readings_of_one_process() -> None:
    cpu, unknown = ProcessCpu(), {"usage": -1.0, "limit": -1.0}
    assert cpu.usage("b", ProcessFigures(10.0, 2.0, 1), 100.0) == unknown
    assert cpu.usage("b", ProcessFigures(13.0, 2.0, 1), 110.0) == {"usage": 30.0, "limit": 200.0}
    assert cpu.usage("b", ProcessFigures(1.0, 2.0, 2), 120.0) == unknown
    assert cpu.usage("b", ProcessFigures(0.5, 2.0, 2), 130.0) == unknown
    assert cpu.usage("b", ProcessFigures(99.5, 2.0, 2), 131.0) == {"usage": 200.0, "limit": 200.0}


def test_of_the_runtime_configuration_only_named_keys_are_kept() -> None:
    values = {"clusterName": "c", "tlsKeyStorePassword": "hunter2", "statsUpdateFrequencyInSecs": "5"}
    values |= {"loadManagerClassName": "x.y.ExtensibleLoadManagerImpl", "loadBalancerSheddingEnabled": "true"}
    found = parse_runtime_configuration(answer(values))
    assert "hunter2" not in repr(found)
    assert (found.manager, found.stats_period_s) == (Manager.EXTENSIBLE, 5.0)
    assert found.balances_itself == ("loadBalancerSheddingEnabled",)
    off = parse_runtime_configuration(answer(values | {"loadBalancerEnabled": "false"}))
    assert off.balances_itself == ()


def test_recorded_answers_read_as_they_did_with_a_plain_parser() -> None:
    owned = parse_owned(answer(recorded("modular_ownedNamespaces_b2")), DEFAULT)
    assert {str(bundle): active for bundle, active in owned.items()} == PARSED["modular_ownedNamespaces_b2"]
    process = parse_mbeans(answer(recorded("extensible_mbeans_b1")))
    assert list(process) == PARSED["extensible_mbeans_b1"]
    modular = parse_load_report(answer(recorded("modular_load-report_b2")), owned, DEFAULT)
    topics = parse(json.dumps(recorded("extensible_topics_b2")).encode())
    extensible = parse_metrics(answer(recorded("extensible_metrics_b1")), process, owned, topics, DEFAULT, 5)
    assert asdict(modular) == PARSED["modular_load-report_b2"]
    assert asdict(extensible) == PARSED["extensible_metrics_b1"]


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(1e308) | st.just(-1)
NAMES = st.sampled_from(
    ["cpu", "usage", "limit", "lastStats", "loadReportType", "boundaries", OWNED, "metrics", "dimensions", "MBean",
     "java.lang:type=OperatingSystem", "ProcessCpuTime", "AvailableProcessors", "brk_lb_cpu_usage", "msgRateIn",
     "t1/ns1", "0xe0000000_0xf0000000", "persistent", "subscriptions", "consumers", "publishers", "topics",
     "statsUpdateFrequencyInSecs", "LocalBrokerData", "is_active"]
) | st.text(max_size=5)  # fmt: skip
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
PARSERS: tuple[Callable[[Answer], Any], ...] = (
    parse_brokers,
    lambda found: parse_owned(found, DEFAULT),
    lambda found: parse_ring(found, "t/n"),
    lambda found: parse_load_report(found, [Bundle.parse(OWNED)], DEFAULT),
    lambda found: parse_metrics(found, None, [Bundle.parse(OWNED)], {}, DEFAULT, 1),
    parse_mbeans,
    lambda found: parse_runtime_configuration(found).stats_period_s,
)
RECORDED = tuple(
    json.dumps(recorded(name)).encode()
    for name in (
        "modular_brokers",
        "modular_ownedNamespaces_b2",
        "modular_ns_bundles",
        "modular_load-report_b2",
        "extensible_mbeans_b1",
        "extensible_metrics_b1",
    )
)


def check_answers(body: bytes) -> None:
    """Every parser either understands a body, in numbers that can be used, or says what it is not."""
    for read in PARSERS:
        with suppress(CallFailed):
            found = read(answer(body))
            if hasattr(found, "report"):
                json.dumps(found.report, allow_nan=False)


@settings(max_examples=80, deadline=None)
@given(JSON)
def test_any_json_is_understood_or_refused(document: Any) -> None:
    check_answers(json.dumps(document).encode())


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(RECORDED), st.data())
def test_a_recorded_answer_that_is_cut_or_changed(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body)))
    other = data.draw(st.binary(max_size=4) | st.sampled_from([b"NaN", b"1e999", b"null", b"[", b"}"]))
    check_answers(body[:at])
    check_answers(body[:at] + other + body[at + len(other) :])


def test_nesting_without_end_is_refused() -> None:
    check_answers(b"[" * 200_000)
    check_answers(b'{"a":' * 200_000)
