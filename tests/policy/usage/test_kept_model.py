"""What is kept of a usage model: the bundles known best, and a hash that tells any two models apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from controller.policy.usage import kept as kept_module
from controller.policy.usage.kept import (
    MOST_BUNDLES,
    Learned,
    describe_layout,
    hash_of,
    keep_best_known,
    name_scalars,
)
from controller.policy.usage.model import FACTOR_SPREAD, NEVER, BundleStates, UsageModel, name_columns
from tests.policy.usage.models import model_of_size


def unknown(count: int) -> BundleStates:
    """Bundles of which nothing is known."""
    columns = {name: np.zeros(count) for name in name_columns(BundleStates)}
    columns |= {
        "factor": np.ones(count),
        "variance": np.full(count, FACTOR_SPREAD**2),
        "carrier": np.full(count, NEVER),
    }
    return BundleStates(names=tuple(f"t/n/{at:03}" for at in range(count)), **columns)


def test_at_most_twenty_thousand_bundles_are_kept() -> None:
    model = model_of_size(3, MOST_BUNDLES + 5_000)
    kept = keep_best_known(model)
    assert len(kept.bundles.names) == MOST_BUNDLES
    assert all(len(getattr(kept.bundles, name)) == MOST_BUNDLES for name in name_columns(BundleStates))
    assert list(kept.bundles.names) == sorted(kept.bundles.names)
    at = model.bundles.names.index(kept.bundles.names[-1])
    assert model.bundles.factor[at] == kept.bundles.factor[-1], "each with its own numbers"
    assert hash_of(Learned(kept)) == hash_of(Learned(keep_best_known(model)))


def test_a_model_that_fits_is_kept_whole() -> None:
    model = model_of_size(3, 50)
    assert keep_best_known(model) is model


def test_the_bundles_kept_are_those_that_are_no_longer_like_new_ones() -> None:
    states = unknown(10)
    states.factor[3] = 2.0
    states.factor[4] = 0.3
    states.variance[7] = 0.01
    states.burst[9] = 5.0
    model = UsageModel(bundles=states)
    assert keep_best_known(model, 4).bundles.names == tuple(f"t/n/00{at}" for at in (3, 4, 7, 9))
    assert keep_best_known(model, 6).bundles.names == tuple(f"t/n/00{at}" for at in (0, 1, 3, 4, 7, 9)), (
        "of those equally unknown the first by name"
    )
    assert keep_best_known(model, 0).bundles.names == ()


def test_a_number_that_is_none_is_no_reason_to_keep_a_bundle() -> None:
    states = unknown(3)
    states.factor[0], states.factor[2] = np.nan, 1.1
    assert keep_best_known(UsageModel(bundles=states), 1).bundles.names == ("t/n/002",)


@pytest.mark.parametrize("part", ["brokers", "bundles"])
def test_every_number_and_every_name_counts_for_the_hash(part: str) -> None:
    learned = Learned(model_of_size(3, 4), 60_000)
    states = getattr(learned.model, part)
    hashes = {hash_of(learned), hash_of(replace(learned, at_ms=60_001))}
    for name in name_columns(type(states)):
        changed = getattr(states, name).copy()
        changed[-1] = np.nextafter(changed[-1], np.inf)
        hashes.add(
            hash_of(replace(learned, model=replace(learned.model, **{part: replace(states, **{name: changed})})))
        )
    renamed = replace(states, names=(*states.names[:-1], "zz"))
    hashes.add(hash_of(replace(learned, model=replace(learned.model, **{part: renamed}))))
    for name in name_scalars():
        other: dict[str, Any] = {name: 17}
        hashes.add(hash_of(replace(learned, model=replace(learned.model, **other))))
    hashes.add(hash_of(replace(learned, model=replace(learned.model, drivers=None))))
    assert len(hashes) == 2 + len(name_columns(type(states))) + 1 + len(name_scalars()) + 1


def test_the_layout_tells_versions_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    before = describe_layout()
    monkeypatch.setattr(kept_module, "MEANING", 99)
    assert describe_layout() != before
