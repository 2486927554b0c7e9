"""docs/write_a_strategy.md shows the example that is tested, whole."""

from __future__ import annotations

import re

from controller.process.paths import ROOT
from tests.plugins import GENTLE

PAGE = (ROOT / "docs" / "write_a_strategy.md").read_text()


def shown(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_shows_the_tested_files() -> None:
    assert shown("python") == [(GENTLE / "ballast_gentle.py").read_text()]
    assert shown("toml") == [(GENTLE / "pyproject.toml").read_text()]


def test_the_example_is_short() -> None:
    assert len((GENTLE / "ballast_gentle.py").read_text().splitlines()) <= 60
