"""Bundles, hashing and the ring: Pulsar's published vectors, and properties that must hold for any split."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.domain.errors import BadRecord, InvariantBroken
from controller.domain.ids import (
    RING_END,
    Bundle,
    Session,
    namespace_of,
    partition_names,
    split_partition,
    topic_hash,
)
from controller.domain.ring import check_cover, initial_bundles, locate
from tests.unit.control.step_driver import StepDriver


@pytest.mark.covers("topic-to-bundle", "partitions-apart")
@pytest.mark.parametrize(
    ("topic", "crc", "of_four"),
    [
        ("persistent://public/default/my-topic", 0x2BAD45F7, "0x00000000_0x40000000"),
        ("persistent://public/default/my-topic-partition-0", 0x3D4B4235, "0x00000000_0x40000000"),
        ("non-persistent://public/default/my-topic", 0x831E214A, "0x80000000_0xc0000000"),
        ("persistent://pulsar/global/ns1/topic-1", 0x2924FAD1, "0x00000000_0x40000000"),
        ("a", 0xE8B7BE43, "0xc0000000_0xffffffff"),
        ("b", 0x71BEEFF9, "0x40000000_0x80000000"),
        ("c", 0x06B9DF6F, "0x00000000_0x40000000"),
        ("persistent://test-tenant1/test-namespace1/test-partition-0", 0xA572A9FE, "0x80000000_0xc0000000"),
        ("persistent://test-tenant1/test-namespace1/test-partition-1", 0xD2759968, "0xc0000000_0xffffffff"),
        ("persistent://test-tenant1/test-namespace1/test-partition-2", 0x4B7CC8D2, "0x40000000_0x80000000"),
        ("persistent://test-tenant1/test-namespace1/test-partition-3", 0x3C7BF844, "0x00000000_0x40000000"),
        ("persistent://test-tenant1/test-namespace1/test-partition-4", 0xA21F6DE7, "0x80000000_0xc0000000"),
    ],
)
def test_lookup_vectors(topic: str, crc: int, of_four: str) -> None:
    assert topic_hash(topic) == crc
    assert str(locate(initial_bundles("t/n", 4), crc)) == f"t/n/{of_four}"


@pytest.mark.covers("bundle-is-a-range")
def test_boundaries_of_a_new_namespace_and_of_a_halved_bundle_differ_as_in_pulsar() -> None:
    assert [b.lower for b in initial_bundles("t/n", 4)] == [0, 0x40000000, 0x80000000, 0xC0000000]
    assert initial_bundles("t/n", 2)[1].lower == 0x80000000
    assert Bundle("t/n", 0, RING_END).middle() == 0x7FFFFFFF


@pytest.mark.covers("topic-to-bundle")
def test_the_largest_hash_belongs_to_the_last_bundle() -> None:
    for count in (1, 3, 4, 128):
        bundles = initial_bundles("t/n", count)
        assert locate(bundles, RING_END) == bundles[-1]
        assert bundles[-1].contains(RING_END)


@pytest.mark.covers("topic-to-bundle")
def test_a_boundary_belongs_to_the_bundle_that_starts_there() -> None:
    bundles = initial_bundles("t/n", 4)
    assert locate(bundles, 0x40000000) == bundles[1]
    assert not bundles[0].contains(0x40000000)


@pytest.mark.covers("bundle-is-a-range", "split-in-two")
@given(count=st.integers(1, 300), cuts=st.lists(st.integers(0, RING_END), max_size=20), hash_=st.integers(0, RING_END))
def test_any_sequence_of_splits_covers_the_ring(count: int, cuts: list[int], hash_: int) -> None:
    bundles = initial_bundles("t/n", count)
    for cut in cuts:
        whole = locate(bundles, cut)
        if whole.lower < cut < whole.upper:
            at = bundles.index(whole)
            bundles[at : at + 1] = whole.split_at(cut)
    check_cover("t/n", bundles)
    assert [b for b in bundles if b.contains(hash_)] == [locate(bundles, hash_)]


@pytest.mark.parametrize("boundary", [0, RING_END, 2**33, -1])
def test_a_boundary_must_lie_strictly_inside(boundary: int) -> None:
    with pytest.raises(BadRecord, match="strictly inside"):
        Bundle("t/n", 0, RING_END).split_at(boundary)


def test_gaps_and_overlaps_are_noticed() -> None:
    bundles = initial_bundles("t/n", 4)
    for broken in (bundles[1:], bundles[:-1], [*bundles, bundles[0]], [bundles[0], *bundles[2:]]):
        with pytest.raises(InvariantBroken, match="I2"):
            check_cover("t/n", broken)


@pytest.mark.covers("bundle-is-a-range")
@pytest.mark.parametrize(
    "text",
    ["t/n", "t/n/0x0_0x1", "t/n/0x40000000_0x40000000", "n/0x00000000_0xffffffff", "t/n/x/0x00000000_0xffffffff"],
)
def test_bundle_names_that_are_none(text: str) -> None:
    with pytest.raises(BadRecord):
        Bundle.parse(text)


RANGES = st.tuples(st.integers(0, RING_END), st.integers(0, RING_END)).map(lambda r: f"0x{r[0]:08x}_0x{r[1]:08x}")
NAMESPACES = st.sampled_from(["t/n", "ü/n", "t /n", "t/n\u200b", "t", "t/n/x", "t/" + "n" * 488, "t/" + "n" * 489])


@given(
    st.one_of(
        st.builds("{}/{}".format, NAMESPACES, RANGES),
        st.builds("{}/{}".format, NAMESPACES, RANGES.map(str.upper)),
        st.builds("t/n/{}{}".format, RANGES, st.sampled_from(["\n", " ", "0"])),
        st.text(),
    )
)
def test_a_name_as_the_journal_spells_it_is_one_that_parses_to_itself(text: str) -> None:
    def is_one() -> bool:
        try:
            return str(Bundle.parse(text)) == text
        except BadRecord:
            return False

    assert Bundle.is_as_journaled(text) == is_one()


@pytest.mark.covers("bundle-is-a-range")
def test_names_parse_back_from_what_they_print() -> None:
    bundle = Bundle("t/n", 0x40000000, 0x80000000)
    assert Bundle.parse(str(bundle)) == bundle
    assert Bundle.parse("t/n/0X40000000_0x8000000A".replace("X", "x")) == Bundle("t/n", 0x40000000, 0x8000000A)
    session = Session("host#odd:1".replace("#odd", ""), 3, "ab", 2)
    assert Session.parse(str(session)) == session
    assert namespace_of("persistent://t/n/a/b") == "t/n"
    assert partition_names("x", 2) == ["x-partition-0", "x-partition-1"]


@pytest.mark.covers("count-or-traffic", "more-bundles-than-brokers")
def test_a_thousand_topics_in_64_bundles_on_16_brokers() -> None:
    """The load-balancing page's example: each topic hashes into a bundle, the bundles spread over all brokers."""
    driver = StepDriver()
    for i in range(16):
        driver.join(f"b{i:02}:1")
    driver.command("create_namespace", namespace="t/n", bundles=64)
    topics = [f"persistent://t/n/topic-{i}" for i in range(1000)]
    for topic in topics:
        driver.command("create_topic", topic=topic)
        driver.lookup(locate(driver.state.namespaces["t/n"], topic_hash(topic)))
    for record in [r for r in driver.state.bundles.values() if r.to]:
        assert record.to is not None
        driver.say(record.to, "serving", record.bundle)
    by_broker = Counter(r.by.broker for r in driver.state.bundles.values() if r.by)
    assert sorted(by_broker.values()) == [4] * 16
    per_broker: Counter[str] = Counter()
    for topic in topics:
        owner = driver.of(locate(driver.state.namespaces["t/n"], topic_hash(topic))).by
        assert owner is not None
        per_broker[owner.broker] += 1
    assert sum(per_broker.values()) == 1000
    assert max(per_broker.values()) <= 1.5 * 1000 / 16


def test_a_partition_is_told_from_a_topic_whose_name_ends_like_one() -> None:
    topic = "persistent://t/n/orders"
    assert [split_partition(name) for name in partition_names(topic, 3)] == [(topic, 0), (topic, 1), (topic, 2)]
    for end in ("", "-partition-", "-partition-x", "-partition-٣", f"-partition-{'9' * 5_000}"):
        assert split_partition(topic + end) == (topic + end, None)
