"""The page in a real browser: every view is painted without an error, by keyboard, on a phone, in the dark.

Needs the distribution's Chromium (Debian: `apt-get install chromium`); playwright only drives it. With
BALLAST_SCREENSHOTS=1 the pictures of docs/images are made anew.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from controller.config.load import load_settings
from controller.domain.entries import Entry, Kind
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.evidence_view import EvidenceView
from controller.operations.liveness import Heard
from controller.operations.reading import Reader
from controller.process.clock import wall_ms
from controller.process.paths import ROOT
from controller.testbed.demo.pictures import HEIGHT, WIDTH, take_pictures
from tests.component.ui.browser import DESK, PHONE, READY_MS, Tab
from tests.component.ui.conftest import served_page
from tests.component.ui.driven import write_driven
from tests.short_run import INSTANCE, ShortRun, play

pytestmark = pytest.mark.ui
IMAGES = ROOT / "docs" / "images"
STORY_MS = 150_000  # of the short run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    """The story of a short run that has just ended: pictures show what an operator sees, not what is months old."""
    return play(tmp_path_factory.mktemp("recent") / "tables", (wall_ms() - STORY_MS) // 10_000 * 10_000)


@pytest.fixture(scope="module")
def served(run: ShortRun) -> Iterator[str]:
    """The address of a page on the tables of the short run, whose controller still lives."""
    with served_page(run.settings, lambda: Heard(INSTANCE, wall_ms())) as (_, address):
        yield address


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page on a Pulsar cluster that is driven: an open order, one that ended, a broker not adopted."""
    root = TableRoot(tmp_path_factory.mktemp("driven"))
    write_driven(root)
    with served_page(load_settings(None, "local", [f"tables.root={root.root}"], env={})) as (_, address):
        yield address


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


def keep(tab: Tab, name: str) -> None:
    """A picture for docs/images, where they are wanted anew."""
    if os.environ.get("BALLAST_SCREENSHOTS"):
        tab.page.screenshot(path=IMAGES / f"ui_{name}.png")


def test_every_view_is_painted_without_an_error(browser: Any, served: str, run: ShortRun, pulsar: str) -> None:
    for theme in ("light", "dark"):
        for view, path in {**views_of(run), "pulsar": "/pulsar"}.items():
            tab = Tab(browser, pulsar if view == "pulsar" else served, color_scheme=theme)
            assert tab.open(path) == view, path
            assert tab.complaints == [], f"{path} ({theme})"
            if view == "now":
                tab.page.wait_for_selector("text=running")
            if theme == "light":
                keep(tab, view)
            elif view == "map":
                keep(tab, "dark")
            tab.page.close()


def test_no_view_is_wider_than_a_phone(browser: Any, served: str, run: ShortRun, pulsar: str) -> None:
    for view, path in {**views_of(run), "pulsar": "/pulsar"}.items():
        tab = Tab(browser, pulsar if view == "pulsar" else served, viewport=PHONE)
        tab.open(path)
        wide = tab.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], f"{view} is {wide} px wide"
        if view == "now":
            keep(tab, "phone")
        tab.page.close()


def test_a_decision_that_is_opened_fits_a_phone(browser: Any, served: str, run: ShortRun) -> None:
    """Its candidates are blocks of lines there: no column is so narrow that a sentence becomes a tower of words."""
    decided = EvidenceView(Reader(run.settings)).decisions(skips=False)
    moved = next(row for row in decided if row["kind"] == "transfer" and row["outcome"] == "executed")
    tab = Tab(browser, served, viewport=PHONE)
    tab.open(f"/round/{moved['round_id']}")
    tab.page.locator(".decisions summary").first.click()
    results = tab.page.locator("table[aria-label='Candidates'] td[data-column='Result']")
    results.first.wait_for(timeout=READY_MS)
    tab.page.evaluate(
        """for (const one of document.querySelectorAll("td[data-column='Bundle'] a"))
             one.textContent = 'demo/metrics/0x90000000_0xa0000000'"""
    )
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert results.first.bounding_box()["width"] > PHONE["width"] / 2
    cut = tab.page.locator("table[aria-label='Candidates']").evaluate(
        """table => Math.max(table.scrollWidth - table.closest('.scroll').clientWidth,
                            ...[...table.querySelectorAll('td a')].map((one) => one.scrollWidth - one.clientWidth))"""
    )
    assert cut <= 0, f"{cut} px are hidden"
    tab.page.close()


def test_the_rounds_fit_a_phone(browser: Any, served: str) -> None:
    tab = Tab(browser, served, viewport=PHONE)
    tab.open("/rounds")
    table = tab.page.locator("table[aria-label='Rounds']")
    over = table.evaluate("table => table.scrollWidth - table.closest('.scroll').clientWidth")
    assert over <= 0, f"{over} px are hidden"
    tab.page.close()


def test_the_maps_legend_fits_the_narrowest_window(browser: Any, served: str) -> None:
    tab = Tab(browser, served, viewport={"width": 240, "height": 500})
    tab.open("/map")
    legend = tab.page.locator(".scale").bounding_box()
    last = tab.page.locator(".scale i").last.bounding_box()
    assert legend["x"] + legend["width"] <= 240
    assert last["x"] + last["width"] <= legend["x"] + legend["width"] + 1, "no step is cut off"
    assert last["height"] < 30, "nothing is broken over lines"
    tab.page.close()


def test_a_brokers_name_is_never_broken_over_lines(browser: Any, served: str, run: ShortRun) -> None:
    decided = EvidenceView(Reader(run.settings)).decisions(skips=False)
    moves = [row for row in decided if row["kind"] == "transfer" and row["outcome"] == "executed"]
    tab = Tab(browser, served, viewport=PHONE)
    judged = next(
        m for m in moves if tab.page.request.get(f"{served}/api/realised/bundle/{m['bundle']}").json()["rows"]
    )
    for path in (f"/round/{judged['round_id']}", f"/bundle/{judged['bundle']}", "/now"):
        tab.open(path)
        if path != "/now":
            tab.page.wait_for_selector("table[aria-label='Predicted and realised']", timeout=READY_MS)
        # as long as the names of the demo
        heights = tab.page.evaluate(
            """[...document.querySelectorAll('td a[href^="/broker/"]')].map((one) => {
                 one.textContent = 'broker-1';
                 return one.getClientRects().length * one.offsetHeight;
               })"""
        )
        assert heights, path
        assert max(heights) < 30, path
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    tab.page.close()


def test_a_time_is_never_broken_over_lines(browser: Any, served: str) -> None:
    for viewport in (DESK, PHONE):
        tab = Tab(browser, served, viewport=viewport)
        tab.open("/rounds")
        heights = tab.page.evaluate("[...document.querySelectorAll('.when')].map(one => one.offsetHeight)")
        assert heights
        assert max(heights) < 30
        tab.page.close()


@pytest.mark.parametrize(
    "path", ["/broker/nobody", "/bundle/no/where/0x00000000_0x10000000", "/round/777777", "/bundle/<b>no</b>/&amp;/x"]
)
def test_what_does_not_exist_is_no_empty_frame(tab: Tab, path: str) -> None:
    assert tab.open(path) == "error"
    assert tab.page.locator("section:visible").count() == 0
    assert tab.page.locator("main b").count() == 0, "a name is text"
    tab.page.locator("text=Search for it").click()
    tab.page.wait_for_selector('body[data-ready="search"]', timeout=READY_MS, state="attached")
    assert "Nothing here is named" in tab.page.inner_text("main")


def test_an_empty_cluster_says_so_in_every_view(browser: Any, tmp_path: Path) -> None:
    """A controller has started; no broker has registered, nothing was ever reported."""
    root = TableRoot(tmp_path)
    root.create_all()
    Journal(root).commit([Entry(1, Kind.CONTROLLER_STARTED, "c1", 0, wall_ms())], "c1", 0)
    told = {
        "/now": "No broker has registered.",
        "/rounds": "No round has run yet.",
        "/map": "There are no bundles yet.",
        "/plan": "Nothing to show yet. This page tries again.",
        "/search": "Type a topic",
        "/pulsar": "No Pulsar cluster is driven here.",
    }
    with served_page(load_settings(None, "local", [f"tables.root={root.root}"], env={})) as (_, address):
        for path, text in told.items():
            tab = Tab(browser, address)
            tab.open(path)
            assert text in tab.page.inner_text("main"), path
            tab.page.close()


def test_the_pictures_of_a_demo_show_the_page(served: str, tmp_path: Path) -> None:
    """In a thread of its own, because this one drives another browser."""
    with ThreadPoolExecutor(1) as thread:
        (file,) = thread.submit(take_pictures, served, {"now": "/now"}, tmp_path / "pictures").result(120)
    content = file.read_bytes()
    assert file.name == "now.png"
    assert content.startswith(b"\x89PNG")
    assert struct.unpack(">II", content[16:24]) == (WIDTH, HEIGHT)


def test_the_keyboard_is_enough(tab: Tab) -> None:
    tab.open("/now")
    tab.page.keyboard.press("/")
    assert tab.page.evaluate("document.activeElement.tagName") == "INPUT"
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("g")
    tab.page.keyboard.press("m")
    tab.page.wait_for_selector('body[data-ready="map"]', timeout=READY_MS, state="attached")
    assert tab.page.url.endswith("/map")


@pytest.mark.parametrize("keys", [("j", "j"), ("ArrowDown", "ArrowDown"), ("j", "j", "j", "k")], ids=" ".join)
@pytest.mark.parametrize(("path", "opens"), [("/now", "broker"), ("/rounds", "round")])
def test_keys_go_from_row_to_row_without_a_tab_first(tab: Tab, path: str, opens: str, keys: tuple[str, ...]) -> None:
    tab.open(path)
    for key in keys:
        tab.page.keyboard.press(key)
    second = tab.page.locator("tbody tr:not(.spacer)").nth(1).locator("a").first.inner_text()
    assert tab.page.evaluate("document.activeElement.textContent") == second
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector(f'body[data-ready="{opens}"]', timeout=READY_MS, state="attached")
    assert second in tab.page.inner_text("h1")


def test_arrows_scroll_where_no_row_is_seen(browser: Any, served: str) -> None:
    tab = Tab(browser, served, viewport={"width": 1280, "height": 320})
    tab.open("/rounds")
    tab.page.evaluate("document.querySelector('.scroll').style.marginTop = '2000px'")
    tab.page.keyboard.press("ArrowDown")
    assert tab.page.evaluate("document.activeElement.id") == "view"
    tab.page.keyboard.press("j")
    assert tab.page.evaluate("Boolean(document.activeElement.closest('tbody tr'))")
    tab.page.close()


@pytest.mark.parametrize("key", ["j", "ArrowRight", "ArrowDown"])
def test_keys_go_over_the_map_without_a_tab_first(tab: Tab, key: str) -> None:
    tab.open("/map")
    tab.page.keyboard.press(key)
    pointed = tab.page.inner_text(".told b")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector('body[data-ready="bundle"]', timeout=READY_MS, state="attached")
    assert pointed in tab.page.inner_text("h1")


def test_what_is_pointed_at_stays_while_the_page_follows_the_cluster(tab: Tab, run: ShortRun) -> None:
    """A row that has changed is drawn anew, and so is the map."""
    tab.open("/now")
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("j")
    broker = tab.page.evaluate("document.activeElement.textContent")
    tab.page.route("**/api/now", lambda route: route.fulfill(json=with_more_bundles(route.fetch().json())))
    run.command("mode", mode=run.state.mode)
    tab.page.wait_for_selector("td >> text=4711", timeout=READY_MS)
    assert tab.page.evaluate("document.activeElement.textContent") == broker
    tab.open("/map")
    tab.page.keyboard.press("j")
    pointed = tab.page.inner_text(".told")
    with tab.page.expect_response("**/api/map", timeout=READY_MS):
        run.command("mode", mode=run.state.mode)
    tab.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert tab.page.inner_text(".told") == pointed


def with_more_bundles(document: Any) -> Any:
    return {**document, "brokers": [{**row, "bundles": 4711, "coming": 0} for row in document["brokers"]]}


def test_a_link_opens_the_same_view_in_another_tab(browser: Any, tab: Tab, served: str) -> None:
    tab.open("/now")
    tab.page.locator("td a").first.click()
    tab.page.wait_for_selector('body[data-ready="broker"]', timeout=READY_MS, state="attached")
    address, heading = tab.page.url, tab.page.inner_text("h1")
    other = Tab(browser, served)
    assert other.open(address.removeprefix(served)) == "broker"
    assert other.page.inner_text("h1") == heading
    other.page.close()
