"""A tab of a real browser on the page: the distribution's Chromium, which playwright only drives."""

from __future__ import annotations

from typing import Any

READY_MS = 20_000
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


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
