"""The view *Pulsar* on the journal of a driven Pulsar cluster: requirements, open orders, outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from controller.config.load import load_settings
from controller.ledger.tables import TableRoot
from controller.ui.page import Page
from controller.ui.security import Rules, hosts_of
from controller.ui.server import make_page_app
from tests.component.ui.driven import write_driven
from tests.unit.control.observed_driver import BUNDLES

FIRST, SECOND, THIRD, _ = map(str, BUNDLES)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    write_driven(TableRoot(tmp_path))
    page = Page(
        load_settings(None, "local", [f"tables.root={tmp_path}"], env={}), Rules(hosts_of("127.0.0.1", ())), False
    )
    page.cluster.poll()
    with TestClient(make_page_app(page), base_url="http://127.0.0.1:8180") as client:
        yield client


def test_orders_are_told_with_their_outcomes(client: TestClient) -> None:
    shown = client.get("/api/pulsar").json()
    assert shown["driven"]
    (order,) = shown["orders"]
    assert (order["bundle"], order["source"], order["target"], order["kind"]) == (SECOND, "b:1", "c:1", "move")
    assert shown["outcomes"] == {"moved": 1}
    (ended,) = shown["ended"]
    assert (ended["bundle"], ended["source"], ended["target"], ended["owner"]) == (FIRST, "a:1", "b:1", "b:1")


def test_what_is_required_is_judged_by_what_the_journal_knows(client: TestClient) -> None:
    shown = client.get("/api/pulsar").json()
    missed = {(row["broker"], row["requirement"]) for row in shown["requirements"] if row["state"] == "not met"}
    assert missed == {("c:1", "loadBalancerSheddingEnabled=false")}
    assert "c:1: loadBalancerSheddingEnabled is true" in shown["obstacle"]


def test_observed_bundles_are_on_every_view(client: TestClient) -> None:
    assert client.get("/api/now").json()["in_flight"][0]["bundle"] == SECOND
    bundle = client.get(f"/api/bundle/{SECOND}").json()
    assert bundle["sentence"] == "It is on its way from b:1 to c:1 (ordered)."
    held = {row["bundle"] for row in client.get("/api/broker/c:1").json()["bundles"]}
    assert held == {SECOND, THIRD}
    assert client.get("/api/search?q=t/n/topic").json()["topics"][0]["owner"] in ("a:1", "b:1", "c:1")
    assert len(client.get("/api/map").content) > 100
