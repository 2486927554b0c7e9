"""Acting in a real browser: log in, give a reason, see what the journal keeps. Names and reasons stay text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.domain.state import JOURNAL
from controller.process.access.named_tokens import NamedTokens, new_token
from controller.ui.page import Page
from controller.ui.security import Rules, hosts_of
from tests.component.ui.browser import PHONE, READY_MS, Tab
from tests.component.ui.conftest import serving, token_file
from tests.component.ui.test_ui_act import Journal
from tests.short_run import ShortRun, begin_skewed, info_of

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


def test_a_plan_that_waits_is_approved_on_the_page(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_today = {broker: {**info_of(broker), "authority": JOURNAL} for broker in ("b1:8080", "b2:8080", "b3:8080")}
    monkeypatch.setattr("tests.short_run.info_of", of_today.__getitem__)
    run = begin_skewed(tmp_path / "tables", brokers=3, bundles=12, hot=2)
    run.control = replace(run.control, approve_above=0)
    run.round()
    run.panes(1)
    run.round()  # the second round in which the first broker is hot
    assert run.state.plan is not None
    moved = run.state.plan.moves[0]
    people = NamedTokens(token_file(tmp_path, LINE))
    page = Page(run.settings, Rules(hosts_of("127.0.0.1", ()), people), ask_kafka=False, send=Journal(run).send)
    page.cluster.poll()
    with serving(page) as address:
        tab = Tab(browser, address)
        tab.open("/now")
        tab.page.wait_for_selector("button.act >> text=Approve", timeout=READY_MS)
        assert f"{moved.bundle}{moved.source}" in "".join(tab.page.inner_text("main").split()).replace("→", "")
        tab.page.click("button.act >> text=Approve")
        tab.page.fill("dialog input", TOKEN)  # who is not logged in does it on the way
        tab.page.click("dialog button.main")
        tab.page.wait_for_selector("dialog textarea", timeout=READY_MS)
        assert tab.page.inner_text("#who") == "anna"
        tab.page.fill("dialog textarea", "looked at the plan")
        tab.page.click("dialog button.main")
        tab.page.wait_for_selector("text=In flight: 2", timeout=READY_MS)
        assert tab.page.locator("text=A plan waits for approval").count() == 0
        tab.page.close()
        told_on_a_phone(browser, address, "approved by anna")
    accepted = [entry for entry in run.entries if entry.data.get("kind") == "approve"]
    assert [(entry.data["who"], entry.data["why"]) for entry in accepted] == [("anna", "looked at the plan")]


def told_on_a_phone(browser: Any, address: str, approval: str) -> None:
    """The list of rounds, which leaves most columns out there, says what the moves waited for or came to."""
    tab = Tab(browser, address, viewport=PHONE)
    tab.open("/rounds")
    table = tab.page.locator("table[aria-label='Rounds']")
    assert table.locator(f"td:visible >> text={approval}").count() == 1
    assert table.evaluate("table => table.scrollWidth - table.closest('.scroll').clientWidth") <= 0
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
