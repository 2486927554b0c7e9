"""The view *Now*, and the front end that every address of a view answers with."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from controller.config.policy_values import resource_weights
from controller.ledger.partial.outline import Outline
from controller.operations.balance_score import balance_score
from controller.operations.bundles import all_bundle_rows, count_bundles
from controller.operations.overview import broker_rows
from controller.operations.reading import Reader
from controller.ui.cluster import LiveCluster
from controller.ui.page import Page
from controller.ui.security import Rules, hosts_of
from controller.ui.server import ADDRESSES, make_page_app
from controller.ui.views.now import worst_resource
from tests.short_run import ShortRun


def test_now_shows_what_the_command_line_shows(client: TestClient, run: ShortRun) -> None:
    shown = client.get("/api/now").json()
    brokers = {row["broker"]: row for row in broker_rows(Reader(run.settings))}
    assert {row["broker"] for row in shown["brokers"]} == set(brokers)
    for row in shown["brokers"]:
        of_table = brokers[row["broker"]]
        assert (row["score"], row["bundles"], row["coming"]) == (
            of_table["score"], of_table["bundles"], of_table["coming"],
        )  # fmt: skip
        if row["score"] is not None:
            assert row["used"][row["worst"]] == pytest.approx(row["score"], abs=1e-3)
    assert shown["seq"] == run.state.seq
    assert len(shown["in_flight"]) == 1
    assert shown["limit"] == pytest.approx(0.85)


def test_now_tells_who_set_the_mode_and_why(client: TestClient) -> None:
    shown = client.get("/api/now").json()
    assert shown["mode"] == "live"
    assert (shown["mode_set"]["who"], shown["mode_set"]["why"]) == ("anna@ops", "short run")
    assert shown["strategy"]["name"] == "headroom"
    assert shown["strategy"]["set"] is None


def test_the_balance_of_a_day_is_that_of_its_rounds(client: TestClient, page: Page) -> None:
    shown = client.get("/api/now").json()["balance"]
    rounds = [row for row in page.cluster.evidence().rounds() if not row["challenger"]]
    assert shown["at_ms"] == sorted(row["at_ms"] for row in rounds)
    last = balance_score(rounds[0]["max_score"], rounds[0]["mean_score"])
    assert last is not None
    assert shown["now"] == pytest.approx(last, abs=0.05)


def test_bundles_are_counted_as_their_rows_say(run: ShortRun) -> None:
    counts, rows = count_bundles(Outline.of_state(run.state)), all_bundle_rows(run.state)
    assert sum(counts.states.values()) == len(rows)
    for broker in run.state.brokers:
        assert counts.owned[broker] == sum(row["owner"] == broker for row in rows)
        assert counts.coming[broker] == sum(row["to"] == broker for row in rows)


def test_the_worst_resource_is_the_one_with_weight(run: ShortRun) -> None:
    weights = resource_weights(run.settings)
    assert worst_resource({"cpu": 0.3, "memory": 0.9, "bandwidth_in": 0.4}, weights) == "bandwidth_in"
    assert worst_resource({"memory": 0.9}, weights) is None


def test_every_view_has_an_address_that_can_be_pasted(client: TestClient) -> None:
    for address in ADDRESSES:
        answer = client.get(address.replace("{rest:path}", "b1:8080"))
        assert answer.status_code == 200, address
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert client.get("/etc/passwd").status_code == 404
    assert client.get("/static/../server.py").status_code == 404
    again = client.get("/now", headers={"If-None-Match": client.get("/now").headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_page_can_start_before_the_tables_exist(run: ShortRun, tmp_path: Path) -> None:
    settings = run.settings.model_copy(
        update={"tables": run.settings.tables.model_copy(update={"root": str(tmp_path)})}
    )
    page = Page(settings, Rules(hosts_of("127.0.0.1", ())), ask_kafka=False)
    assert not page.cluster.poll()
    with TestClient(make_page_app(page), base_url="http://localhost:8180") as client:
        answer = client.get("/api/now")
    assert (answer.status_code, answer.json()["error"]) == (503, "no_tables")
    assert str(tmp_path) in answer.json()["text"]


def test_scores_of_a_broker_are_kept_by_round(page: Page, run: ShortRun) -> None:
    kept = page.cluster.history.of_broker("b1:8080")
    rounds = {row["at_ms"]: row for row in page.cluster.evidence().rounds() if not row["challenger"]}
    assert kept["at_ms"] == sorted(rounds)
    for at_ms, score in zip(kept["at_ms"], kept["score"], strict=True):
        of_round = {row["broker"]: row["score"] for row in page.cluster.evidence().scores(rounds[at_ms])}
        assert score == pytest.approx(of_round["b1:8080"], abs=1e-4)
    assert page.cluster.history.of_broker("nobody:1")["at_ms"] == []


def test_a_follower_that_begins_again_remembers_the_same(page: Page, run: ShortRun) -> None:
    fresh = LiveCluster(run.settings)
    fresh.poll()
    assert fresh.attempts() == page.cluster.attempts() == Reader(run.settings).attempts()
    assert fresh.state().seq == run.state.seq
