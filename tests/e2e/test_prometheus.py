"""A real Prometheus scrapes a running cluster: its rules load, its panels have data, an alert fires and clears.

The rules are a copy in which conditions need hold for a second only; promtool tests the real times. Prometheus is
started from the PATH, on loopback, and nothing is installed.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from controller.testbed.kafka import free_ports
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.waiting import wait_until
from tests.unit.observability.exposed import FOLDER, names_of
from tests.unit.observability.promql import names_in
from tests.unit.observability.test_alerts import RULES

PROMETHEUS = shutil.which("prometheus")
BROKERS = ("broker-1", "broker-2")
# What has no series before its first event, in a calm cluster of two brokers without load.
QUIET = re.compile(
    r"ALERTS|pulsar_lb_.*_breakdown_total|ballast_(round_(moves|splits|refused)|placements|moves_judged"
    r"|control_(quarantined|missing_records|refused)|loads_quarantined|agent_(answers|work|lookups|catch_ups|bad_records)"
    r"|http_refused)(_total)?|ballast_agent_work_seconds_bucket"
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.observability,
    pytest.mark.timeout(900),
    pytest.mark.skipif(PROMETHEUS is None, reason="there is no prometheus on the PATH"),
]


@pytest.fixture(scope="module")
def job_port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, job_port: int) -> Iterator[LocalCluster]:
    """Rounds every five seconds, a clean-up every two."""
    overrides = (
        f"http.job_port={job_port}", "rounds.round_interval_s=5", "loads.pane_s=5", "loads.short_horizon_s=10",
        "agent.report_interval_ms=1000", "retention.cleanup_interval_s=2",
    )  # fmt: skip
    with LocalCluster(tmp_path_factory.mktemp("watched"), overrides=overrides) as made:
        made.up(BROKERS)
        yield made


def write_configuration(folder: Path, job_port: int, agents: list[str]) -> Path:
    """The shipped configuration and rules, with this cluster's targets, a scrape a second and short times."""
    rules = yaml.safe_load((FOLDER / "rules.yml").read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = "1s"
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    shipped = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    shipped["global"] |= {"scrape_interval": "1s", "evaluation_interval": "1s"}
    targets = {"ballast-controller": [f"127.0.0.1:{job_port}"], "ballast-agents": agents}
    for job in shipped["scrape_configs"]:
        job["static_configs"][0]["targets"] = targets[job["job_name"]]
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(shipped))
    return file


@pytest.fixture(scope="module")
def query(
    cluster: LocalCluster, job_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], list[dict[str, Any]]]:
    """Ask the Prometheus that scrapes the cluster; it ends with the cluster."""
    folder, port = tmp_path_factory.mktemp("prometheus"), free_ports(1)[0]
    agents = [url.removeprefix("http://") for url in cluster.lookup_urls()]
    words = [f"--config.file={write_configuration(folder, job_port, agents)}", f"--storage.tsdb.path={folder / 'data'}"]
    cluster.start("prometheus", [str(PROMETHEUS), *words, f"--web.listen-address=127.0.0.1:{port}"])

    def ask(expression: str) -> list[dict[str, Any]]:
        with httpx.Client(trust_env=False, timeout=30) as client:
            answer = client.get(f"http://127.0.0.1:{port}/api/v1/query", params={"query": expression})
        found: list[dict[str, Any]] = answer.raise_for_status().json()["data"]["result"]
        return found

    def is_up() -> bool:
        try:
            return len(ask("up == 1")) == 1 + len(BROKERS)
        except httpx.HTTPError:
            return False

    wait_until(is_up, 120)
    return ask


def named_metrics() -> set[str]:
    """By rules and panels, without those that need an event or a Pulsar cluster."""
    documents = (json.loads(file.read_text(encoding="utf-8")) for file in (FOLDER / "dashboards").glob("*.json"))
    panels = [target["expr"] for one in documents for panel in one["panels"] for target in panel.get("targets", ())]
    found = {name for text in [*panels, *(r["expr"] for r in RULES.values())] for name in names_in(text).metrics}
    return {name for name in found - names_of("pulsar_agent") if not QUIET.fullmatch(name)}


def is_firing(query: Callable[[str], list[dict[str, Any]]], name: str) -> bool:
    return bool(query(f'ALERTS{{alertname="{name}", alertstate="firing"}}'))


def test_what_panels_and_rules_name_has_data(query: Callable[[str], list[dict[str, Any]]]) -> None:
    def missing() -> set[str]:
        return {name for name in named_metrics() if not query(name)}

    wait_until(lambda: not missing(), 120, every_s=2.0)


def test_an_alert_fires_while_the_controller_is_gone(
    cluster: LocalCluster, query: Callable[[str], list[dict[str, Any]]]
) -> None:
    wait_until(lambda: not is_firing(query, "BallastControllerDown"), 60, every_s=1.0)
    cluster.children["job"].kill()
    wait_until(lambda: is_firing(query, "BallastControllerDown"), 60, every_s=1.0)
    cluster.start_job()
    wait_until(lambda: not is_firing(query, "BallastControllerDown"), 240, every_s=1.0)


def test_an_alert_fires_while_an_agent_is_gone(
    cluster: LocalCluster, query: Callable[[str], list[dict[str, Any]]]
) -> None:
    cluster.children[BROKERS[0]].kill()
    wait_until(lambda: is_firing(query, "BallastAgentDown"), 60, every_s=1.0)
