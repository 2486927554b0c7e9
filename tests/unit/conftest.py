"""Fixtures of unit tests."""

from __future__ import annotations

import pytest

from controller.process import clock
from tests.unit.machine import Machine


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """From now on Ballast's clocks are those of this machine; asyncio's are not."""
    made = Machine()
    monkeypatch.setattr(clock, "time", made)
    return made
