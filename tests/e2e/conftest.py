"""Fixtures of all end-to-end tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="package", autouse=True)
def jvms(short_lived_jvms: None) -> None:
    """The job, Kafka and whatever else these tests start."""
