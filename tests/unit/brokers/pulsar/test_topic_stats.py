"""Statistics of topics: sums by bundle, of recorded answers, odd ones, and anything else that might come instead."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.brokers.pulsar import topic_rows
from controller.brokers.pulsar.topic_rows import NotTopicStats, Topic
from controller.brokers.pulsar.topic_stats import parse, parse_file
from controller.domain.ids import topic_hash
from controller.process.paths import ROOT
from tests.unit.brokers.pulsar.stand_in import recorded

OWNED = "t1/ns1/0xe0000000_0xf0000000"
PARSED = json.loads((ROOT / "tests" / "data" / "pulsar_parsed.json").read_text())
FIELDS = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut", "backlogSize", "storageSize",
          "producerCount", "publishers", "subscriptions", "other")  # fmt: skip


def of_topic(*topics: Any) -> bytes:
    """An answer with these topics in one bundle."""
    named = {f"persistent://t1/ns1/{at}": topic for at, topic in enumerate(topics)}
    return json.dumps({"t1/ns1": {"0xe0000000_0xf0000000": {"persistent": named}}}).encode()


def test_recorded_topics_become_sums_by_bundle_without_names() -> None:
    body = recorded("extensible_topics_b2")
    found = parse(json.dumps(body).encode())
    (ranges,) = body.values()
    assert found.keys() == {f"t1/ns1/{range_}" for range_ in ranges}
    topics = ranges["0xe0000000_0xf0000000"]["persistent"]
    assert found[OWNED]["topics"] == len(topics) == 2
    assert found[OWNED]["msgRateIn"] == pytest.approx(sum(topic["msgRateIn"] for topic in topics.values()))
    assert found[OWNED]["producerCount"] == found[OWNED]["consumerCount"] == 2
    assert 0xE0000000 < found[OWNED]["splitBoundary"] < 0xF0000000
    assert "127.0.0.1" not in str(found)


@pytest.mark.parametrize("name", ["modular_topics_b2", "extensible_topics_b2"])
def test_sums_of_recorded_topics_are_those_of_a_plain_parser(name: str) -> None:
    """`pulsar_parsed.json` was written by the parsers before msgspec, which decoded everything."""
    assert parse(json.dumps(recorded(name)).encode()) == PARSED[name]


def test_odd_topics_count_as_they_did_in_a_plain_parser() -> None:
    for case in PARSED["odd_topics"]:
        text = json.dumps(case["document"]).encode()
        if case["sums"] is None:
            with pytest.raises(NotTopicStats):
                parse(text)
        else:
            assert parse(text) == case["sums"]


def test_producers_are_counted_by_topic_where_brokers_do_not_list_them() -> None:
    """exposePublisherStats=false leaves `publishers` empty."""
    topic = {"msgRateIn": 1.0, "publishers": [], "producerCount": 4}
    assert parse(of_topic(topic))[OWNED]["producerCount"] == 4
    assert parse(of_topic(topic, {"publishers": [{}, {}]}))[OWNED]["producerCount"] == 6


@pytest.mark.parametrize("name", ["modular_topics_b2", "extensible_topics_b2"])
def test_both_ways_to_decode_a_topic_agree(name: str) -> None:
    for ranges in recorded(name).values():
        for kinds in ranges.values():
            for stats in kinds["persistent"].values():
                text = json.dumps(stats).encode()
                typed = msgspec.structs.replace(msgspec.json.decode(text, type=Topic), publishers=msgspec.Raw(b"null"))
                assert topic_rows._decode_odd(msgspec.Raw(text)) == typed


def test_a_spooled_answer(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.write_bytes(of_topic({"msgRateIn": 2}))
    assert parse_file(str(spool))[OWNED]["msgRateIn"] == 2.0
    for body in (b"", b"{", of_topic({})[:-1], of_topic(3)):
        spool.write_bytes(body)
        with pytest.raises(NotTopicStats):
            parse_file(str(spool))


def test_topics_with_one_hash_are_one_load() -> None:
    twins = ["persistent://t/n/plumless", "persistent://t/n/buckeroo"]
    others = sorted((f"persistent://t/n/{letter}" for letter in "abcdefghijkl"), key=topic_hash)
    below = [name for name in others if topic_hash(name) < topic_hash(twins[0])][:1]
    above = [name for name in others if topic_hash(name) > topic_hash(twins[0])][:2]
    assert len({*map(topic_hash, twins)}) == 1
    rates = dict(zip([*below, *twins, *above], (1.0, 1.5, 1.5, 3.0, 3.0), strict=True))
    topics = {name: {"msgRateIn": rate} for name, rate in rates.items()}
    found = parse(json.dumps({"t/n": {"0x00000000_0xffffffff": {"persistent": topics}}}).encode())
    assert found["t/n/0x00000000_0xffffffff"]["splitBoundary"] == topic_hash(above[0]), "4 of 10 lie below"


def test_of_two_topics_of_one_name_the_last_one_counts() -> None:
    one, two = (b'"persistent://t1/ns1/a":{"msgRateIn":%d.0}' % rate for rate in (1, 2))
    found = parse(b'{"t1/ns1":{"0xe0000000_0xf0000000":{"persistent":{%b,%b}}}}' % (one, two))
    assert (found[OWNED]["topics"], found[OWNED]["msgRateIn"]) == (1, 2.0)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just(1e308) | st.just(-1)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["consumers", "unackedMessages", "s"]) | st.text(max_size=5), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6), min_size=1, max_size=3))
def test_topics_of_any_types_are_summed_up_in_numbers_that_can_be_used(topics: list[dict[str, Any]]) -> None:
    with suppress(NotTopicStats):  # Python writes NaN and infinity, which are no JSON
        found = parse(of_topic(*topics))
        json.dumps(found, allow_nan=False)
        assert all(value >= 0 for sums in found.values() for value in sums.values())


@settings(max_examples=60, deadline=None)
@given(JSON)
def test_any_json_is_understood_or_refused(document: Any) -> None:
    with suppress(NotTopicStats):
        json.dumps(parse(json.dumps(document).encode()), allow_nan=False)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_topics_that_are_cut_or_changed(data: st.DataObject) -> None:
    text = json.dumps(recorded("modular_topics_b2")).encode()
    at = data.draw(st.integers(0, len(text)))
    other = data.draw(st.sampled_from([b"", b"NaN", b"null", b"{", b"]", b'"', b"-1e999", b'{"a":', b"\xff", b"1e308"]))
    with suppress(NotTopicStats):
        json.dumps(parse(text[:at] + other + text[at + len(other) :]), allow_nan=False)
    if at < len(text):
        with pytest.raises(NotTopicStats):
            parse(text[:at])


@pytest.mark.parametrize(
    "before",
    [b"", b'{"t/n":', b'{"t/n":{"r":{"p":{"x":', *(b'{"t/n":{"r":{"p":{"x":{"%b":' % name for name in
     (b"other", b"msgRateIn", b"publishers", b"subscriptions"))],
)  # fmt: skip
def test_nesting_without_end_is_refused(before: bytes) -> None:
    for deep in (b"[" * 200_000, b'{"a":' * 200_000):
        with pytest.raises(NotTopicStats):
            parse(before + deep)
