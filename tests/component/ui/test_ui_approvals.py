"""What the page tells of a plan that waited, while it waits and once somebody has decided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from controller.operations.evidence_view import EvidenceView
from controller.operations.reading import Reader
from controller.ui.page import Page
from controller.ui.security import Rules, hosts_of
from controller.ui.server import make_page_app
from tests.waiting_plans import Waiting, begin_waiting


@pytest.fixture
def story(tmp_path: Path) -> Waiting:
    return begin_waiting(tmp_path / "tables")


@pytest.fixture
def page(story: Waiting) -> Page:
    page = Page(story.run.settings, Rules(hosts_of("127.0.0.1", ())), ask_kafka=False)
    page.cluster.poll()
    return page


@pytest.fixture
def client(page: Page) -> Iterator[TestClient]:
    with TestClient(make_page_app(page), base_url="http://127.0.0.1:8180") as client:
        yield client


def got(client: TestClient, path: str) -> Any:
    answer = client.get(quote(path, safe="/?=&"))
    assert answer.status_code == 200, answer.text
    return answer.json()


def said(rows: list[dict[str, Any]], decision_id: str) -> str:
    return " ".join(next(row for row in rows if row["decision_id"] == decision_id)["sentences"])


def test_a_plan_waits_until_it_is_approved_then_its_moves_are_told_as_made(
    client: TestClient, page: Page, story: Waiting
) -> None:
    move, bundle = story.moves[1], story.bundle_of(1)
    plan = got(client, f"/api/round/{story.round_id}")["plans"][0]
    assert plan["approval"] == "waiting"
    assert f"Wanted to move {bundle} " in said(plan["decisions"], move)
    assert "It is not carried out yet: the plan waits for an operator's approval." in said(plan["decisions"], move)

    story.run.command("approve", round=story.round_id)
    page.cluster.poll()
    plan = got(client, f"/api/round/{story.round_id}")["plans"][0]
    assert plan["approval"] == "approved by anna@ops"
    assert plan["plan"]["text"].endswith("(short run): 2 of 2 moves carried out")
    for rows in (
        plan["decisions"],
        got(client, f"/api/bundle/{bundle}")["decisions"],
        got(client, "/api/broker/b1:8080")["decisions"],
    ):
        assert f"Moved {bundle} from b1:8080" in said(rows, move)
        assert "anna@ops approved the plan at" in said(rows, move)
        assert "(short run), and this was carried out." in said(rows, move)
        assert "not carried out" not in said(rows, move)
        assert next(row for row in rows if row["decision_id"] == move)["done"]
    listed = {row["round_id"]: row["approval"] for row in got(client, "/api/rounds")["rounds"]}
    assert listed[story.round_id] == "approved by anna@ops"


def test_a_decline_shows_at_once_although_it_writes_no_evidence(client: TestClient, page: Page, story: Waiting) -> None:
    got(client, f"/api/round/{story.round_id}")
    before = page.cluster.versions
    story.run.command("decline", round=story.round_id)
    assert page.cluster.poll()
    assert page.cluster.versions.evidence > before.evidence
    plan = got(client, f"/api/round/{story.round_id}")["plans"][0]
    assert "anna@ops declined the plan at" in said(plan["decisions"], story.moves[0])


def test_a_page_that_starts_later_tells_the_same(page: Page, story: Waiting) -> None:
    story.run.command("decline", round=story.round_id)
    page.cluster.poll()
    late = Page(story.run.settings, Rules(hosts_of("127.0.0.1", ())), ask_kafka=False)
    late.cluster.poll()
    told = EvidenceView(Reader(story.run.settings)).plans()
    assert told == page.cluster.evidence().plans() == late.cluster.evidence().plans()
    assert told[0]["phase"] == "declined"
