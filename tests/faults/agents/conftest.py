"""One cluster for the faults of agents: Kafka with a door of its own for one of them, store, control query, agents.

`broker-1` to `broker-3` live undisturbed; whatever happens, happens to `victim` (or to Kafka). Every test works on a
namespace of its own that the victim owns, with a producer and an auditing reader on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from controller.domain.entries import Entry, Kind
from controller.testbed.clock_shim import ClockShim
from controller.testbed.fault_proxy import CuttableProxy, free_port
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.kafka_settings import Door
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import check_journal, owner
from tests.e2e.clients import Clients
from tests.e2e.lookups import look_up, topics_in
from tests.faults.agents.victim import NAME, PATIENCE_S, Victim

STEADY = ("broker-1", "broker-2", "broker-3")
OVERRIDES = ("rounds.mode=shadow", "control.trigger_ms=400", "agent.report_interval_ms=5000", "logging.json_lines=true")


@pytest.fixture(scope="package")
def clock(tmp_path_factory: pytest.TempPathFactory) -> ClockShim:
    """Of Kafka's host."""
    return ClockShim(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="package")
def victims_cluster(
    short_lived_jvms: None, tmp_path_factory: pytest.TempPathFactory, clock: ClockShim
) -> Iterator[tuple[LocalCluster, Victim]]:
    """Up once for all tests of this folder."""
    folder, door = tmp_path_factory.mktemp("agents"), free_port()
    with CuttableProxy(door) as proxy:
        kafka = EmbeddedKafka(folder / "kafka", doors=[Door(door, proxy.port)], env=clock.env)
        with LocalCluster(folder, overrides=OVERRIDES, kafka=kafka) as cluster:
            cluster.up(STEADY, job_only="control")
            victim = Victim(cluster, proxy)
            victim.start()
            victim.registered()
            yield cluster, victim
            proxy.heal()
            victim.tables.stop()


@pytest.fixture
def cluster(victims_cluster: tuple[LocalCluster, Victim]) -> Iterator[LocalCluster]:
    """Afterwards its journal must hold I2 to I4."""
    yield victims_cluster[0]
    check_journal(victims_cluster[0])


@pytest.fixture
def victim(victims_cluster: tuple[LocalCluster, Victim], cluster: LocalCluster) -> Victim:
    """Healed and registered."""
    victim = victims_cluster[1]
    victim.proxy.heal()
    victim.tables.heal()
    if victim.child is None or not victim.child.alive:
        victim.restart()
    victim.registered()
    return victim


@pytest.fixture
def clients(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Clients]:
    """Client processes named after the test."""
    with Clients(cluster, request.node.name.removeprefix("test_")[:24]) as started:
        yield started


_numbers = itertools.count(1)


@pytest.fixture
def on_victim(cluster: LocalCluster, victim: Victim, clients: Clients) -> Callable[[], list[str]]:
    """Four bundles that the victim owns, with a topic, a producer and a reader each; returns the topics."""

    def create() -> list[str]:
        name = f"faults/n{next(_numbers)}"
        assert cluster.command("create_namespace", namespace=name, bundles=4).accepted
        topics = topics_in(cluster.state, name, 1)
        look_up(cluster, topics)
        outcome = cluster.command("unload_namespace", namespace=name, to=NAME)
        assert outcome.accepted or "already" in outcome.reason
        cluster.wait_until(lambda s: all(owner(s, t) == NAME for t in topics), PATIENCE_S, "the moves", needs="job")
        clients.read("audit", "exclusive", topics)
        clients.send(dict.fromkeys(topics, 10.0))
        clients.wait_for_progress(topics)
        return topics

    return create


@pytest.fixture
def ends(cluster: LocalCluster) -> Callable[[], list[Entry]]:
    """The ends of sessions journaled since the test began."""
    start = cluster.state.seq

    def found() -> list[Entry]:
        newest = cluster.state.seq
        return [e for e in cluster.entries if start < e.seq <= newest and e.kind is Kind.SESSION_ENDED]

    return found
