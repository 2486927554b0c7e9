"""Every job on workers that share nothing with the driver, or where a job needs it, one mounted folder."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

from benchmarks.measure.policy.recorded_day import Day
from controller.ledger.append import append
from controller.ledger.evidence import read_joined
from controller.ledger.maintenance import BULK_FEWEST_FILES, DAY_MS
from controller.ledger.tables import TableRoot
from controller.policy.round import replay_round
from controller.process.clock import wall_ms
from controller.testbed.demo.figures import transfers_of
from controller.testbed.local_cluster import LocalCluster
from schemas.arrow import arrow_table
from schemas.catalog import TABLES
from tests.cluster.site import Reports, Site, check_exact
from tests.cluster.workers import CORES, WORKERS, files_in_use, processes_of, user_of_workers
from tests.component.loads.pane_rows import broker_pane
from tests.e2e.checks import PATIENCE_S, check_journal, owner, settled
from tests.e2e.clients import Clients, assert_nothing_lost
from tests.e2e.lookups import look_up, topics_in
from tests.e2e.programs import ballast

BROKERS = ("broker-1", "broker-2", "broker-3")
HOT_MESSAGES_PER_S, OTHER_MESSAGES_PER_S = 65.0, 0.5  # a broker of the test manages 200, each written and read once
OVERRIDES = (
    "rounds.mode=live", "rounds.round_interval_s=5", "loads.pane_s=5", "loads.short_horizon_s=10",
    "agent.report_interval_ms=1000", "reference.cpu_us_per_message=5000", "logging.json_lines=true",
)  # fmt: skip
LONG_AGO_DAYS = 4_000
DAY, STRATEGIES = Day(brokers=8, bundles=80, steps=80), "steady,threshold"


def user_of(file: Path) -> str:
    """Whose file it is."""
    return pwd.getpwuid(file.stat().st_uid).pw_name


def test_the_code_may_come_as_one_zip(zipped_conf: Path, bare: Path, site: Site, reports: Reports) -> None:
    knows = subprocess.run([bare, "-c", "import controller"], capture_output=True, text=True, cwd="/", check=False)
    assert "No module named 'controller'" in knows.stderr
    reports.send(60)
    job = site.start()
    check_exact(site, reports)
    used = {name for process in processes_of(user_of_workers()) for name in files_in_use(process)}
    assert any(name.startswith(f"{bare.parents[1]}/") for name in used), "nothing runs without the wheel"
    assert job.stop() == 0


def test_rounds_and_hand_overs_of_a_job_on_workers(spark_conf: Path, tmp_path: Path) -> None:
    """Heartbeats, events and load reports are read by the workers; decisions and the journal are the driver's."""
    with LocalCluster(tmp_path / "running", overrides=OVERRIDES) as cluster:
        cluster.start_kafka_and_store()
        job = cluster.start_job(more=("--spark-conf", str(spark_conf)))
        for broker in BROKERS:
            cluster.start_agent(broker)
        cluster.wait_for_job()
        cluster.wait_until(lambda s: {b.id for b in s.live_brokers()} >= set(BROKERS), PATIENCE_S, "three brokers")
        assert cluster.command("create_namespace", namespace="e2e/far", bundles=12).accepted
        topics = topics_in(cluster.state, "e2e/far", 1)
        look_up(cluster, topics)
        cluster.wait_until(lambda s: settled(s, "e2e/far"), PATIENCE_S, "owners of all", needs="job")
        hot_broker, _ = Counter(owner(cluster.state, topic) for topic in topics).most_common(1)[0]
        hot = [topic for topic in topics if owner(cluster.state, topic) == hot_broker]
        with Clients(cluster, "far") as clients:
            clients.read("audit", "exclusive", topics)
            clients.send({t: HOT_MESSAGES_PER_S / len(hot) if t in hot else OTHER_MESSAGES_PER_S for t in topics})
            cluster.wait_until(
                lambda _: any(e.decision_id for e in transfers_of(cluster.entries)),
                PATIENCE_S, "a bundle that a round has moved", needs="job",
            )  # fmt: skip
            clients.wait_for_progress(topics, more=2)
            report = clients.finish()
        assert_nothing_lost(report)
        check_journal(cluster)
        moved = {e.decision_id for e in transfers_of(cluster.entries) if e.decision_id}
        tables = cluster.settings.tables.root
        rounds = {row["round_id"]: row for row in read_joined(tables, "rounds").to_pylist()}
        acted = {row["round_id"] for row in read_joined(tables, "decisions").to_pylist() if row["decision_id"] in moved}
        assert acted
        for round_id in acted:
            assert replay_round(json.loads(rounds[round_id]["inputs_json"])) == rounds[round_id]["plan_hash"]
        said = job.log.read_text()
        assert f"{WORKERS} executors, {WORKERS * CORES} cores" in said


def test_maintenance_by_workers_keeps_every_row_that_counts(
    spark_conf: Path, mounted: Path, folder: Path, user: str
) -> None:
    tables, now_ms = TableRoot(mounted / "tables"), wall_ms() // 10_000 * 10_000
    tables.create_all()
    for batch in range(BULK_FEWEST_FILES + 2):
        end_ms = now_ms - (LONG_AGO_DAYS * DAY_MS if batch < 2 else 0)
        append(tables, "broker_panes", arrow_table(TABLES["broker_panes"], [broker_pane(end_ms, batch)]), "w", batch)
    configure(folder, mounted)
    done = ballast("maintain", "--spark", "--spark-conf", str(spark_conf), "--conf", str(folder / "ballast.yaml"))
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"broker_panes: 2 rows expired, {BULK_FEWEST_FILES} files merged" in done.stderr + done.stdout
    table = tables.open("broker_panes")
    assert sorted(table.to_pyarrow_table()["batch_id"].to_pylist()) == list(range(2, BULK_FEWEST_FILES + 2))
    (file,) = table.file_uris()
    assert user_of(Path(file.removeprefix("file://"))) == user, "the workers wrote what was merged"


def test_a_backtest_by_workers_leaves_the_files_of_a_local_run(
    zipped_conf: Path, mounted: Path, tmp_path: Path, user: str
) -> None:
    """With the code from the zip: its digest must be that of the driver's code."""
    DAY.write_lines(tmp_path / "reports.jsonl")
    words = ("backtest", "--reports", str(tmp_path / "reports.jsonl"), "--strategies", STRATEGIES)
    on_spark = ("--spark", "--spark-conf", str(zipped_conf))
    for out, more in ((tmp_path / "local", ("--jobs", "1")), (mounted / "far", on_spark)):
        done = ballast(*words, "--out", str(out), *more)
        assert done.returncode == 0, done.stderr[-4000:]
    points = {path.name: path for path in (mounted / "far" / "points").iterdir()}
    assert {user_of(path) for path in points.values()} == {user}, "the workers computed them"
    local = {path.name: path.read_bytes() for path in (tmp_path / "local" / "points").iterdir()}
    assert {name: path.read_bytes() for name, path in points.items()} == local
    assert len(local) == len(STRATEGIES.split(","))


def configure(folder: Path, mounted: Path) -> None:
    """Let the configuration name the mounted tables."""
    file = folder / "ballast.yaml"
    document = yaml.safe_load(file.read_text())
    document["tables"]["root"] = str(mounted / "tables")
    file.write_text(yaml.safe_dump(document))


@pytest.fixture
def user(cluster: object) -> str:
    """Whose processes the workers are, where that is not this process's user."""
    if os.geteuid() != 0:
        pytest.skip("workers of another user need root")
    return user_of_workers()
