"""The tables of one short run, for every Spark test that only reads them."""

from __future__ import annotations

import pytest

from tests.short_run import ShortRun, play


@pytest.fixture(scope="session")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    """Read only: nothing may be written into its tables."""
    return play(tmp_path_factory.mktemp("short-run") / "tables")
