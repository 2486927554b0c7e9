"""The loads query on workers that share nothing with the driver: nothing is lost or counted twice, whoever dies."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path, PurePosixPath

import psutil
import pyarrow.parquet as pq

from benchmarks.measure.loads.backlog import Backlog, fill_backlog
from benchmarks.measure.loads.sent_reports import check_sums
from controller.bus.topics import TopicNames
from controller.ledger.store.data_files import PROBE, name_by_content
from controller.ledger.tables import TableRoot
from controller.loads.settings import LoadsSettings
from controller.process.clock import wall_ms
from controller.process.paths import ROOT
from controller.service.arguments import EXIT_CONFIG
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.spark_cluster import SparkCluster
from tests.cluster.site import Reports, Site, check_exact
from tests.cluster.workers import (
    CORES,
    NOBODY,
    WORKERS,
    command_lines,
    files_in_use,
    processes_of,
    runs_python,
    user_of_workers,
)
from tests.component.object_store.conftest import CREDENTIALS, Store
from tests.installed import Installed

WORKERS_KEY = "AKIAOFTHEWORKERS"
LISTED, PANES_OF_A_FILE = 10_000, LoadsSettings.file_from_rows


def test_reports_are_summed_by_workers_who_know_nothing_of_the_driver(
    cluster: SparkCluster, far: Installed, site: Site, reports: Reports
) -> None:
    reports.send(60)
    job = site.start()
    check_exact(site, reports)
    engine = f"at {cluster.url}, {WORKERS} executors, {WORKERS * CORES} cores"
    site.wait(lambda: engine in job.said(), "the line that says what it runs on")
    theirs = processes_of(user_of_workers())
    used = {name for process in theirs for name in files_in_use(process)}
    assert any(str(far.environment) in name for name in used), "nothing runs in the workers' environment"
    if user_of_workers() == NOBODY:
        assert not [name for name in used if name.startswith(f"{ROOT}/")]
    assert job.stop() == 0


def test_tasks_of_a_large_batch_make_the_files(site: Site, kafka: EmbeddedKafka, topics: TopicNames) -> None:
    """Parquet's module needs more of a worker's environment than the rest does."""
    large = Backlog(brokers=6, listed=LISTED, tail=0, rounds=1)
    assert large.brokers * LISTED > PANES_OF_A_FILE
    sent = fill_backlog(kafka.bootstrap, topics.load_reports, large, wall_ms() - 60_000, partitions=1)
    site.start()
    site.wait(lambda: site.counted() >= large.brokers, "the reports")
    check_sums(site.root, LISTED, sent)
    (file,) = (site.folder / "tables" / "bundle_panes").glob("*.parquet")
    assert pq.ParquetFile(file).metadata.created_by.startswith("parquet-cpp-arrow")


def test_tasks_store_the_files_of_a_large_batch_where_workers_have_keys_to_the_store(
    cluster: SparkCluster, site: Site, kafka: EmbeddedKafka, topics: TopicNames, root: TableRoot, store: Store
) -> None:
    """By keys of the workers' own; the driver commits."""
    keys = cluster.folder / "home" / ".aws" / "credentials"
    keys.parent.mkdir(parents=True)
    keys.write_text(f"[default]\naws_access_key_id = {WORKERS_KEY}\naws_secret_access_key = secret-of-workers\n")
    options = {**root.storage_options, "aws_region": "us-east-1", "aws_force_credential_load": "true"}
    site.use(TableRoot(root.root, options), "tasks_store_files: true")
    large = Backlog(brokers=6, listed=LISTED, tail=0, rounds=1)
    sent = fill_backlog(kafka.bootstrap, topics.load_reports, large, wall_ms() - 60_000, partitions=1)
    try:
        site.start()
        site.wait(lambda: site.counted() >= large.brokers, "the reports")
    finally:
        shutil.rmtree(keys.parent)
    check_sums(site.root, LISTED, sent)
    stored = {path for path in store.written() if f"{root.root[len('s3:/') :]}/bundle_panes/part-" in path}
    (file,) = {path for path in stored if not path.endswith(name_by_content(PROBE))}
    assert list(site.root.log("bundle_panes").list_data_files()) == [PurePosixPath(file).name], "the probe is gone"
    (added,) = site.root.open("bundle_panes").file_uris()
    assert added.endswith(file)
    assert store.access_keys()[WORKERS_KEY] > 0


def test_a_start_is_refused_where_workers_have_no_keys_to_the_store(site: Site, root: TableRoot) -> None:
    """Else the first large batch would end the job, hours later."""
    options = {**root.storage_options, "aws_region": "us-east-1", "aws_force_credential_load": "true"}
    site.use(TableRoot(root.root, options), "tasks_store_files: true")
    job = site.start()
    assert job.wait(300) == EXIT_CONFIG
    assert f"{root.root}/bundle_panes takes no file from a task" in job.said().splitlines()[-1]
    assert "Spark's workers need credentials for the object store" in job.said().splitlines()[-1]
    assert "Traceback" not in job.said()


def test_a_worker_that_dies_in_a_batch_and_one_that_joins(cluster: SparkCluster, site: Site, reports: Reports) -> None:
    site.start()
    reports.send(40)
    site.wait(lambda: site.counted() >= 40, "the first reports")
    reports.send(400)  # ten batches
    site.wait(lambda: site.counted() >= 80, "some of many batches")
    cluster.kill_worker(1)
    reports.send(100)
    known = {worker.id for worker in cluster.workers()}
    cluster.start_worker(3)

    def joined() -> bool:
        return any(worker.alive and worker.cores_used for worker in cluster.workers() if worker.id not in known)

    try:
        site.wait(joined, "an executor of the new worker")
        reports.send(400)
        check_exact(site, reports)
        assert runs_python(cluster, 3), "the new worker was given no task"
    finally:
        cluster.kill_worker(3)
        cluster.start_worker(1)


def test_a_driver_that_dies_goes_on_where_it_was(site: Site, reports: Reports) -> None:
    first = site.start()
    reports.send(300)
    site.wait(lambda: site.counted() >= 80, "some of many batches")
    os.killpg(first.process.pid, signal.SIGKILL)
    first.wait()
    reports.send(100)
    site.start()
    check_exact(site, reports)


def test_tables_in_an_object_store_get_every_report_once_and_nobody_sees_its_key(
    cluster: SparkCluster, site: Site, reports: Reports, folder: Path, root: TableRoot, store: Store
) -> None:
    """Workers see neither its credentials nor the tables: the driver writes, conditionally. The secret key is in no
    log, no file of the job, no object, no row and no command line."""
    site.use(root)
    file = folder / "ballast.yaml"
    file.write_text(f"{file.read_text()}logging: {{level: debug}}\n")
    job = site.start()
    reports.send(100)
    check_exact(site, reports)
    driver = psutil.Process(job.process.pid)
    lines = command_lines([driver, *driver.children(recursive=True), *processes_of(user_of_workers())])
    assert any("SparkSubmit" in line for line in lines)
    assert job.stop() == 0
    secret = CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    assert [line for line in lines if secret in line] == []
    check_hidden(secret, {str(path): path.read_bytes() for path in files_of(folder, cluster.folder)})
    objects = dict(store.objects())
    assert any(key.endswith(".parquet") for key in objects)
    check_hidden(secret, objects)


def files_of(*folders: Path) -> list[Path]:
    """All of them."""
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def check_hidden(secret: str, files: Mapping[str, bytes]) -> None:
    """No file has it, nor a row of a table, which Parquet may hold compressed."""
    assert files
    rows = {name: pq.read_table(BytesIO(content)) for name, content in files.items() if name.endswith(".parquet")}
    assert [name for name, content in files.items() if secret.encode() in content] == []
    assert [name for name, table in rows.items() if secret in str(table.to_pylist())] == []
