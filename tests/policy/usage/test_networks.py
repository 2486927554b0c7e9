"""What the usage model makes of readings of bandwidth, beside bundles whose bytes are counted."""

from __future__ import annotations

import numpy as np
import pytest

from controller.domain.load import BUNDLE_FIELDS, FIELD_SCALES, RESOURCE_SCALES, RESOURCES, UNKNOWN
from controller.policy.usage.model import UsageModel
from controller.policy.usage.observe import observe
from controller.policy.view.estimates import NETWORKS
from controller.policy.view.frame import Frame

OUT = RESOURCES.index("bandwidth_out")
LIMIT = 1_000_000


class Card:
    """The network card of one broker with four bundles; rounds tell what the model takes its outgoing bytes for."""

    def __init__(self) -> None:
        self.model, self.minute = UsageModel(), 0

    def round(self, carried: float, reading: float | None) -> float:
        """The corrected reading of bundles that send `carried` bytes/s together. `reading` None: unknown."""
        usage, limit = (np.full((1, len(RESOURCES)), UNKNOWN, np.int64) for _ in range(2))
        if reading is not None:
            usage[0, OUT], limit[0, OUT] = round(reading * RESOURCE_SCALES[OUT]), LIMIT * RESOURCE_SCALES[OUT]
        fields = np.zeros((4, len(BUNDLE_FIELDS)), np.int64)
        sent = BUNDLE_FIELDS.index("throughput_out")
        fields[:, sent] = round(carried / 4 * FIELD_SCALES[sent])
        frame = Frame.of(
            self.minute * 60_000, "live", ("b1",), tuple("abcd"), broker={"incarnation": 1, "reports": 6},
            bundle={"owner": np.zeros(4, np.int64)}, row={"bundle": np.arange(4), "reporter": 0, "reports": 6},
            usage=usage, limit=limit, totals=fields.sum(axis=0, keepdims=True), row_fields=fields, namespace_bundles={},
        )  # fmt: skip
        self.minute += 1
        self.model, estimates = observe(self.model, frame, grace_ms=0)
        correction = int(estimates.correction[0, NETWORKS.index("bandwidth_out")]) / RESOURCE_SCALES[OUT]
        return (reading or 0.0) + correction


def test_what_is_counted_errs_less_than_what_is_read() -> None:
    card, rng = Card(), np.random.default_rng(1)
    found = [card.round(400_000, 450_000 * (1 + rng.normal(0, 0.03))) for _ in range(60)]
    assert found[30:] == pytest.approx([450_000] * 30, rel=0.03)
    assert np.std(found[30:]) < 0.5 * 0.03 * 450_000


def test_other_traffic_counts_at_once() -> None:
    card = Card()
    card.round(400_000, 400_000)
    assert card.round(400_000, 700_000) == pytest.approx(700_000)
    assert card.round(400_000, 400_000) == pytest.approx(400_000), "and is gone at once"


def test_a_full_network_says_at_least() -> None:
    card = Card()
    assert card.round(1_300_000, LIMIT) == pytest.approx(1_300_000)
    assert card.round(1_200_000, LIMIT) == pytest.approx(1_200_000)


def test_a_reading_of_before_a_rise_does_not_hide_it() -> None:
    card = Card()
    for _ in range(10):
        card.round(300_000, 330_000)
    assert card.round(600_000, 330_000) >= 0.95 * 600_000
    assert card.round(600_000, 630_000) == pytest.approx(630_000, rel=0.05)


def test_nothing_is_corrected_where_nothing_is_read() -> None:
    card = Card()
    card.round(300_000, 400_000)
    assert card.round(300_000, None) == 0
    assert card.round(300_000, 400_000) == pytest.approx(400_000, rel=0.05), "what was known before still holds"
