"""A strategy's memory in the journal: exact, and small where it would be large."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.published.clusters import loads
from controller.policy.round import LARGE_CHARS, PACKED, pack_memory, replay_round, unpack_memory
from tests.examples import examples

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=6), st.booleans())
@settings(max_examples=examples(60))
def test_what_comes_back_is_what_was_given(memory: dict[str, Any], large: bool) -> None:
    memory = {key: value for key, value in memory.items() if key != PACKED}
    if large:
        memory["filler"] = list(range(LARGE_CHARS // 4))
    stored = json.loads(json.dumps(pack_memory(memory)))
    assert (PACKED in stored) == (len(json.dumps(memory, separators=(",", ":"))) >= LARGE_CHARS)
    assert unpack_memory(stored) == memory


def test_a_strategy_that_remembers_every_bundle_takes_less_of_the_journal_and_decides_the_same() -> None:
    built = loads(90, 10, 30, 40, parts=300)
    for at, bundle in enumerate(built.bundles):
        bundle["msg_rate_in"] += 0.37 * (at % 97)
    built.settings = type(built.settings)(strategy="threshold")
    for _ in range(3):
        result = built.later().round()
    kept = result.memory["threshold"]
    assert PACKED in kept
    assert len(json.dumps(kept)) < 0.5 * len(json.dumps(unpack_memory(kept)))
    assert unpack_memory(kept)["averages"]["samples"] == [3] * len(built.bundles)
    assert replay_round(result.inputs) == result.plan_hash
