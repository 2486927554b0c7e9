"""Questions about load, in DuckDB: of a short run, and of two weeks that follow a formula."""

from __future__ import annotations

import datetime
import re
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from controller.domain.load import RESOURCES
from controller.domain.ownership import State
from controller.ledger.append import append
from schemas.arrow import arrow_table
from schemas.load_tables import BUNDLE_LOAD
from tests.component.questions.told import namespace_of
from tests.questions import PAGE, DuckQuestions
from tests.short_run import ShortRun, play
from tests.weeks_of_load import (
    BROKERS,
    BUSIEST,
    CPU_LIMIT,
    DAYS,
    FIRST_MS,
    HOUR_MS,
    HOURS,
    MEMORY,
    REPORTS,
    cpu_usage,
    messages,
)


@pytest.fixture(scope="module")
def rates(run: ShortRun) -> dict[str, float]:
    """Living bundle -> messages/s in and out, without the noise of reports."""
    living = {b for b, record in run.state.bundles.items() if record.state is not State.RETIRED}
    return {bundle: 2 * rate for bundle, rate in run.load.rates.items() if bundle in living}


def owner(run: ShortRun, bundle: str) -> str:
    by = run.state.bundles[bundle].by
    assert by is not None
    return by.broker


def test_04_the_busiest_bundle_comes_first(ask: DuckQuestions, run: ShortRun, rates: dict[str, float]) -> None:
    rows = ask(4)
    assert {row["bundle"]: row["broker"] for row in rows} == {bundle: owner(run, bundle) for bundle in rates}
    assert {row["bundle"]: row["messages_per_s"] for row in rows} == pytest.approx(rates, rel=0.05)
    assert [row["bytes_per_s"] for row in rows] == sorted((row["bytes_per_s"] for row in rows), reverse=True)
    total = Counter[str]()
    for bundle, rate in rates.items():
        total[owner(run, bundle)] += rate
    parts = {bundle: 100 * rate / total[owner(run, bundle)] for bundle, rate in rates.items()}
    assert {row["bundle"]: row["of_broker_pct"] for row in rows} == pytest.approx(parts, abs=2)
    burst = next(row for row in rows if row["bundle"].startswith("shop/orders/0x60000000"))
    assert burst["steadiness"] == pytest.approx(10_000 / burst_average(run), abs=0.05)


def burst_average(run: ShortRun) -> float:
    """The long average of messages/s of the bundle that got hot."""
    rows = run.root.open("bundle_load").to_pyarrow_table().sort_by("as_of_ms").to_pylist()
    return float(next(r["msg_rate_long"] for r in reversed(rows) if r["bundle"].startswith("shop/orders/0x60000000")))


def test_13_namespaces_add_up(ask: DuckQuestions, run: ShortRun, rates: dict[str, float]) -> None:
    rows = {row["namespace"]: row for row in ask(13)}
    of: dict[str, list[str]] = defaultdict(list)
    for bundle in rates:
        of[namespace_of(bundle)].append(bundle)
    assert list(rows) == ["shop/orders", "shop/clicks"]
    for namespace, bundles in of.items():
        row = rows[namespace]
        assert (row["bundles"], row["brokers"]) == (len(bundles), len({owner(run, bundle) for bundle in bundles}))
        assert row["messages_per_s"] == pytest.approx(sum(rates[bundle] for bundle in bundles), rel=0.03)
        assert (row["topics"], row["sessions"]) == (5 * len(bundles), 10 * len(bundles))
    assert sum(row["share_pct"] for row in rows.values()) == pytest.approx(100, abs=0.1)


def test_14_limits_of_a_short_run(ask: DuckQuestions, run: ShortRun) -> None:
    rows = {row["broker"]: row for row in ask(14)}
    kept = run.root.open("broker_load").to_pyarrow_table().sort_by("incarnation").to_pylist()
    averages = {(row["broker"], row["as_of_ms"]): row for row in kept}.values()  # of the newest process
    used: dict[str, list[dict[str, float]]] = defaultdict(list)
    for row in averages:
        known = {name: row[f"{name}_utilisation"] for name in RESOURCES}
        used[row["broker"]].append({name: value for name, value in known.items() if value is not None})
    assert rows.keys() == used.keys() == {"b1:8080", "b2:8080", "b3:8080"}
    for broker, history in used.items():
        busiest = [max(each.values()) for each in history]
        row = rows[broker]
        assert row["p95_pct"] == pytest.approx(100 * np.percentile(busiest, 95), abs=0.051)
        assert (row["highest_pct"], row["averages"]) == (pytest.approx(100 * max(busiest), abs=0.051), len(history))
        assert row["headroom_pct"] == pytest.approx(100 - row["p95_pct"], abs=0.11)
    assert (rows["b3:8080"]["busiest_resource"], rows["b3:8080"]["now_pct"]) == ("memory", 30.0), "it came back empty"
    assert rows["b1:8080"]["busiest_resource"] == "cpu"


def utilisation(broker: str, hour: int) -> float:
    return max(cpu_usage(broker, hour) / CPU_LIMIT, MEMORY)


def test_14_limits_of_two_weeks(ask_of_weeks: DuckQuestions) -> None:
    rows = {row["broker"]: row for row in ask_of_weeks(14)}
    assert list(rows) == [BUSIEST, *BROKERS[1:]], "the least headroom first"
    for broker, row in rows.items():
        history = [utilisation(broker, hour) for hour in range(HOURS)]
        assert row["averages"] == HOURS
        assert row["p95_pct"] == pytest.approx(100 * np.percentile(history, 95), abs=0.051)
        assert row["highest_pct"] == pytest.approx(100 * max(history), abs=0.051)


def test_15_busy_hours_are_those_of_the_office(ask_of_weeks: DuckQuestions) -> None:
    rows = {(row["weekday"], row["hour"]): row for row in ask_of_weeks(15)}
    assert rows.keys() == {(weekday, hour) for weekday in range(1, 8) for hour in range(24)}
    for (weekday, hour), row in rows.items():
        moments = [24 * (7 * week + weekday - 1) + hour for week in range(DAYS // 7)]
        means = [np.mean([utilisation(broker, at) for broker in BROKERS]) for at in moments]
        sent = [sum(messages(broker, at) for broker in BROKERS) for at in moments]
        assert row["averages"] == len(moments) == 2
        assert row["mean_p95_pct"] == pytest.approx(100 * np.percentile(means, 95), abs=0.051)
        highest = np.percentile([utilisation(BUSIEST, at) for at in moments], 95)
        assert row["busiest_p95_pct"] == pytest.approx(100 * highest, abs=0.051)
        assert row["messages_p95_per_s"] == pytest.approx(np.percentile(sent, 95), abs=0.51)
    first = next(iter(rows))
    assert first[0] == 5, "the last working day of growing weeks"
    assert 9 <= first[1] < 18


def test_15_a_short_run_is_one_hour_of_a_monday(ask: DuckQuestions, run: ShortRun) -> None:
    (row,) = ask(15)
    began = datetime.datetime.fromtimestamp(run.start_ms / 1_000, datetime.timezone.utc)
    assert (row["weekday"], row["hour"]) == (began.isoweekday(), began.hour) == (1, 14)


def test_16_growth_day_by_day(ask_of_weeks: DuckQuestions) -> None:
    rows = ask_of_weeks(16)
    first = datetime.datetime.fromtimestamp(FIRST_MS / 1_000, datetime.timezone.utc).date()
    assert [row["day"] for row in rows] == [first + datetime.timedelta(days=day) for day in range(DAYS)]
    sent = [[sum(messages(broker, 24 * day + hour) for broker in BROKERS) for hour in range(24)] for day in range(DAYS)]
    means = [float(np.mean(day)) for day in sent]
    assert [row["messages_per_s"] for row in rows] == pytest.approx(means, abs=0.51)
    assert [row["messages_p95_per_s"] for row in rows] == pytest.approx(
        [np.percentile(day, 95) for day in sent], abs=0.51
    )
    assert (rows[0]["than_yesterday_pct"], rows[6]["than_a_week_ago_pct"]) == (None, None)
    for day in range(7, DAYS):
        weekly = 100 * (means[day] / means[day - 7] - 1)
        assert rows[day]["than_a_week_ago_pct"] == pytest.approx(weekly, abs=0.051)
    assert rows[5]["than_yesterday_pct"] < -30, "a Saturday"
    assert {row["averages"] for row in rows} == {HOURS // DAYS}


def test_averages_of_a_moment_count_once(ask_of_weeks: DuckQuestions) -> None:
    every = [FIRST_MS + hour * HOUR_MS for hour in range(HOURS)]
    for view, share in (("broker_load", 1.0), ("bundle_load", 0.5)):
        rows = ask_of_weeks(f"SELECT as_of_ms, broker, reports, msg_rate_in + msg_rate_out AS sent FROM {view}")
        assert sorted((row["as_of_ms"], row["broker"]) for row in rows) == [(ms, b) for ms in every for b in BROKERS]
        assert {row["reports"] for row in rows} == {REPORTS}, "those with all reports"
        expected = [share * messages(row["broker"], (row["as_of_ms"] - FIRST_MS) // HOUR_MS) for row in rows]
        assert [row["sent"] for row in rows] == pytest.approx(expected)


def test_the_newest_load_of_a_bundle_is_that_with_all_reports(tmp_path: Path) -> None:
    run = play(tmp_path / "tables")
    rows = run.root.open("bundle_load").to_pyarrow_table().sort_by([("as_of_ms", "descending")])
    newest = rows.filter(pc.equal(rows["as_of_ms"], pc.max(rows["as_of_ms"])))
    early = [row | {"reports": 1, "msg_rate_in": 1e9, "batch_id": 10**6} for row in newest.to_pylist()]
    append(run.root, "bundle_load", arrow_table(BUNDLE_LOAD, early), "early", 1)
    ask = DuckQuestions(run.root.root)
    assert max(row["messages_per_s"] for row in ask(4)) < 1e6
    ask.db.close()


def test_panes_of_bundles_add_up_to_those_of_brokers(ask: DuckQuestions, run: ShortRun) -> None:
    for name in ("broker_panes", "bundle_panes"):
        ask.db.register(name, run.root.open(name).to_pyarrow_dataset())
    (text,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    found, expected = Counter[int](), Counter[int]()
    for row in ask(text):
        found[row["pane_end_ms"]] += row["msg_rate_in"]
    for row in ask(
        "SELECT pane_end_ms, sum(msg_rate_in_sum) / sum(reports) AS rate FROM broker_panes GROUP BY pane_end_ms, broker"
    ):
        expected[row["pane_end_ms"]] += row["rate"]
    assert found
    assert found == pytest.approx(expected)
