"""What a round stores of the usage model's estimates, and reads back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.published.clusters import loads
from controller.domain.errors import BadRecord
from controller.domain.load import RESOURCES
from controller.policy.usage.model import UsageModel
from controller.policy.usage.observe import observe
from controller.policy.view.estimates import NETWORKS, Estimates


def test_estimates_are_read_back_as_they_were_stored() -> None:
    ints = iter(np.arange(2 * (4 + len(RESOURCES) + 2) + 3 * 4 + 4))
    parts = [np.array([next(ints) for _ in range(rows * width)]).reshape(rows, width)
             for rows, width in ((2, 4), (2, len(RESOURCES)), (2, len(NETWORKS)), (3, 4))]  # fmt: skip
    settled, taken = (np.array([next(ints), next(ints)]) for _ in range(2))
    for optional in ((settled, taken), (settled, None), (None, None)):  # without: as rules before 18, before 17 did
        stored = Estimates(*parts, 3, 5, *optional)
        document = json.loads(json.dumps(stored.to_json()))
        read = Estimates.from_json(document)
        for name in ("brokers", "burst", "correction", "bundles"):
            assert (getattr(read, name) == getattr(stored, name)).all()
        assert (read.rounds, read.wander_permille) == (3, 5)
        assert np.array_equal(read.cpu_settled, optional[0])
        assert np.array_equal(read.cpu_read, optional[1])
        assert read.to_json() == document, "a replay hashes what it has read"


def test_other_columns_are_refused() -> None:
    document = observe(UsageModel(), loads(60, 20).snapshot().frame, grace_ms=0)[1].to_json()
    with pytest.raises(BadRecord, match="estimate_columns"):
        Estimates.from_json({**document, "broker_columns": document["broker_columns"][1:]})
