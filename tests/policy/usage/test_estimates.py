"""What a round stores of the usage model's estimates, and reads back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.published.clusters import loads
from controller.domain.errors import BadRecord
from controller.policy.usage.model import UsageModel
from controller.policy.usage.observe import observe
from controller.policy.view.estimates import Estimates


def test_estimates_are_read_back_as_they_were_stored() -> None:
    _, estimates = observe(UsageModel(), loads(60, 20).snapshot().frame, grace_ms=0)
    for stored in (estimates, replace(estimates, cpu_settled=None)):  # as rules before 17 stored them
        document = json.loads(json.dumps(stored.to_json()))
        read = Estimates.from_json(document)
        for name in ("brokers", "burst", "correction", "bundles"):
            assert (getattr(read, name) == getattr(stored, name)).all()
        assert (read.rounds, read.wander_permille) == (stored.rounds, stored.wander_permille)
        assert read.to_json() == document, "a replay hashes what it has read"


def test_other_columns_are_refused() -> None:
    document = observe(UsageModel(), loads(60, 20).snapshot().frame, grace_ms=0)[1].to_json()
    with pytest.raises(BadRecord, match="estimate_columns"):
        Estimates.from_json({**document, "broker_columns": document["broker_columns"][1:]})
