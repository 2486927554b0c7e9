"""The index of who holds what always equals a scan of the bundles, whatever entries were folded and copies taken."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.domain.holdings import Holdings
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State
from controller.domain.ring import initial_bundles
from controller.policy.placement.assignment import Assigner, rank_by_count
from tests.examples import examples

SESSIONS = [Session(f"b{i}:1", 1 + i % 2, "n", 1 + i // 3) for i in range(6)]
BUNDLES = [*initial_bundles("t/a", 8), *initial_bundles("t/b", 4)]


def record(bundle: Bundle, dice: random.Random) -> Ownership:
    by, to = dice.sample(SESSIONS, 2)
    state = dice.choice(list(State))
    if state in (State.FREE, State.RETIRED):
        return Ownership(bundle, state, 1)
    if state is State.ASSIGNING:
        return Ownership(bundle, state, 1, to=to)
    if state is State.RELEASING and dice.random() < 0.5:
        return Ownership(bundle, state, 1, by=by, fencer=dice.choice([None, to]))
    return Ownership(bundle, state, 1, by=by, to=to if state in (State.TRANSFERRING, State.RELEASING) else None)


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32))
def test_the_index_equals_a_scan_and_copies_do_not_see_each_other(seed: int) -> None:
    dice = random.Random(seed)
    worlds: list[tuple[dict[Bundle, Ownership], Holdings]] = [({}, Holdings())]
    for _ in range(80):
        records, index = dice.choice(worlds)
        if dice.random() < 0.1:
            worlds.append((dict(records), index.copy()))
            continue
        bundle = dice.choice(BUNDLES)
        new = record(bundle, dice)
        index.replace(records.get(bundle), new)
        records[bundle] = new
    for records, index in worlds:
        assert index == Holdings.of_records(records.values())
        for session in SESSIONS:
            assert index.bundles_naming(session) == {str(b) for b, r in records.items() if r.names(session)}
        for broker in {s.broker for s in SESSIONS}:
            held = [r for r in records.values() if (p := r.to or r.by) is not None and p.broker == broker]
            assert index.total(broker) == len(held)
            for namespace in ("t/a", "t/b"):
                of_namespace = sum(r.bundle.namespace == namespace for r in held)
                assert index.spread(namespace).get(broker, 0) == of_namespace


@pytest.mark.covers("assignment-by-load")
@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32))
def test_placement_chooses_the_least_rank_after_any_changes(seed: int) -> None:
    dice = random.Random(seed)
    scores = {f"b{i}:1": dice.random() for i in range(dice.randint(1, 6))}
    records: dict[Bundle, Ownership] = {}
    index = Holdings()
    placement = Assigner(lambda: index, scores)
    for _ in range(60):
        bundle, namespace = dice.choice(BUNDLES), dice.choice(["t/a", "t/b", "t/none"])
        old, new = records.get(bundle), record(bundle, dice)
        index.replace(old, new)
        records[bundle] = new
        before = (old.to or old.by) if old else None
        if before is not None and before != (new.to or new.by):
            placement.note_relief(before.broker)
        barred = frozenset(dice.sample(sorted(scores), dice.randint(0, len(scores))))
        allowed = [rank_by_count(index, namespace, b, score) for b, score in scores.items() if b not in barred]
        assert placement.choose(namespace, barred) == (min(allowed)[-1] if allowed else None)
