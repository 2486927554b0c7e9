"""The frame's columns of the journal are made in bulk, and are what a look at each bundle says."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from controller.domain.errors import InvariantBroken
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State
from controller.policy.view.frame import BUNDLE_FACTS, namespace_of_bundle, namespaces_of
from controller.policy.view.tabulate import _number, _owned_facts, ownership_facts

BUNDLE = Bundle("t/n", 0, 16)
INDEX = {"a:1": 0, "b:1": 1}
sessions = st.sampled_from([Session(broker, 1, "n", 1) for broker in ("a:1", "b:1", "gone:1")])


@st.composite
def records(draw: st.DrawFn) -> Ownership | None:
    """A record in any state, with the parties that it names; None for a bundle that the journal does not know."""
    state, by, to = draw(st.sampled_from(State)), draw(st.none() | sessions), draw(st.none() | sessions)
    try:
        return Ownership(BUNDLE, state, draw(st.integers(0, 9)), by, to, moved_at_ms=draw(st.integers(0, 10**12)))
    except InvariantBroken:
        return None


@given(found=st.lists(records(), max_size=8))
def test_facts_of_the_journal(found: list[Ownership | None]) -> None:
    facts = {name: np.full(len(found), -7, np.int64) for name in BUNDLE_FACTS}
    for at, row in _owned_facts(facts, found, INDEX):
        for name, value in zip(BUNDLE_FACTS, row, strict=True):
            facts[name][at] = value
    expected = [ownership_facts(one, INDEX) if one is not None else (-7,) * len(BUNDLE_FACTS) for one in found]
    assert [tuple(int(facts[name][at]) for name in BUNDLE_FACTS) for at in range(len(found))] == expected


@given(
    names=st.sets(
        st.from_regex(r"[a-c~]{1,2}/[a-c~]{1,2}(/[a-c~]{1,2})?(/0x[0-9a-f]{1,2}|/[a-z]|){1,2}", fullmatch=True),
        max_size=20,
    )
)
@example({"0x00000000_0x40000000", "0x", "/0x1", "a/0x1"})  # names without a namespace
def test_every_bundle_is_of_its_namespace(names: set[str]) -> None:
    bundles = tuple(sorted(names))
    spaces, codes = namespaces_of(bundles)
    assert spaces == tuple(sorted(set(map(namespace_of_bundle, names))))
    assert [spaces[code] for code in codes.tolist()] == list(map(namespace_of_bundle, bundles))


def test_one_odd_name_among_many_does_not_slow_the_others() -> None:
    names = tuple(sorted([*(f"t/n/0x{n:08x}_0x{n + 1:08x}" for n in range(20_000)), "t/n/0x00000001_0x00000002/x"]))
    spaces, codes = namespaces_of(names)
    assert (spaces, np.bincount(codes).tolist()) == (("t/n", "t/n/0x00000001_0x00000002"), [20_000, 1])


@given(names=st.lists(st.text("ab", max_size=3), max_size=9), in_order=st.booleans())
def test_bundles_are_numbered_in_order(names: list[str], in_order: bool) -> None:
    rows = np.array(sorted(names) if in_order else names, object)
    different, place = _number(rows)
    assert different.tolist() == sorted(set(names))
    assert [different[at] for at in place.tolist()] == rows.tolist()
