"""What a round stores of the usage model's estimates, and reads back."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.published.clusters import loads
from controller.domain.errors import BadRecord
from controller.domain.load import RESOURCES
from controller.policy.usage.model import UsageModel
from controller.policy.usage.observe import observe
from controller.policy.view.estimates import BROKER_ESTIMATES, NETWORKS, Estimates


def test_estimates_are_read_back_as_they_were_stored() -> None:
    own = len(BROKER_ESTIMATES)
    ints = iter(np.arange(2 * (own + len(RESOURCES) + 2) + 3 * 4))
    parts = [np.array([next(ints) for _ in range(rows * width)]).reshape(rows, width)
             for rows, width in ((2, own), (2, len(RESOURCES)), (2, len(NETWORKS)), (3, 4))]  # fmt: skip
    stored = Estimates(*parts, rounds=3, wander_permille=5)
    read = Estimates.from_json(stored.to_json())
    for name in ("brokers", "burst", "correction", "bundles"):
        assert (getattr(read, name) == getattr(stored, name)).all()
    assert (read.rounds, read.wander_permille) == (3, 5)


def test_estimates_of_earlier_rules_are_read_and_other_columns_are_refused() -> None:
    _, estimates = observe(UsageModel(), loads(60, 20).snapshot().frame)
    stored = estimates.to_json()
    at = stored["broker_columns"].index("cpu_settled")
    for row in [stored["broker_columns"], *stored["brokers"]]:
        del row[at]
    read = Estimates.from_json(stored)
    assert read.broker("cpu_settled").tolist() == estimates.broker("cpu_used").tolist()
    assert read.to_json()["brokers"][0][at + 1 :] == estimates.to_json()["brokers"][0][at + 1 :]
    del stored["broker_columns"][0]
    with pytest.raises(BadRecord, match="estimate_columns"):
        Estimates.from_json(stored)
