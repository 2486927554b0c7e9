"""The tables of a running cluster are wiped: refused, then begun anew beside a store that has everything."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from controller.domain.entries import Kind
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import check_journal, settled
from tests.e2e.clients import Clients, assert_nothing_lost
from tests.e2e.lookups import look_up, topics_in
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.e2e, pytest.mark.timeout(900)]

EXIT_ANOTHER = 3
PATIENCE_S = 180.0  # only a hang takes so long
NAME = "t/n"
OVERRIDES = ("rounds.mode=shadow", "control.trigger_ms=400", "logging.json_lines=true")


@pytest.mark.usefixtures("short_lived_jvms")
def test_a_cluster_whose_tables_were_wiped_goes_on_without_losing_a_message(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, overrides=OVERRIDES) as cluster, Clients(cluster, "wiped") as clients:
        cluster.up(("broker-1", "broker-2"), job_only="control")
        topics = _served(cluster)
        outcome = cluster.command("unload_namespace", namespace=NAME, to="broker-1")
        assert outcome.accepted or "already" in outcome.reason
        cluster.wait_until(lambda s: settled(s, NAME), PATIENCE_S, "the moves", needs="job")
        _carry(clients, topics, "before")
        before = cluster.state.copy()
        assert cluster.children["job"].stop(60) == 0
        shutil.rmtree(cluster.settings.tables.root)
        cluster.operator = None

        for more, named in (((), str(before.journal_id)), (("--new-journal",), "broker-2")):
            refused = cluster.start_job("control", name=f"refused{len(more)}", more=more)
            assert refused.wait(PATIENCE_S) == EXIT_ANOTHER, refused.last_words()
            assert named in refused.last_words()

        cluster.children["broker-1"].kill()
        sleeper = cluster.children["broker-2"]
        os.kill(sleeper.pid, signal.SIGSTOP)
        job = cluster.start_job("control", more=("--new-journal",))
        cluster.wait_for_job()
        said = job.log.read_text()
        assert f"takes these topics over from journal {before.journal_id}" in said
        assert f"lost: namespace {NAME}, 4 bundles" in said
        for broker in ("broker-3", "broker-4"):
            cluster.start_agent(broker)
        cluster.wait_until(lambda s: len(s.sessions) == 2, PATIENCE_S, "registrations", needs="job")
        assert cluster.state.commands == {}, "nothing of the old journal was carried out"

        os.kill(sleeper.pid, signal.SIGCONT)
        wait_until(lambda: not sleeper.alive or _alarmed(cluster), PATIENCE_S, 0.5)
        assert _served(cluster) == topics
        state = cluster.state
        assert state.journal_id not in (None, before.journal_id)
        highest = max(record.epoch for record in before.bundles.values())
        assert min(record.epoch for record in state.bundles.values()) > highest
        _carry(clients, topics, "after")
        assert "broker-2" not in cluster.state.brokers
        assert_nothing_lost(clients.finish())
        check_journal(cluster)


def _served(cluster: LocalCluster) -> list[str]:
    """A namespace, looked up until somebody owns all of it; a topic a bundle."""
    assert cluster.command("create_namespace", namespace=NAME, bundles=4).accepted
    topics = topics_in(cluster.state, NAME, 1)
    look_up(cluster, topics)
    cluster.wait_until(lambda s: settled(s, NAME), PATIENCE_S, "ownership", needs="job")
    return topics


def _carry(clients: Clients, topics: list[str], name: str) -> None:
    """Messages through every topic; the clients are gone afterwards."""
    reader = clients.read(name, "exclusive", topics, subscription="audit")
    producer = clients.send(dict.fromkeys(topics, 10.0))
    clients.wait_for_progress(topics)
    assert producer.stop(60) == 0, producer.last_words()
    if name == "before":
        assert reader.stop(60) == 0, reader.last_words()


def _alarmed(cluster: LocalCluster) -> bool:
    newest = cluster.state.seq
    return any(e.reason == "stray_agent" and e.seq <= newest for e in cluster.entries if e.kind is Kind.ALARM)
