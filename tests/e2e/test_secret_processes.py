"""A marked password through failures of real processes: their output, their files, `ps` while they run.

In process, command by command: tests/component/test_secrets.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
import yaml

from controller.bus.topics import TopicNames, ensure_topics, live_topics
from controller.process.paths import CONF
from controller.process.setup_java import find_java
from controller.process.spark_submit import spark_environment, spark_submit_command
from tests.e2e import failing_programs
from tests.e2e.kafka.secured_kafka import Secured, secured_kafka
from tests.e2e.programs import BALLAST

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

MARK = "mark-4f1c9a"
PROGRAMS = failing_programs.__file__
LOGIN = {
    "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "a",
    "sasl_plain_password": MARK,
}  # fmt: skip
WRONG = {"sasl_plain_password": f"{MARK}-wrong"}


class Run:
    """A program from start to end: what it said, and every command line that `ps` showed of it meanwhile."""

    def __init__(self, argv: Sequence[str], folder: Path, timeout_s: float = 400.0, **env: str) -> None:
        log = folder / "said.log"
        self.seen: set[str] = set()
        with log.open("wb") as output:
            process = psutil.Popen(argv, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **env}, cwd=folder)
        until = time.monotonic() + timeout_s
        while process.poll() is None and time.monotonic() < until:
            self._look(process)
            time.sleep(0.05)
        if process.poll() is None:
            for child in (*process.children(recursive=True), process):
                child.kill()
        self.code = process.wait()
        self.said = log.read_text(errors="replace")

    def _look(self, process: psutil.Process) -> None:
        try:
            for one in (process, *process.children(recursive=True)):
                self.seen.add(" ".join(one.cmdline()))
        except psutil.NoSuchProcess:
            pass  # over meanwhile


def write(folder: Path, bootstrap: str, client: dict[str, object], **tables: str) -> Path:
    document = {
        "kafka": {"bootstrap_servers": bootstrap, "client": client},
        "tables": {"root": str(folder / "tables"), "checkpoints": str(folder / "checkpoints"), **tables},
        "logging": {"level": "debug", "json_lines": True},
    }
    path = folder / "ballast.yaml"
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return path


def check(run: Run, folder: Path, *words: str) -> None:
    assert run.code
    for word in words:
        assert word in run.said, run.said[-4000:]
    assert MARK not in run.said
    assert len(run.seen) >= 1
    assert not [line for line in run.seen if MARK in line]
    given = {folder / "ballast.yaml", folder / "spark.conf"}  # where the mark comes from
    kept = [file for file in folder.rglob("*") if file.is_file() and file not in given]
    assert [file for file in kept if MARK.encode() in file.read_bytes()] == []


def test_a_job_with_an_impossible_place(tmp_path: Path) -> None:
    conf = write(tmp_path, "127.0.0.1:1", LOGIN, checkpoints="/dev/null/checkpoints")
    run = Run([*BALLAST, "run", "--conf", str(conf)], tmp_path)
    check(run, tmp_path, "/dev/null/checkpoints")
    assert run.code == 2
    assert run.said.count("\n") == 1


def test_threads_and_children_that_fail(tmp_path: Path) -> None:
    conf = write(tmp_path, "127.0.0.1:1", LOGIN)
    run = Run([sys.executable, PROGRAMS, "threads_and_children", str(conf)], tmp_path)
    check(run, tmp_path, f"a fault with {len(LOGIN)} settings in hand")
    assert run.said.count(f"a fault with {len(LOGIN)} settings") >= 4


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_started_by_python(short_lived_jvms: None, tmp_path: Path) -> None:
    conf = write(tmp_path, "127.0.0.1:1", LOGIN)
    run = Run(
        [sys.executable, PROGRAMS, "spark_starts_by_itself", str(conf)], tmp_path, JAVA_HOME=str(find_java().home)
    )
    check(run, tmp_path, "s3a")
    assert any("SparkSubmit" in line for line in run.seen)


@pytest.mark.slow
@pytest.mark.kafka
class TestSecuredKafka:
    @pytest.fixture(scope="class")
    @staticmethod
    def secured(short_lived_jvms: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
        with secured_kafka(tmp_path_factory.mktemp("secured"), MARK) as found:
            ensure_topics(found.bootstrap, live_topics(TopicNames()), found.client)
            yield found

    @pytest.mark.spark
    def test_a_job_whose_checkpoints_no_file_system_takes(self, secured: Secured, tmp_path: Path) -> None:
        conf = write(tmp_path, secured.bootstrap, secured.client, checkpoints="nosuch://bucket/checkpoints")
        spark_conf = tmp_path / "local.conf"
        spark_conf.write_text(
            (CONF / "spark" / "local.conf").read_text()
            + "\nspark.log.level INFO\nspark.hadoop.fs.s3a.secret.key " + MARK
        )  # fmt: skip
        run = Run([*BALLAST, "run", "--conf", str(conf), "--spark-conf", str(spark_conf)], tmp_path)
        spark_conf.unlink()
        check(run, tmp_path, "nosuch")
        assert any("SparkSubmit" in line for line in run.seen)

    @pytest.mark.spark
    def test_spark_with_a_password_that_kafka_refuses(self, secured: Secured, tmp_path: Path) -> None:
        conf = write(tmp_path, secured.bootstrap, {**secured.client, **WRONG})
        command = spark_submit_command(["spark_reads", str(conf)], job=Path(PROGRAMS))
        command[1:1] = ["--verbose", "--conf", "spark.log.level=INFO", "--conf", "spark.logConf=true"]
        run = Run(command, tmp_path, **spark_environment(os.environ))
        check(run, tmp_path, "SaslAuthenticationException", "[hidden]", "the stream:")

    @pytest.mark.parametrize("line", ["agent --broker-id b1", "topic create t/n/x", "status"])
    def test_commands_with_a_password_that_kafka_refuses(self, line: str, secured: Secured, tmp_path: Path) -> None:
        from controller.ledger.tables import TableRoot

        TableRoot(tmp_path / "tables").create_all()
        conf = write(tmp_path, secured.bootstrap, {**secured.client, **WRONG})
        check(Run([*BALLAST, *line.split(), "--conf", str(conf)], tmp_path, timeout_s=60), tmp_path)
