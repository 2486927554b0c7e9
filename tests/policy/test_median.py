"""The median is numpy's, and a round does without what numpy's would import."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.policy.view.median import median
from tests.examples import examples

FLOATS = st.floats(-1e12, 1e12) | st.integers(-3, 3).map(float)
A_ROUND = """
import sys
from controller.decide.line import parse_line
from controller.decide.session import DecideSession
from controller.domain.settings.policy import PolicySettings
broker = '{"cpu": [%d, 100], "bundles": {"t/ns/0x0000000%d_0x1": [10, 10, 1e6, 1e6, 4, 4, 4]}}'
brokers = ", ".join(f'"b{at}": {broker % (30 * at, at)}' for at in range(1, 4))
session = DecideSession("steady", PolicySettings())
for now in (0, 60_000):
    session.decide(session.snapshot(parse_line(f'{{"now": {now}, "brokers": {{{brokers}}}}}'.encode())))
print("numpy.ma" in sys.modules)
"""


@given(st.lists(FLOATS, min_size=1, max_size=30))
@settings(max_examples=examples(200))
def test_it_is_the_median_of_numpy(values: list[float]) -> None:
    assert median(np.array(values)) == np.median(values)


def test_two_rounds_do_not_import_masked_arrays() -> None:
    done = subprocess.run([sys.executable, "-c", A_ROUND], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
