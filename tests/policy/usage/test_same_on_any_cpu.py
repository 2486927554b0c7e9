"""What rounds learn and decide is the same to the last bit, whatever vector instructions numpy finds on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest

from tests.policy.usage.field_hashes import list_features

ROUNDS, SCENARIOS = 8, ("skew", "hetero", "drift")
FEATURES = list_features()


@cache
def hashes(*disabled: str) -> tuple[set[str], list[list[str]]]:
    """The features that a process had, and its lines: scenario, round, hash of the model, hash of the moves, moves."""
    program = [sys.executable, "-m", "tests.policy.usage.field_hashes", str(ROUNDS), *SCENARIOS]
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(disabled)}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    first, *lines = (line.split() for line in done.stdout.splitlines())
    return set(first[1:]), lines


@pytest.mark.skipif(not FEATURES, reason="numpy has nothing to choose from on this CPU")
@pytest.mark.parametrize("from_on", range(len(FEATURES)))
def test_a_replay_without_vector_instructions_comes_to_the_same_hashes(from_on: int) -> None:
    usual, disabled = hashes(), FEATURES[from_on:]
    fewer = hashes(*disabled)
    assert usual[0] - fewer[0] == set(disabled), "they were switched off"
    assert fewer[1] == usual[1]
    moved = {name for name, *_, moves in usual[1] if int(moves) > 0}
    assert moved == {"steady", "headroom", *SCENARIOS}, "there was something to decide"
