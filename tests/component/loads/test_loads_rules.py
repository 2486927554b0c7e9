"""Each rule of load reports: a bad record among good ones is named by its rule, and the good ones pass."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import replace

import jsonschema
import pytest

from controller.domain.settings.agent_groups import AgentGroups
from controller.loads.rules import RULES
from controller.loads.seen import Seen
from controller.loads.settings import LoadsSettings
from schemas.json_schema import json_schema
from schemas.wire import RECORDS
from tests.component.loads.loads_records import answered, order_of, rules_of
from tests.spark.loads.loads_samples import BAD, SMALL, START_MS, Row, bad_value, report, row

BROKER = "b1:8080"


@pytest.mark.parametrize("a_batch", [1, 7, 1000])
def test_every_rule_names_its_record_and_good_ones_pass(a_batch: int) -> None:
    rng = random.Random(7)
    rows, expected = [], {}
    for offset, case in enumerate(BAD):
        rule, value = bad_value(case, BROKER, rng)
        broker = value["broker"] if case.startswith("broker id") else BROKER  # the key agrees: the id alone is judged
        rows.append(row(value, broker, 2 * offset))
        rows.append(row(report(BROKER, offset, [0, 1, 2], rng), BROKER, 2 * offset + 1))
        expected[2 * offset] = rule
    answers = answered(rows, order_of(SMALL), a_batch)
    found = rules_of(answers)
    names = {2 * number: case for number, case in enumerate(BAD)}
    wrong = {
        names.get(o, "good"): (found.get(o), expected.get(o))
        for o in {*found, *expected}
        if found.get(o) != expected.get(o)
    }
    assert wrong == {}
    assert sum(answers["brokers"]["reports"].to_pylist()) == len(BAD)


def test_every_rule_has_a_case() -> None:
    elsewhere = {"no_timestamp", "group_mismatch", "future", "late", "duplicate", "too_many_bundles"}
    assert {rule for rule, _ in BAD.values()} | elsewhere == set(RULES)


def good(sequence: int = 1) -> str:
    return json.dumps(report(BROKER, sequence, [0, 1], random.Random(1)))


@pytest.mark.parametrize(
    "text",
    [
        good() + " garbage",
        good() + good(2),
        good() + "\n" + good(2),
        good() + "{",
        good() + "}",
        good() + ",",
        good() + " {}",
        good() + "\x00",
        "{}" + good(),
        "\ufeff" + good(),
        good()[:-1] + ",}",
    ],
)
def test_text_beside_the_object_is_no_report(text: str) -> None:
    """Whether it comes alone or among good ones, and whichever path judges it."""
    rows = [row(good(n), BROKER, n) for n in (1, 2)]
    answers = answered([rows[0], row(text, BROKER, 9), rows[1]], order_of(SMALL))
    assert rules_of(answers) == {9: "not_json"}
    assert sum(answers["brokers"]["reports"].to_pylist()) == 2


@pytest.mark.parametrize("change", [lambda t: f" \n{t}\r\n", lambda t: json.dumps(json.loads(t), indent=1)])
def test_blanks_and_line_breaks_around_and_inside_are_fine(change) -> None:
    answers = answered([row(change(good()), BROKER, 1), row(good(2), BROKER, 2)], order_of(SMALL))
    assert rules_of(answers) == {}
    assert sum(answers["brokers"]["reports"].to_pylist()) == 2


@pytest.mark.parametrize(
    "name",
    [
        "t/ns/0x00000000_0x00010000",
        "t/ns/0xabcd0000_0xabce0000",
        "t/ns/0xABCD0000_0xABCE0000",
        "t/ns/0xabcd0000_0xabcE0000",
        "t/ns/0x0000000_0x00010000",
        "t/ns/00000000_00010000",
        "t//0x00000000_0x00010000",
        "t/n s/0x00000000_0x00010000",
        "t/ns/x/0x00000000_0x00010000",
        f"{'t' * 128}/{'n' * 128}/0x00000000_0x00010000",
        f"{'t' * 129}/ns/0x00000000_0x00010000",
        "ns/0x00000000_0x00010000",
        "t/é/0x00000000_0x00010000",
    ],
)
def test_the_schema_of_reports_and_the_parser_agree_on_bundle_names(name: str) -> None:
    document = report(BROKER, 1, [0], random.Random(1))
    document["bundles"][0]["bundle"] = name
    accepted = jsonschema.Draft202012Validator(json_schema(RECORDS["load_report"])).is_valid(document)
    rules = rules_of(answered([row(document, BROKER, 0)], order_of(SMALL)))
    assert rules == ({} if accepted else {0: "bundle_name"})


def test_unknown_limits_and_a_missing_tail_are_fine() -> None:
    rng = random.Random(1)
    pulsar = report(BROKER, 1, [0, 1], rng, tail=False)
    pulsar["resources"]["bandwidth_in"] = {"usage": 0.02, "limit": -1000.0}
    fresh = report(BROKER, 2, [], rng)
    fresh["resources"]["cpu"] = {"usage": -1, "limit": -1}
    without = report(BROKER, 3, [3], rng, tail=False)
    del without["tail"], without["sent_ms"]
    without["field_of_a_later_version"] = {"x": [1]}
    rows = [row(value, BROKER, n) for n, value in enumerate((pulsar, fresh, without))]
    assert rules_of(answered(rows, order_of(SMALL))) == {}


def test_times_and_sizes() -> None:
    rng = random.Random(2)
    day_ms = 86_400_000
    rows = [
        row(report(BROKER, 1, [0], rng), BROKER, 0, START_MS - day_ms),
        row(report(BROKER, 2, [0], rng), BROKER, 1, START_MS - day_ms - 1),
        row(report(BROKER, 3, [0], rng), BROKER, 2, -1),
        row(report(BROKER, 4, [0], rng), BROKER, 3, START_MS + 60_001),
        row(report(BROKER, 5, list(range(51)), rng), BROKER, 4),
        row(report(BROKER, 6, [0], rng), None, 5),
    ]
    expected = {1: "late", 2: "no_timestamp", 3: "future", 4: "too_many_bundles", 5: "key_mismatch"}
    assert rules_of(answered(rows, order_of(SMALL, late_ms=START_MS - day_ms))) == expected


def test_a_report_sent_twice_counts_once() -> None:
    """In one batch and in the next, in whatever order; other processes of the broker have numbers of their own."""
    rng = random.Random(6)
    reports = {n: report(BROKER, n, [0, 1], rng) for n in range(6)}
    restarted = {**report(BROKER, 2, [0, 1], rng), "incarnation": 2}
    seen = Seen()
    rows = [row(reports[n], BROKER, offset) for offset, n in enumerate([0, 1, 1, 3, 2, 0])]
    first = answered(rows, order_of(SMALL, seen=seen))
    assert rules_of(first) == {2: "duplicate", 5: "duplicate"}
    assert first["bad"]["text"][0].as_py() == "a report with this sequence has been read before: sequence 1 of b1:8080"
    later = Seen()
    later.take(zip(*(column.to_pylist() for column in first["seen"].columns), strict=True))
    rows = [row(reports[n], BROKER, 10 + n) for n in (3, 4, 5)] + [row(restarted, BROKER, 20)]
    second = answered(rows, order_of(SMALL, seen=later))
    assert rules_of(second) == {13: "duplicate"}
    assert sum(second["brokers"]["reports"].to_pylist()) == 3


def test_quarantine_rows_keep_the_record() -> None:
    rng = random.Random(3)
    rows = [
        row(b"\xff\xfe", BROKER, 10),
        row("x" * 100, BROKER, 11),
        row(report("evil:1", 1, [0], rng), BROKER, 12),
        row(report(BROKER, 1, [0], rng), BROKER, 13, START_MS - 10),
        row(None, BROKER, 14),
        row('{"v":1,"broker":"\\ud800"}', BROKER, 15),
    ]
    settings = LoadsSettings(quarantine_raw_bytes=40, retention_ms=60_000)
    bad = answered(rows, order_of(settings, START_MS, START_MS))["bad"].to_pylist()
    found = {r["kafka_offset"]: r for r in bad}
    assert base64.b64decode(found[10]["raw"]) == b"\xff\xfe"
    assert found[10]["raw_base64"]
    assert found[11]["raw"] == "x" * 40
    assert not found[11]["raw_base64"]
    assert "b1:8080 reports for evil:1" in found[12]["text"]
    assert found[13]["rule"] == "late"
    assert found[13]["raw"].startswith('{"v": 1, "broker": "b1:8080"')
    assert found[13]["text"].endswith(f": {START_MS - 10}")
    assert found[14]["raw"] is None
    assert found[15]["text"].endswith(": ?")
    assert {r["topic"] for r in found.values()} == {"load-reports"}
    assert found[12]["kafka_timestamp_ms"] == START_MS


def test_what_a_flood_of_bad_records_keeps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.loads.quarantine.RAW_BYTES_A_TASK", 100_000)
    rows = [row("x" * 50_000, BROKER, n) for n in range(20)]
    bad = answered(rows, order_of(LoadsSettings()))["bad"]
    assert [len(raw) for raw in bad["raw"].to_pylist()] == [50_000] * 2 + [1_024] * 18


def test_counts_by_rule() -> None:
    rng = random.Random(4)
    rows = [row("x", BROKER, n) for n in range(3)] + [row(report(BROKER, 9, [0, 1], rng), BROKER, 9)]
    answers = answered(rows, order_of(SMALL))
    assert set(rules_of(answers).values()) == {"not_json"}
    assert answers["bundles"].num_rows == 3
    assert answers["brokers"]["first_event_ms"].to_pylist() == [START_MS]


def test_a_report_in_the_topic_of_another_group_is_refused_and_silences_nobody() -> None:
    """Its sequence does not count as read: the broker's own report with it comes later."""
    groups = AgentGroups((("east", ("b1",)), ("west", ("b2",))))
    order = replace(order_of(SMALL), groups=groups, group_of_topic={"east": "east", "west": "west", "plain": ""})

    def sent(broker: str, topic: str, offset: int) -> Row:
        key, value, _, partition, at, moment = row(report(broker, 1, [0], random.Random(1)), broker, offset)
        return key, value, topic, partition, at, moment

    rows = [
        sent("b1:8080", "west", 0), sent("b1:8080", "plain", 1), sent("b1:8080", "east", 2),
        sent("b3:8080", "plain", 3), sent("b3:8080", "elsewhere", 4),
    ]  # fmt: skip
    answers = answered(rows, order)
    assert rules_of(answers) == {0: "group_mismatch", 1: "group_mismatch", 4: "group_mismatch"}
    assert sorted(answers["brokers"]["broker"].to_pylist()) == ["b1:8080", "b3:8080"]
