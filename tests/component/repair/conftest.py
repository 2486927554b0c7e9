"""Tables to damage: written once, copied for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.component.repair.damaged_tables import Tables, write_tables


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine") / "tables"
    write_tables(folder)
    return folder


@pytest.fixture
def tables(pristine: Path, tmp_path: Path) -> Tables:
    return Tables(pristine, tmp_path / "tables")
