"""The page in a real browser: every view is painted without an error, by keyboard, on a phone, in the dark.

Needs the distribution's Chromium (Debian: `apt-get install chromium`); playwright only drives it. With
BALLAST_SCREENSHOTS=1 the pictures of docs/images are made anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from controller.process.paths import ROOT
from tests.component.ui.conftest import served_page
from tests.short_run import ShortRun

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.ui,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
]
IMAGES = ROOT / "docs" / "images"
READY_MS = 20_000
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def served(run: ShortRun) -> Iterator[str]:
    """The address of a page on the tables of the short run."""
    with served_page(run) as (_, address):
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


class Tab:
    """One tab, and what its console complains about."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.page = browser.new_page(**{"viewport": DESK, **options})
        self.url, self.complaints = url, list[str]()
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: str) -> str:
        """Open a view and wait until it is painted; returns what it calls itself."""
        self.page.goto(self.url + path)
        self.page.wait_for_selector("body[data-ready]", timeout=READY_MS, state="attached")
        return str(self.page.get_attribute("body", "data-ready"))


@pytest.fixture
def tab(browser: Any, served: str) -> Iterator[Tab]:
    opened = Tab(browser, served)
    yield opened
    opened.page.close()


def views_of(run: ShortRun) -> dict[str, str]:
    """View -> a path of it that shows something."""
    state = run.state
    bundle = next(name for name, record in sorted(state.bundles.items()) if record.by is not None)
    broker = state.bundles[bundle].by.broker  # type: ignore[union-attr]
    return {
        "now": "/now",
        "broker": f"/broker/{broker}",
        "bundle": f"/bundle/{bundle}",
        "plan": "/plan",
        "rounds": "/rounds",
        "round": f"/round/{state.round_id}",
        "map": "/map",
        "search": "/search?q=" + bundle.split("/")[0],
    }


def test_every_view_is_painted_without_an_error(browser: Any, served: str, run: ShortRun) -> None:
    for theme in ("light", "dark"):
        for view, path in views_of(run).items():
            tab = Tab(browser, served, color_scheme=theme)
            assert tab.open(path) == view, path
            assert tab.complaints == [], f"{path} ({theme})"
            if os.environ.get("BALLAST_SCREENSHOTS") and theme == "light":
                tab.page.screenshot(path=IMAGES / f"ui_{view}.png")
            tab.page.close()


def test_no_view_is_wider_than_a_phone(browser: Any, served: str, run: ShortRun) -> None:
    for view, path in views_of(run).items():
        tab = Tab(browser, served, viewport=PHONE)
        tab.open(path)
        wide = tab.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], f"{view} is {wide} px wide"
        tab.page.close()


def test_the_keyboard_is_enough(tab: Tab) -> None:
    tab.open("/now")
    tab.page.keyboard.press("/")
    assert tab.page.evaluate("document.activeElement.tagName") == "INPUT"
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("g")
    tab.page.keyboard.press("m")
    tab.page.wait_for_selector('body[data-ready="map"]', timeout=READY_MS, state="attached")
    assert tab.page.url.endswith("/map")


def test_a_link_opens_the_same_view_in_another_tab(browser: Any, tab: Tab, served: str) -> None:
    tab.open("/now")
    tab.page.locator("td a").first.click()
    tab.page.wait_for_selector('body[data-ready="broker"]', timeout=READY_MS, state="attached")
    address, heading = tab.page.url, tab.page.inner_text("h1")
    other = Tab(browser, served)
    assert other.open(address.removeprefix(served)) == "broker"
    assert other.page.inner_text("h1") == heading
    other.page.close()
