"""The whole job beyond one machine: both queries, on another user's workers, with tables and checkpoints in a store.

Reference brokers follow the journal from the store. One cluster serves all tests: it is killed while bundles move,
started again with an empty folder, rivalled, taken over and maintained; clients write and read all the time. In the
end the journal and the load tables must be what was said on Kafka. The control query keeps its checkpoint with the
driver (`jobs/spark_context.py`).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from controller.config.table_root import table_root
from controller.domain.entries import Kind
from controller.ledger.maintenance import BULK_FEWEST_FILES
from controller.process.children import Child
from controller.service.arguments import EXIT_ANOTHER, EXIT_CONFIG, EXIT_REPLACED
from controller.testbed.local_cluster import LocalCluster
from controller.testbed.spark_cluster import SparkCluster
from tests.cluster.conftest import write_spark_conf
from tests.cluster.site import Site, add_bytes_in
from tests.cluster.workers import command_lines, processes_of, user_of_workers
from tests.component.object_store.conftest import CREDENTIALS, Store
from tests.component.object_store.server import BUCKET
from tests.e2e.checks import PATIENCE_S, check_journal, check_projections, in_flight, owner, settled
from tests.e2e.clients import Clients, assert_nothing_lost
from tests.e2e.lookups import look_up, topics_in
from tests.e2e.programs import ballast, json_lines
from tests.e2e.running.conftest import OVERRIDES
from tests.e2e.test_controller_crash import kill_while_bundles_move
from tests.e2e.waiting import wait_until

BROKERS = ("broker-1", "broker-2", "broker-3")
NAMESPACE, BUNDLES = "e2e/far", 12


class FarCluster(LocalCluster):
    """A local cluster whose job runs on workers elsewhere."""

    spark_conf: tuple[str, ...] = ()

    job = "job"  # which of those that were started is in charge

    def start_far_job(self, name: str, take_over: bool = False) -> Child:
        """Both queries."""
        return self.start_job(name=name, take_over=take_over, more=self.spark_conf)

    def wait_for_another(self, instance: str, job: str) -> None:
        """Until another controller than this one has the journal."""
        self.wait_until(lambda s: s.instance != instance, PATIENCE_S, "a new controller", needs=job)
        self.job = job


@pytest.fixture(scope="module")
def keys(cluster: SparkCluster) -> Iterator[None]:
    """The store's credentials, in the environment of all but the workers, who run by now."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def far_cluster(
    s3a: None, cluster: SparkCluster, server: Store, keys: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FarCluster]:
    """Kafka, the segment store, the job and three agents; nothing but their logs and segments is in the folder."""
    place, options = uuid.uuid4().hex[:8], {"aws_endpoint": server.address, "aws_allow_http": "true"}
    tables = {
        "root": f"s3://{BUCKET}/{place}",
        "checkpoints": f"s3a://{BUCKET}/{place}-checkpoints",
        "storage_options": options,
    }
    with FarCluster(tmp_path_factory.mktemp("whole"), overrides=OVERRIDES) as started:
        started.start_kafka_and_store({"tables": tables})
        started.spark_conf = ("--spark-conf", str(write_spark_conf(started.folder, cluster)))
        started.start_far_job("job")
        for broker in BROKERS:
            started.start_agent(broker)
        started.wait_for_job()
        started.wait_until(
            lambda s: {b.id for b in s.live_brokers()} == set(BROKERS), PATIENCE_S, "three brokers", needs="job"
        )
        yield started


@pytest.fixture(scope="module")
def topics(far_cluster: FarCluster) -> list[str]:
    """One in each bundle of a namespace, all served."""
    assert far_cluster.command("create_namespace", namespace=NAMESPACE, bundles=BUNDLES).accepted
    found = topics_in(far_cluster.state, NAMESPACE, 1)
    look_up(far_cluster, found)
    far_cluster.wait_until(lambda s: settled(s, NAMESPACE), PATIENCE_S, "owners of all", needs="job")
    return found


@pytest.fixture
def clients(far_cluster: FarCluster, topics: list[str], request: pytest.FixtureRequest) -> Iterator[Clients]:
    """A producer and a reader of all topics, at work."""
    with Clients(far_cluster, request.node.name.removeprefix("test_")[:16]) as started:
        started.read("audit", "exclusive", topics)
        started.send(dict.fromkeys(topics, 5.0))
        started.wait_for_progress(topics, more=2)
        yield started


def test_a_driver_that_dies_while_bundles_move_is_followed_by_one_that_finds_all_in_the_store(
    far_cluster: FarCluster, topics: list[str], clients: Clients, server: Store
) -> None:
    target, dead = kill_while_bundles_move(far_cluster, NAMESPACE), str(far_cluster.state.instance)
    assert "-checkpoints/loads/offsets/0" in server.listing()
    assert not [path for name in ("offsets", "_delta_log") for path in far_cluster.folder.rglob(name)]
    far_cluster.start_far_job("job")
    far_cluster.wait_for_another(dead, "job")
    far_cluster.wait_until(
        lambda s: settled(s, NAMESPACE) and {owner(s, topic) for topic in topics} == {target},
        PATIENCE_S, "the transfers that the dead one began", needs="job",
    )  # fmt: skip
    clients.wait_for_progress(topics, more=2)
    assert_nothing_lost(clients.finish())
    entries = check_journal(far_cluster)
    check_projections(far_cluster)
    assert sum(e.kind is Kind.CONTROLLER_STARTED for e in entries) == 2
    assert [e.broker for e in entries if e.kind is Kind.SESSION_ENDED] == [], "brokers lived through it"
    far = command_lines(processes_of(user_of_workers()))
    assert any("CoarseGrainedExecutorBackend" in line for line in far), "no executor is the workers'"


def test_a_second_controller_is_refused_and_one_that_takes_over_replaces_the_first(
    far_cluster: FarCluster, topics: list[str], clients: Clients
) -> None:
    holder = str(far_cluster.state.instance)
    second = far_cluster.start_far_job("second")
    assert second.wait(PATIENCE_S) == EXIT_ANOTHER, second.last_words()
    assert holder in second.last_words()
    far_cluster.start_far_job("third", take_over=True)
    far_cluster.wait_for_another(holder, "third")
    first = far_cluster.children["job"]
    assert first.wait(PATIENCE_S) == EXIT_REPLACED, first.last_words()
    assert far_cluster.command("unload_namespace", namespace=NAMESPACE, to="broker-3").accepted
    far_cluster.wait_until(
        lambda s: settled(s, NAMESPACE) and {owner(s, topic) for topic in topics} == {"broker-3"},
        PATIENCE_S, "moves under the third", needs="third",
    )  # fmt: skip
    clients.wait_for_progress(topics, more=2)
    assert_nothing_lost(clients.finish())
    check_journal(far_cluster)


def test_maintenance_beside_the_running_job_merges_files_and_leaves_every_row(far_cluster: FarCluster) -> None:
    words = ("maintain", "--conf", str(far_cluster.config_file))
    refused = ballast(*words, "--spark", *far_cluster.spark_conf)
    assert (refused.returncode, refused.stderr.count("\n")) == (EXIT_CONFIG, 1), refused.stderr
    (done,) = json_lines(ballast(*words, "--json"))
    merged = {tended["table"]: tended["merged_files"] for tended in done["tables"]}
    assert min(merged["broker_panes"], merged["bundle_panes"]) >= BULK_FEWEST_FILES
    assert sum(tended["expired_rows"] for tended in done["tables"]) == 0


def test_in_the_end_each_bundle_has_one_owner_and_the_load_tables_are_what_was_reported(
    far_cluster: FarCluster, topics: list[str]
) -> None:
    """By every agent's answer; and by Kafka's reports, once nobody sends any more."""
    owners = [{topic: str(owner(far_cluster.state, topic)) for topic in topics}] * len(BROKERS)
    assert [look_up(far_cluster, topics, url) for url in far_cluster.lookup_urls()] == owners
    assert in_flight(far_cluster.state) == []
    for broker in BROKERS:
        far_cluster.children[broker].kill()
    site = Site(far_cluster.folder, far_cluster.folder)
    site.root = table_root(far_cluster.settings)
    documents, sums = reported(far_cluster), dict[str, float]()
    for document in documents:
        add_bytes_in(sums, document)
    wait_until(lambda: site.counted() >= len(documents), PATIENCE_S, 0.5)
    assert site.root.open("quarantine").to_pyarrow_table().num_rows == 0
    assert site.counted() == len(documents)
    assert site.sums() == pytest.approx(sums)
    running = far_cluster.children[far_cluster.job]
    assert running.stop(PATIENCE_S) == 0, running.last_words()
    check_journal(far_cluster)
    logs = (far_cluster.folder / "logs").glob("*.log")
    assert [log.name for log in logs if "Traceback" in log.read_text(errors="replace")] == []


def reported(cluster: LocalCluster) -> list[dict[str, Any]]:
    """All load reports in Kafka."""
    (topic,) = cluster.settings.kafka.topics.all_load_reports
    consumer = KafkaConsumer(bootstrap_servers=cluster.kafka.bootstrap, group_id=None)
    try:
        places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends, found = consumer.end_offsets(places), list[dict[str, Any]]()
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(1_000).values():
                found += [json.loads(record.value) for record in records]
        return found
    finally:
        consumer.close()
