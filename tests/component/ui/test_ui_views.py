"""The views of brokers, bundles, rounds, the map and the search, on the tables of a short run."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from starlette.testclient import TestClient

from controller.domain.ids import Bundle, topic_hash
from controller.domain.ownership import State
from controller.operations.evidence_view import EvidenceView
from controller.operations.explain import explain
from controller.operations.reading import Reader
from controller.process.clock import wall_ms
from controller.service.rounds.next_round import plan_next_round
from controller.ui.page import Page
from controller.ui.views.map import FIELDS, NOBODY
from tests.short_run import ShortRun


def got(client: TestClient, path: str) -> Any:
    answer = client.get(quote(path, safe="/?=&"))
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def moved(run: ShortRun) -> dict[str, Any]:
    """An executed move of a round."""
    rows = EvidenceView(Reader(run.settings)).decisions(skips=False)
    return next(row for row in rows if row["kind"] == "transfer" and row["outcome"] == "executed" and "before" in row)


def test_a_broker_tells_its_load_and_what_it_holds(client: TestClient, run: ShortRun) -> None:
    shown = got(client, "/api/broker/b1:8080")
    assert shown["broker"]["state"] == "alive"
    assert len(shown["history"]["at_ms"]) == len(shown["history"]["score"]) > 3
    names = {row["bundle"] for row in shown["bundles"]}
    assert set(run.owned_by("b1:8080")) <= names
    rates = [row["throughput"] or 0 for row in shown["bundles"]]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 0


def test_a_broker_tells_the_same_decisions_as_explain(client: TestClient, run: ShortRun, page: Page) -> None:
    told = explain(Reader(run.settings), "b1:8080")
    shown = got(client, "/api/broker/b1:8080")
    assert [row["decision_id"] for row in shown["decisions"]] == [row["decision_id"] for row in told["decisions"]]
    assert len(shown["decisions"]) > 5
    assert shown["last_round"]["round_id"] == told["last_round"]["round_id"]
    if told["considered"]:
        assert shown["considered"]["decision_id"] == told["considered"]["decision_id"]


def test_a_bundle_tells_its_owners_and_the_journal(client: TestClient, run: ShortRun, moved: dict[str, Any]) -> None:
    shown = got(client, f"/api/bundle/{moved['bundle']}")
    entries = explain(Reader(run.settings), moved["bundle"])["journal"]
    assert [row["seq"] for row in shown["entries"]] == [row["seq"] for row in reversed(entries)]
    owners = [row["owner"] for row in shown["owners"]]
    assert moved["source"] in owners
    assert moved["target"] in owners
    assert all(a != b for a, b in pairwise(owners))
    assert "owns it" in shown["sentence"]
    assert shown["stayed"]["sentence"]


def test_why_no_round_weighed_a_bundle_is_told_in_sentences(client: TestClient) -> None:
    told = client.get("/api/bundle/shop/clicks/0x40000000_0x60000000").json()["stayed"]["sentence"]
    assert told == (
        "None of the last 6 rounds weighed moving it. The newest wanted to relieve its broker b1:8080 (load 69.7 %, "
        "level 45.9 %); this bundle was not among the best to take. 5 bundles of it could not move: moved too recently."
    )


def test_a_move_is_told_in_sentences(client: TestClient, moved: dict[str, Any]) -> None:
    shown = got(client, f"/api/decision/{moved['decision_id']}")
    said = " ".join(shown["sentences"])
    assert f"Moved {moved['bundle']} from {moved['source']} to {moved['target']}" in said
    assert re.search(rf"Predicted: {moved['source']} from \d+\.\d % to \d+\.\d %, {moved['target']} from", said)
    assert sum(row["chosen"] for row in shown["candidates"]) == 1
    assert all(row["result"] for row in shown["candidates"])
    assert shown["figures"]


def test_the_load_of_a_bundle_over_time(client: TestClient, run: ShortRun) -> None:
    name = run.owned_by("b1:8080")[0]
    shown = got(client, f"/api/load/{name}")
    assert len(shown["at_ms"]) == len(shown["throughput"]) > 3
    assert shown["at_ms"] == sorted(shown["at_ms"])
    rows = Reader(run.settings).rows("bundle_load", "as_of_ms").to_pylist()
    newest = max((r for r in rows if r["bundle"] == name), key=lambda r: r["as_of_ms"])
    assert shown["throughput"][-1] == pytest.approx(newest["throughput_in"] + newest["throughput_out"])
    assert got(client, "/api/load/shop/orders/0x00000000_0x00000001")["at_ms"] == []


def test_rounds_are_a_timeline_with_a_plan_each(client: TestClient, page: Page) -> None:
    shown = got(client, "/api/rounds")
    ids = [row["round_id"] for row in shown["rounds"]]
    assert ids == [row["round_id"] for row in page.cluster.evidence().rounds() if not row["challenger"]]
    assert not any(name.endswith("-lost") for name in ids)
    older = got(client, f"/api/rounds?before={shown['rounds'][2]['at_ms']}")
    assert [row["round_id"] for row in older["rounds"]] == ids[3:]
    one = got(client, f"/api/round/{ids[1]}")
    assert (one["newer"], one["older"]) == (ids[0], ids[2])
    plan = one["plans"][0]
    assert len(plan["decisions"]) == plan["moves"] + plan["splits"]
    assert len(plan["left"]) == plan["skips"]
    assert {row["broker"] for row in one["scores"]} <= {"b1:8080", "b2:8080", "b3:8080"}


def test_the_next_round_is_that_of_the_command(client: TestClient, run: ShortRun) -> None:
    shown = got(client, "/api/plan")
    planned = plan_next_round(run.settings, run.root, wall_ms()).to_json()
    told_by_age = {"loads_age_ms", "notes"}
    assert shown.keys() == planned.keys() | {"strategies"}
    assert {n: v for n, v in shown.items() if n not in told_by_age | {"strategies"}} == {
        n: v for n, v in json.loads(json.dumps(planned)).items() if n not in told_by_age
    }
    assert len(shown["notes"]) == len(planned["notes"])
    other = got(client, "/api/plan?strategy=threshold")
    assert (other["strategy"], shown["strategy"]) == ("threshold", run.state.strategy or run.settings.rounds.strategy)
    assert "threshold" in shown["strategies"]


def test_what_another_strategy_would_have_done(client: TestClient, page: Page, moved: dict[str, Any]) -> None:
    shown = got(client, f"/api/round/{moved['round_id']}/as/threshold")
    assert shown["plan"]["strategy"] == "threshold"
    assert shown["plan"]["decisions"] or shown["plan"]["left"]
    assert "began without memory" in shown["note"]
    same = got(client, f"/api/round/{moved['round_id']}/as/{moved['strategy']}")
    planned = {(row["bundle"], row["target"]) for row in same["plan"]["decisions"]}
    stored = got(client, f"/api/round/{moved['round_id']}")["plans"][0]["decisions"]
    assert planned == {(row["bundle"], row["target"]) for row in stored}
    unknown = client.get(f"/api/round/{moved['round_id']}/as/dance")
    assert (unknown.status_code, unknown.json()["error"]) == (400, "configuration")


def test_the_map_has_every_living_bundle(client: TestClient, run: ShortRun) -> None:
    body = client.get("/api/map").content
    size = int.from_bytes(body[:4], "little")
    header = json.loads(body[4 : 4 + size])
    assert (4 + size) % 8 == 0
    at, columns = 4 + size, {}
    for name, kind in FIELDS:
        columns[name] = np.frombuffer(body, kind, header["count"], at)
        at += -(-header["count"] * np.dtype(kind).itemsize // 8) * 8
    assert at == len(body)
    living = {name: r for name, r in run.state.bundles.items() if r.state is not State.RETIRED}
    assert header["count"] == len(living)
    for n in range(header["count"]):
        space = header["namespaces"][columns["namespace"][n]]
        record = living[str(Bundle(space, int(columns["lower"][n]), int(columns["upper"][n])))]
        place = int(columns["broker"][n])
        owner = None if place == NOBODY else header["brokers"][place]["broker"]
        assert owner == (record.by.broker if record.by else None)
    assert np.nansum(columns["throughput"]) > 0


def test_a_topic_leads_to_its_bundle_and_owner(client: TestClient, run: ShortRun) -> None:
    shown = got(client, "/api/search?q=persistent://shop/orders/paid")["topics"]
    assert len(shown) == 4
    for row in shown:
        bundle = Bundle.parse(row["bundle"])
        assert bundle.contains(topic_hash(row["topic"]))
        record = run.state.bundles[row["bundle"]]
        assert row["owner"] == (record.by.broker if record.by else None)
    assert got(client, "/api/search?q=shop/orders/anything")["topics"][0]["created"] is False
    assert got(client, "/api/search?q=shop/nowhere/anything")["topics"] == []
    assert got(client, f"/api/search?q={run.owned_by('b1:8080')[0]}")["topics"] == []


@pytest.mark.parametrize(
    ("query", "kind", "name"),
    [("b2", "broker", "b2:8080"), ("clicks", "namespace", "shop/clicks"), ("412", "reason", "412_external_load")],
)
def test_search_finds_by_a_part_of_the_name(client: TestClient, query: str, kind: str, name: str) -> None:
    assert (kind, name) in {(hit["kind"], hit["name"]) for hit in got(client, f"/api/search?q={query}")["hits"]}


def test_search_finds_bundles_and_rounds(client: TestClient, run: ShortRun, moved: dict[str, Any]) -> None:
    hits = got(client, f"/api/search?q={moved['bundle'].rpartition('/')[2]}")["hits"]
    assert moved["bundle"] in [hit["name"] for hit in hits if hit["kind"] == "bundle"]
    hits = got(client, f"/api/search?q={moved['decision_id']}")["hits"]
    assert moved["round_id"] in [hit["name"] for hit in hits if hit["kind"] == "round"]
    assert got(client, "/api/search?q=")["hits"] == []


@pytest.mark.parametrize(
    "path", ["/api/broker/nobody:1", "/api/bundle/a/b/0x00000000_0x00000001", "/api/round/1", "/api/decision/1-0001"]
)
def test_what_has_no_such_name_is_told(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["error"]) == (404, "nothing_named")


@pytest.mark.parametrize(
    "path",
    [
        "/api/rounds?before=x",
        "/api/realised/broker/b1",
        "/api/plan?strategy=nobody",
        "/api/rounds?befor=1",
        "/api/plan?strategy=steady&limit=3",
        "/api/now?x",
        "/api/map?broker=b1",
    ],
)
def test_a_bad_question_is_told(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 400


def test_what_moves_realised(client: TestClient, moved: dict[str, Any]) -> None:
    shown = got(client, f"/api/realised/round/{moved['round_id']}")
    assert {row["broker"] for row in shown["rows"]} >= {moved["source"], moved["target"]}
    assert all(row["text"].startswith("predicted") for row in shown["rows"])


def test_a_cluster_that_decides_by_itself_is_no_pulsar(client: TestClient) -> None:
    assert got(client, "/api/pulsar") == {"driven": False}
