"""decide_speed times what a round does with the usage model, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measure.policy.decide_speed import KeptModel, measure
from benchmarks.pages.performance import decide_times
from controller.ledger.usage_models import NoUsageModel
from tests.policy.usage.models import model_of_size


def test_each_round_keeps_and_writes_its_model() -> None:
    found = measure(3, 30, rounds=4)
    timed = {name for name in found if name.endswith("_ms")}
    assert timed >= {"p50_ms", "worst_ms", "keep_p50_ms", "keep_worst_ms", "write_p50_ms", "write_worst_ms", "read_ms"}


def test_the_model_that_is_read_is_the_one_kept_last(tmp_path: Path) -> None:
    kept = KeptModel(str(tmp_path))
    for number in (1, 2):
        kept.keep(model_of_size(3, 30, seed=number), number)
        with pytest.raises(NoUsageModel if number == 1 else AssertionError):
            kept.read()  # it is not written yet
        kept.write()
        kept.read()
    assert len(kept.keep_ms) == len(kept.write_ms) == 2


def test_the_table_of_times_has_a_row_for_each_size() -> None:
    times = {"p50_ms": 19.5, "worst_ms": 180.0, "keep_p50_ms": 3.1, "keep_worst_ms": 7.0, "write_p50_ms": 50.0,
             "write_worst_ms": 170.0, "read_ms": 48.0}  # fmt: skip
    sizes = [{"brokers": 200, "bundles": 20_000, **times}]
    figures = {"sizes": sizes, "largest": {"brokers": 1_000, "bundles": 1_000_000, **times}}
    lines = decide_times({"decide_speed": {"figures": figures}}).splitlines()
    assert lines[2] == "| 200 × 20,000 | 19.5 / 180 | 3.1 / 7 | 50 / 170 | 48 |"
    assert lines[3].startswith("| 1,000 × 1,000,000 | ")
    assert decide_times({}) == "Not measured yet.\n"
