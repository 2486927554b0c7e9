"""Measures the server's time for each view of the operators' page. `python -m benchmarks page_views`

1,000 brokers, 100,000 bundles, a journal of 1,000,000 entries, a day of rounds. Each view is asked for REPEATS times
with nothing kept of earlier answers (`made`, the median), and once more as the second user of the same version gets it
(`served`). Also measured: how long the page takes to begin, and how many bytes each document has.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.testclient import TestClient

from benchmarks.measure.result import Result, Target
from benchmarks.measure.ui.large_cluster import LargeCluster, Size
from controller.config.load import load_settings
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from controller.ui.loads import NewestLoads
from controller.ui.page import Page
from controller.ui.security import Rules, hosts_of
from controller.ui.server import make_page_app
from controller.ui.shared import Shared

QUICK = Size(brokers=20, bundles=2_000, entries=10_000, rounds=60, panes=6)
REPEATS = 5
MOST_MS = 300.0
PLAN_MS = 1_000.0  # the next round is decided for whoever asks
BEGIN_S = 10.0


def run(folder: Path, quick: bool) -> Result:
    """Write the tables, begin a page, ask for every view."""
    size = QUICK if quick else Size()
    root = TableRoot(folder / "tables")
    large = LargeCluster(root, size, wall_ms())
    large.write()
    settings = load_settings(None, "local", [f"tables.root={root.root}"], env={})
    page = Page(settings, Rules(hosts_of("127.0.0.1", ())), ask_kafka=False)
    began_s = time.perf_counter()
    page.cluster.poll()
    page.cluster.warm()
    figures: dict[str, Any] = {
        "brokers": size.brokers, "bundles": size.bundles, "entries": size.entries, "rounds": size.rounds,
        "begin_s": round(time.perf_counter() - began_s, 2), "views": {},
    }  # fmt: skip
    with TestClient(make_page_app(page), base_url="http://127.0.0.1:8180") as client:
        for name, path in _paths(large).items():
            figures["views"][name] = _measure(page, client, path)
    limits = {name: PLAN_MS if name == "plan" else MOST_MS for name in figures["views"]}
    targets = [Target(f"views.{name}.made_ms", limit, "ms") for name, limit in limits.items()]
    targets.append(Target("begin_s", BEGIN_S, "s"))
    broken = [name for name, seen in figures["views"].items() if seen["status"] != 200]
    return Result("page_views", figures, targets, [f"{name} was not answered" for name in broken])


def _paths(large: LargeCluster) -> Mapping[str, str]:
    """Name of the view -> the path that is asked for."""
    rounds, bundle = large.round_ids(), large.bundles[len(large.bundles) // 2]
    moved = large.bundles[(len(rounds) - 1) // 10 * 10 * 7 % len(large.bundles)]
    return {
        "now": "/api/now",
        "broker": f"/api/broker/{large.brokers[len(large.brokers) // 2]}",
        "bundle": f"/api/bundle/{bundle}",
        "bundle_moved": f"/api/bundle/{moved}",
        "bundle_load": f"/api/load/{bundle}",
        "plan": "/api/plan",
        "rounds": "/api/rounds",
        "round": f"/api/round/{rounds[len(rounds) // 2]}",
        "decision": f"/api/decision/{rounds[len(rounds) // 2]}-0000",
        "map": "/api/map",
        "search_topic": "/api/search?q=persistent://bench/ns-07/orders",
        "search_part": "/api/search?q=0xfff",
    }


def _measure(page: Page, client: TestClient, path: str) -> dict[str, Any]:
    made = []
    for _ in range(REPEATS):
        page.shared, page.loads = Shared(), NewestLoads()
        elapsed_ms, answer = _ask(client, path)
        made.append(elapsed_ms)
    served_ms, answer = _ask(client, path)
    return {
        "made_ms": round(statistics.median(made), 1), "served_ms": round(served_ms, 1),
        "kib": round(len(answer.content) / 1024, 1), "status": answer.status_code,
    }  # fmt: skip


def _ask(client: TestClient, path: str) -> tuple[float, Any]:
    began_s = time.perf_counter()
    answer = client.get(quote(path, safe="/?=&:"))
    return 1_000 * (time.perf_counter() - began_s), answer
