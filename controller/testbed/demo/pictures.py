"""Pictures of the page at the end of a headless demo: whoever was not there can look at what it showed.

They are taken by the distribution's Chromium, which playwright drives. A machine that lacks either gets no pictures,
and is told why; a demo does not fail for want of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from controller.domain.errors import BallastError, first_line

WIDTH, HEIGHT = 1280, 860
READY_MS = 20_000


class NoPictures(BallastError):
    """Raised where no picture can be taken."""


def find_chromium() -> str | None:
    """The distribution's Chromium."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def take_pictures(address: str, views: Mapping[str, str], folder: Path) -> list[Path]:
    """A picture of each view (file's name -> path on the page), once it is painted. Raises NoPictures."""
    chromium = find_chromium()
    if chromium is None:
        raise NoPictures("there is no Chromium here (Debian: apt-get install chromium)")
    try:
        from playwright.sync_api import Error, sync_playwright  # of the development environment
    except ImportError:
        raise NoPictures("the Python package playwright is not installed") from None
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            for name, path in views.items():
                tab.goto(address.rstrip("/") + path)
                tab.wait_for_selector("body[data-ready]", timeout=READY_MS, state="attached")
                file = folder / f"{name}.png"
                tab.screenshot(path=file)
                taken.append(file)
            browser.close()
    except Error as error:
        raise NoPictures(f"Chromium does not paint the page: {first_line(error)}") from None
    return taken
