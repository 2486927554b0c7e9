"""Load reports through one task of the loads query: each is counted or quarantined, its neighbours as ever.

`tests/component/loads/test_loads_hostile.py` has the two paths against each other and monstrous records; here are
limits of memory and time, keys that stand twice, and rows of quarantine.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.loads.columns import from_documents, read
from controller.loads.judge import Verdict, judge
from controller.loads.rules import RULES, ReportLimits
from controller.loads.settings import LoadsSettings
from schemas.arrow import arrow_table
from schemas.load_tables import QUARANTINE
from tests.component.loads.loads_records import answered, order_of, rules_of
from tests.component.loads.test_loads_hostile import certainly_good
from tests.fuzz.hostile import Pairs, records, write
from tests.fuzz.limits import bounded, check_error, fuzzing
from tests.spark.loads.loads_samples import START_MS, report, row

BROKER = "b1:8080"
SETTINGS = LoadsSettings()
LIMITS = ReportLimits.of(SETTINGS)
GOOD = report(BROKER, 7, [0, 1, 2], random.Random(3))
REPORTS = [GOOD, report(BROKER, 8, [], random.Random(4)), report(BROKER, 9, [5], random.Random(5), tail=False)]
KEYS = st.sampled_from([BROKER.encode(), b"other:1", b"", b"\xff" * 90, b"k" * 40_000])


def judged(raw: bytes, key: bytes) -> Verdict:
    """The slow path, which is the definition."""
    with bounded(len(raw) + len(key)):
        return judge(raw, len(raw), key, START_MS, LIMITS)


@fuzzing(24, 9_000)
@given(records(REPORTS))
def test_both_paths_agree_on_what_is_good(raw: bytes) -> None:
    verdict = judged(raw, BROKER.encode())
    assert verdict.rule is None or verdict.rule in RULES
    if certainly_good(raw, BROKER.encode()):
        assert verdict.rule is None
        assert verdict.report is not None
        check_same_figures(raw, verdict.report)
    if verdict.report is not None:
        again = json.dumps(verdict.report).encode()
        assert judge(again, len(again), BROKER.encode(), START_MS, LIMITS).report == verdict.report


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}"), ('{"partitioned_topics":[', "]}")])
@pytest.mark.parametrize("levels", [9, 400, 990, 60_000])
def test_no_path_takes_a_report_whose_unknown_field_is_too_deep_for_the_other(
    levels: int, opened: str, closed: str
) -> None:
    deep = opened * levels + "1" + closed * levels
    raw = json.dumps({**GOOD, "extra": "?"}).replace('"?"', deep).encode()
    verdict, good = judged(raw, BROKER.encode()), certainly_good(raw, BROKER.encode())
    assert verdict.rule is None or not good
    assert good or levels > 9
    (calm, hostile) = row(GOOD, BROKER, 1), row(raw, BROKER, 2)
    assert set(rules_of(answered([calm, hostile], order_of(SETTINGS)))) <= {2}


def check_same_figures(raw: bytes, report_: dict[str, Any]) -> None:
    """The table of the bulk path has what the definition reads."""
    table, _ = read([raw])
    assert table.to_pylist() == from_documents([report_]).to_pylist()


@fuzzing(6, 1_500)
@given(st.lists(st.tuples(records(REPORTS), KEYS), min_size=1, max_size=5))
def test_each_report_is_counted_or_quarantined_and_its_neighbours_are_read(hostile: list[tuple[bytes, bytes]]) -> None:
    calm = [row(report("b2:8080", n, [n, n + 1], random.Random(n)), "b2:8080", n) for n in range(3)]
    rows = list(calm)
    for number, (value, key) in enumerate(hostile):
        _, _, topic, partition, _, moment = calm[0]
        rows.insert(2 * number % len(rows), (key, value, topic, partition, 100 + number, moment))
    with bounded(sum(len(value or b"") + len(key or b"") for key, value, *_ in rows)):
        answers = answered(rows, order_of(SETTINGS))
    bad = rules_of(answers)
    counted = answers["brokers"].filter(pc.not_equal(answers["brokers"]["broker"], "b2:8080"))["reports"].to_pylist()
    assert len(bad) + sum(counted) == len(hostile)
    assert set(bad.values()) <= set(RULES)
    if bad:
        check_quarantine(answers["bad"])


def check_quarantine(bad: pa.Table) -> None:
    """Its rows fit the table, and are fit to be shown."""
    rows = bad.to_pylist()
    arrow_table(QUARANTINE, [{**found, "detected_ms": 1, "source": "loads", "batch_id": 1} for found in rows])
    for found in rows:
        check_error(found["text"])


@pytest.mark.parametrize("name", ["bundles", "totals", "sequence", "broker", "resources", "v"])
def test_of_two_values_of_one_key_both_paths_take_the_same(name: str) -> None:
    other: dict[str, Any] = {"bundles": GOOD["bundles"][:1], "sequence": 3, "broker": "other:1", "v": 2}
    first, second = GOOD[name], other.get(name, {})
    for one, two in ((first, second), (second, first), (first, first)):
        pairs = Pairs([*((key, value) for key, value in GOOD.items() if key != name), (name, one), (name, two)])
        raw = write(pairs).encode()
        if certainly_good(raw, BROKER.encode()):
            verdict = judged(raw, BROKER.encode())
            assert verdict.report is not None
            check_same_figures(raw, verdict.report)


@pytest.mark.parametrize("name", ["t\x1b[2J/n", "t/n\u2028", "t/\x00", "\u202et/n", "t/n\x7f", "t/\ud800"])
def test_a_bundle_that_no_terminal_should_show_is_quarantined(name: str) -> None:
    document = {
        **GOOD,
        "bundles": [{**GOOD["bundles"][0], "bundle": f"{name}/0x00000000_0x00010000"}, *GOOD["bundles"][1:]],
    }
    raw = json.dumps(document).encode()
    verdict = judged(raw, BROKER.encode())
    assert verdict.rule == "bundle_name"
    assert not certainly_good(raw, BROKER.encode())
    check_quarantine(answered([row(raw, BROKER, 1)], order_of(SETTINGS))["bad"])


def test_a_name_in_another_script_is_printable() -> None:
    names = [bundle["bundle"].replace("t/ns", "t/größe") for bundle in GOOD["bundles"]]
    bundles = [{**bundle, "bundle": name} for bundle, name in zip(GOOD["bundles"], names, strict=True)]
    answers = answered([row({**GOOD, "bundles": bundles}, BROKER, 1)], order_of(SETTINGS))
    assert sorted(answers["bundles"]["bundle"].to_pylist()) == sorted([*names, "tail"])
