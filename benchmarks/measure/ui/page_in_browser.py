"""Measures the operators' page in a real browser at its largest. `python -m benchmarks page_in_browser`

1,000 brokers, 100,000 bundles, a journal of 1,000,000 entries, served by `ballast ui`; the distribution's Chromium
opens each view REPEATS times. Measured from the start of the navigation: the first paint with content, and when the
view shows its data. Measured of interactions: from the event to the frame that shows its effect. Medians.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure.result import Result, Target
from benchmarks.measure.ui.large_cluster import LargeCluster, Size
from controller.ledger.tables import TableRoot
from controller.process.children import Child
from controller.process.clock import wall_ms
from controller.testbed.demo.pictures import find_chromium

QUICK = Size(brokers=20, bundles=2_000, entries=10_000, rounds=60, panes=6)
REPEATS = 5
FIRST_PAINT_MS, INTERACTION_MS = 1_000.0, 100.0
READY_MS = 60_000
VIEWPORT = (1280, 860)

# Notes when the view is painted with its data.
NOTE_READY = """
new MutationObserver(() => {
  if (document.body && document.body.dataset.ready && !window.readyMs) window.readyMs = performance.now();
}).observe(document, { attributes: true, subtree: true, childList: true });
"""
# From now to the second frame from now: the first one shows what `deed` changed.
TIMED = """
async (deed) => {
  const from = performance.now();
  await new Function(deed)();
  await new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)));
  return performance.now() - from;
}
"""
# name -> view, what a person does
INTERACTIONS: Mapping[str, tuple[str, str]] = {
    "now_sort": ("/now", "document.querySelectorAll('th .sort')[0].click()"),
    "now_scroll": ("/now", "document.querySelector('.scroll').scrollTop = 20000 * Math.random()"),
    "map_point": (
        "/map",
        "const box = document.querySelector('canvas.above').getBoundingClientRect();"
        "document.querySelector('canvas.above').dispatchEvent(new PointerEvent('pointermove', {"
        "clientX: box.left + box.width * Math.random(), clientY: box.top + box.height * Math.random()}))",
    ),
    "map_key": (
        "/map",
        "document.querySelector('canvas.above').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))",
    ),
    "map_colour": (
        "/map",
        "const choice = document.querySelector('select');"
        "choice.value = choice.value === 'bundle' ? 'broker' : 'bundle'; choice.dispatchEvent(new Event('change'))",
    ),
}


def run(folder: Path, quick: bool) -> Result:
    """Write the tables, serve them, open every view."""
    size = QUICK if quick else Size()
    root = TableRoot(folder / "tables")
    large = LargeCluster(root, size, wall_ms())
    large.write()
    chromium = find_chromium()
    if chromium is None:
        return Result("page_in_browser", {}, [], ["there is no Chromium here"])
    sets = ("--set", f"tables.root={root.root}", "--set", "kafka.bootstrap_servers=127.0.0.1:1")
    argv = [sys.executable, "-m", "controller.cli.main", "ui", "--port", "0", *sets]
    page = Child("page", argv, folder / "page.log")
    try:
        address = page.wait_for_line("http://", 120).strip().rstrip("/")
        figures = _measure(chromium, address, _views(large))
    finally:
        page.stop(15)
    figures = {"brokers": size.brokers, "bundles": size.bundles, "entries": size.entries, **figures}
    targets = [Target(f"views.{name}.first_paint_ms", FIRST_PAINT_MS, "ms") for name in figures["views"]]
    targets += [Target(f"interactions_ms.{name}", INTERACTION_MS, "ms") for name in figures["interactions_ms"]]
    return Result("page_in_browser", figures, targets, figures.pop("complaints"))


def _views(large: LargeCluster) -> Mapping[str, str]:
    rounds = large.round_ids()
    return {
        "now": "/now",
        "broker": f"/broker/{large.brokers[len(large.brokers) // 2]}",
        "bundle": f"/bundle/{large.bundles[len(large.bundles) // 2]}",
        "rounds": "/rounds",
        "round": f"/round/{rounds[len(rounds) // 2]}",
        "map": "/map",
        "search": "/search?q=0xfff",
    }


def _measure(chromium: str, address: str, views: Mapping[str, str]) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": VIEWPORT[0], "height": VIEWPORT[1]})
        tab.add_init_script(NOTE_READY)
        _open(tab, address, "/now", retry=True)  # `ballast ui` reads the tables first
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        found = {name: _summary([_open(tab, address, path) for _ in range(REPEATS)]) for name, path in views.items()}
        interactions = {}
        for name, (path, deed) in INTERACTIONS.items():
            _open(tab, address, path)
            took = [float(tab.evaluate(TIMED, deed)) for _ in range(4 * REPEATS)]
            interactions[name] = round(statistics.median(took), 1)
        browser.close()
    return {"views": found, "interactions_ms": interactions, "complaints": complaints}


def _open(tab: Any, address: str, path: str, retry: bool = False) -> tuple[float, float]:
    """First paint with content, and the data's, in ms from the start of the navigation."""
    tab.goto(address + path)
    wanted = "body[data-ready]:not([data-ready=error])" if retry else "body[data-ready]"
    tab.wait_for_selector(wanted, timeout=READY_MS, state="attached")
    first = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return float(first), float(tab.evaluate("window.readyMs"))


def _summary(seen: Sequence[tuple[float, float]]) -> dict[str, float]:
    first, ready = (round(statistics.median(of), 1) for of in zip(*seen, strict=True))
    return {"first_paint_ms": first, "data_ms": ready}
