"""The one boundary that parts a bundle's load."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.domain.balanced_boundary import find_balanced_boundary
from controller.domain.ids import Bundle

WHOLE = Bundle.parse("t/n/0x00000000_0xffffffff")


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.floats(0.1, 1e6), min_size=2, max_size=30))
def test_the_boundary_parts_the_load_as_near_to_the_half_as_any(topics: dict[int, float]) -> None:
    found = find_balanced_boundary(WHOLE, topics)
    if found is None:
        assert len(topics) == 2
        assert max(topics) == WHOLE.upper
        return
    assert WHOLE.lower < found < WHOLE.upper
    whole = sum(topics.values())

    def upper_share(boundary: int) -> float:
        return sum(load for at, load in topics.items() if at >= boundary) / whole

    for boundary in sorted(topics)[1:]:
        if boundary < WHOLE.upper:
            assert abs(upper_share(found) - 0.5) <= abs(upper_share(boundary) - 0.5) + 1e-9


def test_one_hot_topic_is_parted_from_the_rest() -> None:
    assert find_balanced_boundary(WHOLE, {5: 1.0, 7: 100.0, 9: 1.0}) == 7
    assert find_balanced_boundary(WHOLE, {5: 100.0, 7: 1.0, 9: 1.0}) == 7


def test_of_two_boundaries_as_good_one_is_taken() -> None:
    assert find_balanced_boundary(WHOLE, {0x10: 1.0, 0x20: 0.0, 0x30: 1.0}) == 0x20


def test_a_bundle_of_one_hash_cannot_be_cut() -> None:
    assert find_balanced_boundary(WHOLE, {5: 10.0}) is None
    assert find_balanced_boundary(WHOLE, {}) is None
    assert find_balanced_boundary(Bundle.parse("t/n/0x00000005_0x00000009"), {1: 1.0, 5: 2.0}) is None, (
        "5 is its first hash"
    )
