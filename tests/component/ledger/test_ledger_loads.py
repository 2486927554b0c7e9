"""Partial panes merged into short averages, against a naive computation; and how far the loads query has come."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.ledger.append import append, append_rows
from controller.ledger.loads import LoadsProgressWatch, average_brokers, average_bundles, loads_progress, read_panes
from controller.ledger.tables import TableRoot
from schemas.arrow import arrow_table
from schemas.load_tables import BROKER_PANES, BUNDLE_PANES
from tests.examples import examples

PANE_MS, AT_MS = 10_000, 1_000_000
LATENCIES = ("rpc_queue_ms", "metadata_latency_ms")

numbers = st.integers(0, 1000).map(float)
broker_reports = st.fixed_dictionaries(
    {
        "broker": st.sampled_from(["a:1", "b:1"]),
        "incarnation": st.integers(1, 2),
        "event_ms": st.integers(AT_MS - 60_000, AT_MS + 20_000),
        "sequence": st.integers(0, 50),
        "usage": st.dictionaries(st.sampled_from(RESOURCES), st.tuples(numbers, st.sampled_from([50.0, 200.0]))),
        "values": st.lists(numbers, min_size=len(BUNDLE_FIELDS) + 3, max_size=len(BUNDLE_FIELDS) + 3),
        "batch": st.integers(0, 3),
    }
)
bundle_reports = st.fixed_dictionaries(
    {
        "bundle": st.sampled_from(["t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff", "tail"]),
        "broker": st.sampled_from(["a:1", "b:1", "c:1"]),
        "pane_end_ms": st.sampled_from([AT_MS - 20_000, AT_MS - 10_000, AT_MS]),
        "values": st.lists(numbers, min_size=len(BUNDLE_FIELDS), max_size=len(BUNDLE_FIELDS)),
        "batch": st.integers(0, 3),
    }
)


def pane_end(event_ms: int) -> int:
    return event_ms // PANE_MS * PANE_MS + PANE_MS


def broker_partials(reports: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One partial a (pane, broker, incarnation, batch), as the loads query writes them."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for r in reports:
        groups[pane_end(r["event_ms"]), r["broker"], r["incarnation"], r["batch"]].append(r)
    return [_broker_partial(key, group) for key, group in groups.items()]


def _broker_partial(key: tuple[Any, ...], group: list[dict[str, Any]]) -> dict[str, Any]:
    end, broker, incarnation, batch = key
    row: dict[str, Any] = {
        "pane_end_ms": end, "broker": broker, "incarnation": incarnation, "reports": len(group),
        "last_sequence": max(r["sequence"] for r in group),
        "first_event_ms": min(r["event_ms"] for r in group), "last_event_ms": max(r["event_ms"] for r in group),
        "writer": "w", "batch_id": batch,
    }  # fmt: skip
    for name in RESOURCES:
        known = [r["usage"][name] for r in group if name in r["usage"]]
        row[f"{name}_usage_sum"] = sum(u for u, _ in known)
        row[f"{name}_usage_max"] = max((u for u, _ in known), default=0.0)
        row[f"{name}_limit_sum"] = sum(limit for _, limit in known)
        row[f"{name}_known"] = len(known)
    for at, name in enumerate((*BUNDLE_FIELDS, *LATENCIES, "bundles")):
        row[f"{name}_sum"] = sum(r["values"][at] for r in group)
        row[f"{name}_max"] = max(r["values"][at] for r in group)
    return row


def bundle_partials(reports: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[list[float]]] = defaultdict(list)
    for r in reports:
        groups[r["pane_end_ms"], r["bundle"], r["broker"], r["batch"]].append(r["values"])
    rows = []
    for (end, bundle, broker, batch), group in groups.items():
        row: dict[str, Any] = {"pane_end_ms": end, "bundle": bundle, "broker": broker, "reports": len(group)}
        row |= {"namespace": "" if bundle == "tail" else "t/n", "writer": "w", "batch_id": batch}
        for at, name in enumerate(BUNDLE_FIELDS):
            row[f"{name}_sum"] = sum(values[at] for values in group)
            row[f"{name}_max"] = max(values[at] for values in group)
        rows.append(row)
    return rows


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


@pytest.mark.covers("report-memory", "report-transport")
@given(st.lists(broker_reports, max_size=16))
@settings(max_examples=examples(25))
def test_broker_averages_are_those_of_the_reports(reports: list[dict[str, Any]]) -> None:
    merged = average_brokers(arrow_table(BROKER_PANES, broker_partials(reports))).to_pylist()
    groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for r in reports:
        groups[r["broker"], r["incarnation"]].append(r)
    assert [(row["broker"], row["incarnation"]) for row in merged] == sorted(groups)
    for row in merged:
        group = groups[row["broker"], row["incarnation"]]
        assert row["reports"] == len(group)
        assert row["last_event_ms"] == max(r["event_ms"] for r in group)
        assert row["first_event_ms"] == min(r["event_ms"] for r in group)
        assert row["last_sequence"] == max(r["sequence"] for r in group)
        for name in RESOURCES:
            usage = mean([r["usage"][name][0] for r in group if name in r["usage"]])
            limit = mean([r["usage"][name][1] for r in group if name in r["usage"]])
            assert row[f"{name}_usage"] == pytest.approx(usage)
            assert row[f"{name}_limit"] == pytest.approx(limit)
            utilisation = None if usage is None or limit is None else usage / limit
            assert row[f"{name}_utilisation"] == pytest.approx(utilisation)
        for at, name in enumerate((*BUNDLE_FIELDS, *LATENCIES, "bundles")):
            assert row[name] == pytest.approx(mean([r["values"][at] for r in group]))


@given(st.lists(bundle_reports, max_size=16))
@settings(max_examples=examples(25))
def test_bundle_averages_are_those_of_each_broker_that_reported_it(reports: list[dict[str, Any]]) -> None:
    merged = average_bundles(arrow_table(BUNDLE_PANES, bundle_partials(reports))).to_pylist()
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for r in reports:
        groups[r["bundle"], r["broker"]].append(r)
    assert [(row["bundle"], row["broker"]) for row in merged] == sorted(groups)
    for row in merged:
        group = groups[row["bundle"], row["broker"]]
        assert row["namespace"] == ("" if row["bundle"] == "tail" else "t/n")
        assert row["reports"] == len(group)
        for at, name in enumerate(BUNDLE_FIELDS):
            assert row[name] == pytest.approx(mean([r["values"][at] for r in group]))


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    tables = TableRoot(tmp_path / "tables")
    tables.create_all()
    return tables


def report(event_ms: int, broker: str = "a:1", batch: int = 0, value: float = 1.0) -> dict[str, Any]:
    values = [value] * (len(BUNDLE_FIELDS) + 3)
    usage = {"cpu": (value, 100.0)}
    return {
        "broker": broker, "incarnation": 1, "event_ms": event_ms, "sequence": batch, "usage": usage,
        "values": values, "batch": batch,
    }  # fmt: skip


def write(root: TableRoot, reports: list[dict[str, Any]], batch: int, metadata: dict[str, str] | None = None) -> bool:
    bundles = [
        {
            "bundle": f"t/n/0x00000000_0x{i + 1:08x}",
            "broker": r["broker"],
            "pane_end_ms": pane_end(r["event_ms"]),
            "values": r["values"][: len(BUNDLE_FIELDS)],
            "batch": batch,
        }
        for i, r in enumerate(reports)
    ]
    append(root, "bundle_panes", arrow_table(BUNDLE_PANES, bundle_partials(bundles)), "w:bundle_panes", batch)
    panes = arrow_table(BROKER_PANES, broker_partials(reports))
    return append(root, "broker_panes", panes, "w:broker_panes", batch, metadata)


@pytest.mark.covers("rolling-average")
def test_only_panes_that_end_in_the_window_count(root: TableRoot) -> None:
    for batch, event_ms in enumerate(range(AT_MS - 80_000, AT_MS + 30_000, 5_000)):
        write(root, [report(event_ms, batch=batch, value=float(batch))], batch)
    panes = read_panes(root, AT_MS, 20_000)
    inside = [
        float(batch)
        for batch, event_ms in enumerate(range(AT_MS - 80_000, AT_MS + 30_000, 5_000))
        if AT_MS - 20_000 < pane_end(event_ms) <= AT_MS
    ]
    assert len(inside) == 4
    assert panes.brokers["reports"].tolist() == [4]
    assert panes.brokers["cpu_usage"].tolist() == [mean(inside)]
    assert panes.bundles["msg_rate_in"].tolist() == [mean(inside)]
    assert math.isnan(panes.brokers["memory_usage"][0]), "an unknown resource is NaN for numpy"


def test_a_limit_that_has_changed_is_the_new_one(root: TableRoot) -> None:
    """By a mean of both, the broker that told the smaller one last would have had room for what others carry."""
    reports = [report(AT_MS - ago_ms, broker, value=20.0) for broker in ("a:1", "b:1") for ago_ms in (25_000, 5_000)]
    reports[1]["usage"] = {"cpu": (20.0, 25.0)}  # a:1, in the newest pane
    reports[3]["usage"] = {}  # b:1 does not say
    write(root, reports, 0)
    panes = read_panes(root, AT_MS, 60_000)
    assert panes.brokers["broker"].tolist() == ["a:1", "b:1"]
    assert panes.brokers["cpu_usage"].tolist() == [20.0, 20.0]
    assert panes.brokers["cpu_limit"].tolist() == [25.0, 100.0]
    assert panes.brokers["cpu_utilisation"].tolist() == [0.8, 0.2]
    assert panes.brokers["reports"].tolist() == [2, 2]


def test_a_file_outside_the_window_is_not_read(root: TableRoot) -> None:
    write(root, [report(AT_MS - 500_000)], 0)
    old = [Path(root.uri(n)) / a for n in ("broker_panes", "bundle_panes") for a in _paths(root, n)]
    write(root, [report(AT_MS - 5_000)], 1)
    for path in old:
        path.write_bytes(b"not parquet")
    assert read_panes(root, AT_MS, 60_000).brokers["reports"].tolist() == [1]


def _paths(root: TableRoot, name: str) -> list[str]:
    return list(pa.table(root.open(name).get_add_actions(flatten=True))["path"].to_pylist())


@pytest.mark.covers("reports-to-everybody", "leader-sees-all")
def test_pinned_versions_read_the_same_rows_again(root: TableRoot) -> None:
    write(root, [report(AT_MS - 5_000, value=1.0)], 0)
    first = read_panes(root, AT_MS, 60_000)
    write(root, [report(AT_MS - 4_000, value=9.0)], 1)
    assert read_panes(root, AT_MS, 60_000).brokers["cpu_usage"].tolist() == [5.0]
    again = read_panes(root, AT_MS, 60_000, first.versions)
    assert again.brokers["cpu_usage"].tolist() == [1.0]
    assert again.versions == first.versions


def test_no_panes_gives_empty_columns(root: TableRoot) -> None:
    panes = read_panes(root, AT_MS, 60_000)
    assert len(panes.brokers["broker"]) == 0
    assert {"cpu_usage", "cpu_limit", "last_event_ms", "bundles", *BUNDLE_FIELDS} <= set(panes.brokers)
    assert {"bundle", "broker", "namespace", "reports", *BUNDLE_FIELDS} == set(panes.bundles)


# -- progress --


def test_progress_is_none_before_the_first_report(root: TableRoot, tmp_path: Path) -> None:
    assert loads_progress(root) is None
    assert loads_progress(tmp_path / "none") is None


def test_progress_follows_the_commits(root: TableRoot) -> None:
    watch = LoadsProgressWatch(root)
    assert watch.poll() is None
    write(root, [report(AT_MS), report(AT_MS + 700)], 0)
    assert watch.poll() == (AT_MS, AT_MS + 700)
    write(root, [report(AT_MS + 900)], 1, {"ballast.max_event_ms": str(AT_MS + 950)})
    assert watch.poll() == (AT_MS, AT_MS + 950)
    root.open("broker_panes").optimize.compact()
    assert watch.poll() == (AT_MS, AT_MS + 950)
    write(root, [report(AT_MS - 50)], 2)
    assert watch.poll() == (AT_MS - 50, AT_MS + 950)
    assert loads_progress(root) == (AT_MS - 50, AT_MS + 900), "a fresh look takes it from the files"


@pytest.mark.parametrize("key", ["max_event_ms", "ballast.max_event_ms"])
def test_progress_reads_the_metadata_of_a_spark_commit(root: TableRoot, key: str) -> None:
    watch = LoadsProgressWatch(root)
    watch.poll()
    rows = arrow_table(BROKER_PANES, broker_partials([report(AT_MS)]))
    for note in ("no json", json.dumps({key: str(AT_MS + 5)})):
        write_deltalake(
            root.open("broker_panes"),
            rows,
            mode="append",
            commit_properties=CommitProperties(custom_metadata={"userMetadata": note}),
        )
    assert watch.poll() == (AT_MS, AT_MS + 5)


def test_progress_survives_a_cleaned_up_log(root: TableRoot) -> None:
    watch = LoadsProgressWatch(root)
    watch.poll()
    for batch in range(4):
        write(root, [report(AT_MS + batch, batch=batch)], batch)
    log = Path(root.uri("broker_panes")) / "_delta_log"
    (log / f"{2:020d}.json").write_text("")
    assert watch.poll() == (AT_MS, AT_MS + 3)


# -- writer --


def test_a_batch_that_runs_again_adds_nothing(root: TableRoot) -> None:
    rows = [report(AT_MS)]
    assert write(root, rows, 3)
    assert not write(root, rows, 3)
    assert not write(root, rows, 2)
    assert not write(TableRoot(root.root), rows, 3), "also from a new process"
    assert write(root, rows, 4)
    assert root.open("broker_panes").to_pyarrow_table().num_rows == 2
    other = arrow_table(BROKER_PANES, broker_partials(rows))
    assert append(root, "broker_panes", other, "another app", 0)


def test_rows_that_do_not_fit_are_refused(root: TableRoot) -> None:
    panes = arrow_table(BROKER_PANES, broker_partials([report(AT_MS)]))
    with pytest.raises(Exception, match="missing columns \\['reports'\\]"):
        append(root, "broker_panes", panes.drop_columns("reports"), "w", 0)
    with pytest.raises(Exception, match="unknown columns \\['extra'\\]"):
        append(root, "broker_panes", panes.append_column("extra", pa.array([1])), "w", 0)
    position = panes.schema.get_field_index("reports")
    broken = panes.set_column(position, pa.field("reports", pa.int64()), pa.array([None], pa.int64()))
    with pytest.raises(Exception, match="reports is null"):
        append(root, "broker_panes", broken, "w", 0)
    with pytest.raises(ValueError, match="kind is null"):
        append_rows(root, "overrides", [{"override_id": "o1", "entry_seq": 3, "seq": 3}])
    assert not append(root, "broker_panes", panes.slice(0, 0), "w", 0)
