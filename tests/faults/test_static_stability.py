"""Static stability: what runs goes on when what decides is gone. Ten minutes each, by default.

Without a controller, and with tables that cannot be reached, brokers serve, lookups are answered, and no client sees an
error; when it is back, nobody has lost a lease and no bundle has changed its owner. `BALLAST_OUTAGE_MINUTES` shortens
it for a try.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from controller.domain.entries import Kind
from controller.domain.state import ClusterState
from controller.testbed.local_cluster import LocalCluster
from tests.component.object_store.conftest import Store, server, store  # fixtures
from tests.component.object_store.server import BUCKET
from tests.e2e.checks import PATIENCE_S, check_journal, settled
from tests.e2e.clients import Clients, assert_nothing_lost
from tests.e2e.lookups import look_up, topics_in

__all__ = ["server", "store"]

OUTAGE_S = 60 * float(os.environ.get("BALLAST_OUTAGE_MINUTES", "10"))
pytestmark = [pytest.mark.faults, pytest.mark.e2e, pytest.mark.timeout(OUTAGE_S + 900)]

BROKERS = ("broker-1", "broker-2", "broker-3")
NAMESPACE = "stable/n"
RATE = 5.0  # messages/s of a topic
CLIENT = 2.0  # s within which a lookup of a served topic is answered


@pytest.mark.usefixtures("short_lived_jvms")
def test_ten_minutes_without_a_controller(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "cluster", overrides=("rounds.mode=shadow",)) as cluster:
        cluster.up(BROKERS, job_only="control")

        def end() -> None:
            cluster.children["job"].kill()

        def begin_again() -> None:
            cluster.start_job(only="control", name="second-job")

        _endure(cluster, end, begin_again)


@pytest.mark.usefixtures("short_lived_jvms")
def test_ten_minutes_without_tables(store: Store, tmp_path: Path) -> None:
    """The store's server stands still: connections open, no answer."""
    with LocalCluster(tmp_path / "cluster", overrides=("rounds.mode=shadow",)) as cluster:
        cluster.start_kafka()
        _configure_in_store(cluster, store)
        cluster.start_job(only="control")
        for broker in BROKERS:
            cluster.start_agent(broker)
        cluster.wait_for_job()
        cluster.wait_until(lambda state: len(state.live_brokers()) == len(BROKERS), PATIENCE_S, "all brokers")
        _endure(cluster, lambda: os.kill(store.pid, signal.SIGSTOP), lambda: os.kill(store.pid, signal.SIGCONT))


def _endure(cluster: LocalCluster, end: Callable[[], None], begin_again: Callable[[], None]) -> None:
    """The story of both: clients at work, the outage, and what is left of it afterwards."""
    assert cluster.command("create_namespace", namespace=NAMESPACE, bundles=6).accepted
    topics = topics_in(cluster.state, NAMESPACE, 1)
    look_up(cluster, topics)
    before = cluster.wait_until(lambda state: settled(state, NAMESPACE), PATIENCE_S, "ownership")
    urls = cluster.lookup_urls()
    with Clients(cluster, "stable") as clients:
        clients.read("reader", "exclusive", topics)
        clients.send(dict.fromkeys(topics, RATE))
        clients.wait_for_progress(topics)
        sent = clients.acked()
        with _ending(end, begin_again):
            answers = _ask_on(urls, topics, OUTAGE_S)
        assert set(answers) == {200}, answers
        now = clients.acked()
        for topic in topics:
            assert now[topic] - sent[topic] > 0.8 * RATE * OUTAGE_S, "it was written all the time"
        assert clients.records().gaps == [], "a client had to look for its broker"
        cluster.wait_until(_is_in_charge_again(cluster), PATIENCE_S, "a controller that answers")
        clients.wait_for_progress(topics)
        report = clients.finish()
    assert_nothing_lost(report)
    assert _owners(cluster.state) == _owners(before), "nobody changed"
    ended = [entry.reason for entry in cluster.entries if entry.kind is Kind.SESSION_ENDED]
    assert ended == [], "a false failover"
    check_journal(cluster)


@contextmanager
def _ending(end: Callable[[], None], begin_again: Callable[[], None]) -> Iterator[None]:
    end()
    try:
        yield
    finally:
        begin_again()


def _ask_on(urls: list[str], topics: list[str], for_s: float) -> Counter[int]:
    """Look every topic up at every agent, again and again; answers by status."""
    answers: Counter[int] = Counter()
    until_s = time.monotonic() + for_s
    with httpx.Client(timeout=CLIENT) as client:
        while time.monotonic() < until_s:
            for url in urls:
                for topic in topics:
                    answers[client.get(f"{url}/lookup", params={"topic": topic}).status_code] += 1
            time.sleep(1.0)
    return answers


def _is_in_charge_again(cluster: LocalCluster) -> Callable[[ClusterState], bool]:
    """Whether a command is answered; the answer is in the journal."""
    name = f"stable/after-{time.time_ns()}"
    return lambda state: (
        name in state.namespaces
        or (cluster.command("create_namespace", timeout_s=PATIENCE_S, namespace=name, bundles=1).accepted)
    )


def _owners(state: ClusterState) -> dict[str, tuple[str, int]]:
    """Owner and epoch of every bundle of the namespace."""
    records = [state.bundles[str(bundle)] for bundle in state.namespaces[NAMESPACE]]
    return {str(one.bundle): (str(one.by), one.epoch) for one in records}


def _configure_in_store(cluster: LocalCluster, store: Store) -> None:
    """Like `LocalCluster.start_kafka_and_store`, with the tables in the object store."""
    cluster.start_segment_store(
        {
            "tables": {
                "root": f"s3://{BUCKET}/stable",
                "checkpoints": str(cluster.folder / "checkpoints"),
                "storage_options": {"aws_endpoint": store.address, "aws_allow_http": "true"},
            }
        }
    )
