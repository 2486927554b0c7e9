"""Fuzzed records among good ones, through one task of the loads query: nothing raises, each record is either counted
or quarantined, and the panes are those of the good reports alone."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.loads.columns import Sheet, read
from controller.loads.judge import judge
from controller.loads.rules import RULES, ReportLimits
from controller.loads.seen import INTERVALS, Seen
from controller.loads.settings import LoadsSettings
from tests.component.loads.loads_records import answered, order_of, rules_of
from tests.examples import examples
from tests.spark.loads.loads_samples import START_MS, bundle_name, report, row

BROKER = "b1:8080"
LIMITS = ReportLimits.of(LoadsSettings())
FUZZ = settings(max_examples=examples(150))

GOOD = report(BROKER, 7, [0, 1, 2], random.Random(3))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["NaN", "1", "", "0x00000000_0x00010000", "t/ns/0x00000000_0x00010000", "tail", "\ud800", "\x00"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)
PATHS = [
    *[(name,) for name in GOOD],
    *[("resources", name) for name in GOOD["resources"]],
    *[("resources", "cpu", part) for part in ("usage", "limit")],
    *[("totals", name) for name in GOOD["totals"]],
    *[("tail", name) for name in GOOD["tail"]],
    *[("bundles", 0), ("bundles", 1, "bundle"), ("bundles", 2, "msg_rate_in"), ("bundles", 0, "topics")],
]


def changed(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """The good report with one place replaced."""
    document = copy.deepcopy(GOOD)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


def certainly_good(value: bytes, key: bytes) -> bool:
    """What the bulk path says about a record that comes alone."""
    table, positions = read([value])
    if not positions:
        return False
    return bool(Sheet.of(table).good(pa.array([key], pa.binary()), np.array([START_MS]), LIMITS)[0])


@FUZZ
@given(st.sampled_from(PATHS), VALUES)
def test_the_bulk_path_lets_nothing_through_that_breaks_a_rule(path: tuple[str | int, ...], value: Any) -> None:
    raw = json.dumps(changed(path, value)).encode()
    verdict = judge(raw, len(raw), BROKER.encode(), START_MS, LIMITS)
    assert verdict.rule is None or verdict.rule in RULES
    if certainly_good(raw, BROKER.encode()):
        assert verdict.rule is None


@FUZZ
@given(st.sampled_from(PATHS), st.one_of(st.integers(0, 2**62), st.floats(0, 1e15)))
def test_the_bulk_path_knows_nearly_every_good_report(path: tuple[str | int, ...], value: float) -> None:
    """Otherwise the slow judgement would be the usual one; only sums at the edge of the tolerance may differ."""
    raw = json.dumps(changed(path, value)).encode()
    if judge(raw, len(raw), BROKER.encode(), START_MS, LIMITS).rule is None:
        assert certainly_good(raw, BROKER.encode())


def mutated(text: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Bytes cut out and put in."""
    for at, cut, put in edits:
        at %= len(text) + 1
        text = text[:at] + put + text[at + cut :]
    return text


EDITS = st.lists(
    st.tuples(st.integers(0, 4_000), st.integers(0, 40), st.binary(max_size=12)), min_size=1, max_size=4
).map(lambda edits: mutated(json.dumps(GOOD).encode(), edits))
PIECES = st.sampled_from(
    [b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\n", b"NaN", b"1e999", b'{"v":1}', b"\xff"]
)
BYTES = st.one_of(st.binary(max_size=200), EDITS, st.lists(PIECES, max_size=12).map(b"".join))


@FUZZ
@given(st.lists(st.tuples(BYTES, st.sampled_from([BROKER, "other:1", "", "é"])), max_size=8), st.integers(1, 9))
def test_fuzzed_bytes_among_good_reports(fuzzed: list[tuple[bytes, str]], a_batch: int) -> None:
    others = [report("b2:8080", n, [n, n + 1], random.Random(n)) for n in range(6)]
    calm = [row(document, "b2:8080", n) for n, document in enumerate(others)]
    rows = list(calm)
    for number, (value, key) in enumerate(fuzzed):
        rows.insert(2 * number % len(rows), row(value, key, 100 + number))
    wild, quiet = answered(rows, order_of(LoadsSettings()), a_batch), answered(calm, order_of(LoadsSettings()))
    bad, accepted = rules_of(wild), wild["brokers"].filter(pc.not_equal(wild["brokers"]["broker"], "b2:8080"))
    assert len(bad) + sum(accepted["reports"].to_pylist()) == len(fuzzed)
    assert set(bad.values()) <= set(RULES)
    for kind in ("brokers", "bundles"):
        mine = wild[kind].filter(pc.equal(wild[kind]["broker"], "b2:8080"))
        keys = [(name, "ascending") for name in ("pane_end_ms", "bundle") if name in mine.column_names]
        assert mine.sort_by(keys).to_pylist() == quiet[kind].sort_by(keys).to_pylist()


def stuffed(field: str) -> bytes:
    """A good report with one more field, written as it is."""
    return json.dumps(GOOD).encode()[:-1] + b',"more":' + field.encode() + b"}"


def long_report(count: int) -> bytes:
    """A report whose bundles are all good; sums agree."""
    stats = dict.fromkeys(GOOD["totals"], 1)
    del stats["bundles"]
    names = [bundle_name(n % 60_000, f"t/n{n // 60_000}") for n in range(count)]
    bundles = [{"bundle": name, **stats} for name in names]
    totals = dict.fromkeys([*stats, "bundles"], count)
    return json.dumps({**GOOD, "bundles": bundles, "totals": totals, "tail": None}).encode()


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        (b'{"v":1,"pad":"' + b"x" * 10 * 2**20 + b'"}', {"too_large"}),
        (b'{"v":1,"pad":"' + b"x" * 9 * 2**20 + b'"}', {"missing_field"}),
        (b"\xff" * 9 * 2**20, {"not_utf8"}),
        (b"[" * 9 * 2**20, {"not_json"}),
        (b'{"a":' * 10**6, {"not_json"}),
        (b'{"a":' * 10**6 + b"1" + b"}" * 10**6, {"not_json", "version"}),
        (b'{"v":1,"a":' + b"[" * 4_000_000 + b"]" * 4_000_000 + b"}", {"not_json", "missing_field"}),
        (b'{"v":1,"a":[' + b"[]," * 2_900_000 + b"[]]}", {"missing_field"}),
        (b'{"v":' + b"9" * 9 * 2**20 + b"}", {"not_json", "version"}),
        (b'{"v":1,"bundles":[' + b"{}," * 99_999 + b"{}]}", {"missing_field"}),
        (long_report(20_001), {"too_many_bundles"}),
        (long_report(100_000), {"too_large"}),
    ],
    ids=range(12),
)
def test_monstrous_records(value: bytes, rules: set[str]) -> None:
    """A good report before and after each; the worker survives."""
    rows = [row(report(BROKER, n, [0, 1], random.Random(n)), BROKER, n) for n in range(2)]
    answers = answered([rows[0], row(value, BROKER, 9), rows[1]], order_of(LoadsSettings()))
    found = rules_of(answers)
    assert set(found) == {9}
    assert found[9] in rules
    assert answers["brokers"]["reports"].to_pylist() == [2]


def test_as_many_bundles_as_are_allowed() -> None:
    answers = answered([row(long_report(20_000), BROKER, 1)], order_of(LoadsSettings()))
    assert rules_of(answers) == {}
    assert answers["bundles"].num_rows == 20_000


def test_fields_of_a_later_version_may_hold_anything() -> None:
    rows = [row(stuffed(f), BROKER, n) for n, f in enumerate(['"\\ud800"', "[" * 500 + "]" * 500, "1e999"])]
    rows = [(k, v.replace(b'"sequence": 7', b'"sequence": %d' % n), *rest) for n, (k, v, *rest) in enumerate(rows)]
    assert rules_of(answered(rows, order_of(LoadsSettings()))) == {}


def test_forged_sequences_do_not_silence_a_broker() -> None:
    seen = Seen()
    assert [seen.add(("b", 1), n) for n in (1, 2, 3, 2**53 - 1, 4, 5, 2**40, 6)] == [True] * 8
    assert not any(seen.add(("b", 1), n) for n in (1, 6, 2**53 - 1))
    for n in range(100):
        seen.add(("b", 1), 10**6 + 2 * n)  # none touches another
        assert seen.add(("b", 1), 7 + n)
    assert len(seen.spans["b", 1]) <= INTERVALS
    assert not seen.add(("b", 1), 50)


def test_what_the_tables_tell_of_sequences() -> None:
    """Numbers that were never sent leave gaps; a forged one far away must not make all between look read."""
    seen = Seen()
    seen.recover([("b", 1, 20, 2), ("b", 1, 10, 3), ("b", 1, 2**50, 1), ("b", 2, 5, 1), ("c", 1, 7, 7)])
    assert not any(seen.add(("b", 1), n) for n in (8, 9, 10, 15, 19, 20, 2**50))
    assert not any(seen.add(("c", 1), n) for n in range(1, 8))
    assert all(seen.add(("b", 1), n) for n in (7, 21, 2**50 - 1, 2**50 + 1))
    assert seen.add(("b", 2), 6)
