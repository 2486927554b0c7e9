"""A key comes with the code that reads it: one that nobody reads promises what nothing keeps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.config.settings import DEFINITIONS
from controller.domain.settings.pulsar import KNOBS_BY_PULSAR_NAME

ROOT = Path(__file__).resolve().parents[3]
SECTIONS = ROOT / "controller" / "config" / "sections"
SOURCES = [
    path.read_text(encoding="utf-8")
    for folder in ("controller", "jobs")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if SECTIONS not in path.parents
]


@pytest.mark.covers("configured-by-file")
@pytest.mark.parametrize("path", sorted(DEFINITIONS))
def test_every_key_is_read_somewhere(path: str) -> None:
    name = path.rpartition(".")[2]
    read = re.compile(rf"\.{KNOBS_BY_PULSAR_NAME[name] if path.startswith('pulsar.') else name}\b")
    assert any(read.search(text) for text in SOURCES), f"{path}: nothing reads it; give it a reader or remove it"
