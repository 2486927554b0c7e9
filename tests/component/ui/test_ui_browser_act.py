"""Acting in a real browser: log in, give a reason, see what the journal keeps. Names and reasons stay text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.process.access.named_tokens import NamedTokens, new_token
from controller.ui.page import Page
from controller.ui.security import Rules, hosts_of
from tests.component.ui.browser import PHONE, READY_MS, Tab
from tests.component.ui.conftest import serving, token_file
from tests.component.ui.test_ui_act import Journal
from tests.short_run import ShortRun

pytestmark = pytest.mark.ui
TOKEN, LINE = new_token("anna")
HOSTILE = "<img src=x onerror=document.title='owned'><b>upgrade</b>"
NAMESPACES = ("shop/<b>bold<b>", "shöp/日本-%41&x=1#y?z", "s/" + "n" * 200)
LONG_BROKER = "b" * 240 + ":8080"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Journal:
    """A cluster whose names are as odd as names may be."""
    run = ShortRun(tmp_path_factory.mktemp("odd") / "tables")
    for broker in ("b1:8080", LONG_BROKER):
        run.join(broker)
    for namespace in NAMESPACES:
        run.command("create_namespace", namespace=namespace, bundles=2)
    run.look_up(*(record.bundle for record in run.state.bundles.values()))
    run.load.rates = dict.fromkeys(run.state.bundles, 1_000.0)
    run.panes(4)
    run.round()
    return Journal(run)


@pytest.fixture(scope="module")
def served(journal: Journal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    people = NamedTokens(token_file(tmp_path_factory.mktemp("people"), LINE))
    rules = Rules(hosts_of("127.0.0.1", ()), people)
    page = Page(journal.run.settings, rules, ask_kafka=False, send=journal.send)
    page.cluster.poll()
    with serving(page) as address:
        yield address


def log_in(tab: Tab) -> None:
    tab.open("/now")
    tab.page.click("text=Log in")
    tab.page.fill("dialog input", TOKEN)
    tab.page.click("dialog button.main")
    tab.page.wait_for_selector("#who >> text=anna", timeout=READY_MS)


def test_a_command_needs_a_log_in_and_a_reason_and_its_words_stay_text(
    browser: Any, served: str, journal: Journal
) -> None:
    tab = Tab(browser, served)
    log_in(tab)
    assert TOKEN not in tab.page.url
    tab.page.click("text=Change mode")
    tab.page.select_option("dialog select", "paused")
    before = journal.sent
    tab.page.click("dialog button.main")
    assert tab.page.locator("dialog[open]").count() == 1, "a reason is asked for"
    assert journal.sent == before
    tab.page.fill("dialog textarea", HOSTILE)
    tab.page.click("dialog button.main")
    tab.page.wait_for_selector(".tile >> text=paused", timeout=READY_MS)
    assert HOSTILE in tab.page.inner_text("main")
    assert tab.page.locator("main img, main b >> text=upgrade").count() == 0
    assert "owned" not in tab.page.title()
    assert tab.complaints == [], "the policy had nothing to forbid"
    tab.page.close()


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_odd_names_lead_where_they_should(browser: Any, served: str, namespace: str) -> None:
    tab = Tab(browser, served, viewport=PHONE)
    tab.open("/search")
    tab.page.fill("#query", namespace)
    tab.page.keyboard.press("Enter")
    link = f"a >> text={namespace}/0x00000000_0x80000000"
    tab.page.wait_for_selector(link, timeout=READY_MS)
    tab.page.click(link)
    tab.page.wait_for_selector('body[data-ready="bundle"]', timeout=READY_MS, state="attached")
    assert tab.page.inner_text("h1") == f"{namespace}/0x00000000_0x80000000"
    tab.page.reload()
    tab.page.wait_for_selector('body[data-ready="bundle"]', timeout=READY_MS, state="attached")
    assert tab.page.inner_text("h1") == f"{namespace}/0x00000000_0x80000000"
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert tab.complaints == []
    tab.page.close()


def test_a_very_long_name_of_a_broker_widens_no_view(browser: Any, served: str) -> None:
    for path in ("/now", f"/broker/{LONG_BROKER}", "/rounds", "/map", "/plan"):
        tab = Tab(browser, served, viewport=PHONE)
        tab.open(path)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        tab.page.close()
