"""What `ballast run` hands to spark-submit."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import main
from controller.cli.run import job
from controller.config.load import load_settings
from controller.domain.errors import AnotherController, ConfigError
from controller.process import spark_submit
from controller.process.paths import CONF
from controller.process.spark_submit import (
    LOCAL_SPARK_CONF,
    QUICK_EXIT,
    NoMaster,
    check_deploy_mode,
    check_master,
    has_local_master,
    spark_environment,
    spark_submit_command,
)
from controller.service.arguments import EXIT_ANOTHER, parse_arguments
from jobs import backtest_job, balance_job, maintain_job


def test_only_a_local_master_is_bound_to_loopback() -> None:
    assert has_local_master(LOCAL_SPARK_CONF.read_text())
    assert not has_local_master((CONF / "spark" / "cluster.conf").read_text())
    assert spark_environment({}, LOCAL_SPARK_CONF)["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in spark_environment({}, CONF / "spark" / "cluster.conf")


def test_executors_of_a_cluster_have_a_python_of_their_own() -> None:
    assert spark_environment({}, LOCAL_SPARK_CONF)["PYSPARK_PYTHON"] == sys.executable
    of_cluster = spark_environment({}, CONF / "spark" / "cluster.conf")
    assert "PYSPARK_PYTHON" not in of_cluster
    assert of_cluster["PYSPARK_DRIVER_PYTHON"] == sys.executable
    given = spark_environment({"PYSPARK_PYTHON": "/opt/py"}, CONF / "spark" / "cluster.conf")
    assert given["PYSPARK_PYTHON"] == "/opt/py"


@pytest.fixture
def defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cluster's own settings, where SPARK_CONF_DIR says."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "site"))
    (tmp_path / "site").mkdir()
    return tmp_path / "site" / "spark-defaults.conf"


def test_defaults_of_the_cluster_are_read_below_the_file(tmp_path: Path, defaults: Path) -> None:
    file = tmp_path / "spark.conf"
    file.write_text("spark.ballast.own 1\n")
    command = spark_submit_command([], file)
    assert command[1:4] == ["--properties-file", str(file), "--load-spark-defaults"]
    defaults.write_text("spark.master spark://127.0.0.1:1\nspark.submit.deployMode cluster\n")
    with pytest.raises(ConfigError, match=r"= cluster in spark-defaults\.conf is not allowed with spark://127"):
        spark_submit_command([], file)
    file.write_text("spark.submit.deployMode client\n")
    with pytest.raises(NoMaster, match=r"at spark://127\.0\.0\.1:1 "):
        spark_submit_command([], file)
    assert "SPARK_LOCAL_IP" not in spark_environment({"SPARK_CONF_DIR": str(defaults.parent)}, file)
    file.write_text("spark.master local[3]\nspark.submit.deployMode client\n")
    assert spark_submit_command([], file)
    assert spark_environment({}, file)["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_the_shipped_settings_for_one_machine_take_nothing_of_a_clusters(defaults: Path) -> None:
    defaults.write_text("spark.submit.deployMode cluster\nspark.eventLog.enabled true\n")
    assert "--load-spark-defaults" not in spark_submit_command([])


def test_a_driver_on_a_standalone_cluster_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "spark.conf"
    file.write_text("spark.master spark://m:7077\nspark.submit.deployMode cluster\n")
    with pytest.raises(ConfigError, match=r"deployMode = cluster in .*spark\.conf is not allowed with spark://m:7077"):
        check_deploy_mode(file)
    file.write_text("spark.submit.deployMode cluster\n")
    with pytest.raises(ConfigError, match=r"is not allowed with no spark\.master"):
        check_deploy_mode(file)
    file.write_text("spark.master yarn\nspark.submit.deployMode CLUSTER\n")
    with pytest.raises(ConfigError, match=r"deployMode = CLUSTER in .* is no mode of Spark"):
        check_deploy_mode(file)
    for allowed in ("spark.master yarn\nspark.submit.deployMode cluster", "spark.master spark://m:7077"):
        file.write_text(allowed)
        check_deploy_mode(file)


@pytest.fixture
def listening() -> Iterator[str]:
    """An address that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_standalone_master_that_does_not_answer_is_named_before_a_jvm_starts(tmp_path: Path, listening: str) -> None:
    file = tmp_path / "spark.conf"
    file.write_text("spark.master spark://127.0.0.1:1,127.0.0.1:2\n")
    with pytest.raises(NoMaster) as caught:
        spark_submit_command([], file)
    refused = "127.0.0.1:1: Connection refused; 127.0.0.1:2: Connection refused"
    assert f"no Spark master answers at spark://127.0.0.1:1,127.0.0.1:2 ({refused}): start it" in str(caught.value)
    file.write_text(f"spark.master spark://127.0.0.1:1,{listening}\n")
    assert spark_submit_command([], file), "one that answers is enough"
    for other in ("local[2]", "yarn", "k8s://https://127.0.0.1:1", ""):
        check_master(other)
    with pytest.raises(NoMaster, match=r"spark://master \(master: "):
        check_master("spark://master")


def test_a_master_that_does_not_answer_may_answer_the_next_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So the exit code is not that of a configuration error, after which systemd starts nothing again."""
    file = tmp_path / "spark.conf"
    file.write_text("spark.master spark://127.0.0.1:1\n")
    for line in ("run", "maintain --spark"):
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), "--spark-conf", str(file), "--set", f"tables.root={tmp_path / 'tables'}"])
        told = capsys.readouterr().err
        assert (ended.value.code, told.count("\n")) == (1, 1)
        assert "no Spark master answers at spark://127.0.0.1:1 (127.0.0.1:1: Connection refused)" in told


@pytest.mark.parametrize("job", [balance_job, maintain_job, backtest_job])
def test_a_job_that_was_submitted_to_such_a_master_ends_in_one_line(
    job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(name: str) -> None:
        check_master("spark://127.0.0.1:1")

    monkeypatch.setattr(job, "build_session", build)
    monkeypatch.setattr("controller.backtest.store.Store.arrays", lambda store, job: tmp_path)
    arguments = ["--set", f"tables.root={tmp_path / 'tables'}", "--set", f"tables.checkpoints={tmp_path / 'points'}"]
    if job is backtest_job:
        arguments += ["--out", str(tmp_path), "--recording", "x", "--strategies", "steady"]
        arguments += ["--round-interval-ms", "60000", "--missed-steps", "3", "--gap-ms", "1000"]
    assert job.main(arguments) == 1
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ballast")]
    assert len(told) == 1
    assert "no Spark master answers at spark://127.0.0.1:1 (" in told[0]


def test_an_address_from_outside_counts() -> None:
    assert spark_environment({"SPARK_LOCAL_IP": "10.0.0.7"}, LOCAL_SPARK_CONF)["SPARK_LOCAL_IP"] == "10.0.0.7"


def test_the_jvms_own_options_are_added_to_those_from_outside() -> None:
    """Later ones win: whoever sets the limit on shutdown hooks has the last word."""
    assert spark_environment({})["SPARK_SUBMIT_OPTS"] == QUICK_EXIT
    assert spark_environment({"SPARK_SUBMIT_OPTS": "-Da=b"})["SPARK_SUBMIT_OPTS"] == f"{QUICK_EXIT} -Da=b"


@pytest.mark.parametrize(
    ("properties", "local"),
    [
        ("spark.master=local[2]", True),
        ("  spark.master  local[*]", True),
        ("# spark.master local", False),
        ("spark.master local[2]\nspark.master spark://m:7077", False),
    ],
)
def test_the_master_is_read_as_spark_reads_it(properties: str, local: bool) -> None:
    assert has_local_master(properties) is local


def test_the_configuration_file_may_be_named_for_a_whole_session(tmp_path: Path) -> None:
    for name in ("site", "other"):
        (tmp_path / f"{name}.yaml").write_text(f"cluster: {{name: {name}}}")
    env = {"BALLAST_CONF": str(tmp_path / "site.yaml")}

    def loaded(*arguments: str) -> str:
        given = parse_arguments(arguments)
        return load_settings(given.conf, given.profile, given.overrides, env).cluster.name

    assert loaded() == "site"
    assert loaded("--conf", str(tmp_path / "other.yaml")) == "other"
    assert load_settings(None, env={}).cluster.name == "ballast"


def test_checkpoints_in_s3_need_jars_that_the_driver_alone_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_submit, "EXTRA_JARS", tmp_path)
    place = "s3a://KEY:SECRET@bucket/checkpoints"
    with pytest.raises(
        ConfigError, match=r"s3a://\*\*\*@bucket/checkpoints need the JARs .* run `ballast setup --s3a`"
    ):
        spark_submit_command([], checkpoints=place)
    (tmp_path / "s3a").mkdir()
    jars = [tmp_path / "s3a" / name for name in ("bundle.jar", "hadoop-aws.jar")]
    for jar in jars:
        jar.touch()
    file = tmp_path / "spark.conf"
    file.write_text("spark.driver.extraClassPath /opt/ours\n")
    command = spark_submit_command([], file, checkpoints=place)
    ours, logging, *theirs = command[command.index("--driver-class-path") + 1].split(":")
    assert (ours, theirs) == ("/opt/ours", list(map(str, jars)))
    assert Path(logging).is_file(), "Spark's own logging, before an old one in the bundle, with which Spark is silent"
    assert Path(logging).name.startswith("slf4j-api-2")
    assert not [jar for jar in jars if str(jar) in command[command.index("--jars") + 1]]
    assert "--driver-class-path" not in spark_submit_command([], file, checkpoints="hdfs://nameservice/checkpoints")


def run_beside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *more: str) -> tuple[object, list[object]]:
    """`ballast run` whose port the controller has that holds the journal: the exit code, and what would be started."""
    started: list[object] = []

    def refuse_unless_taken_over(settings: object, take_over: bool) -> None:
        if not take_over:
            raise AnotherController("controller c1 holds journal j")

    monkeypatch.setattr(job, "check_answers", lambda *_: None)
    monkeypatch.setattr(job, "check_topics", refuse_unless_taken_over)
    monkeypatch.setattr(job.os, "execve", lambda *given: started.append(given[1]))
    places = [f"--set=tables.root={tmp_path}/t", f"--set=tables.checkpoints={tmp_path}/c"]
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit) as ended:
        main(["run", *places, f"--set=http.job_port={taken.getsockname()[1]}", *more])
    return ended.value.code, started


def test_a_second_start_on_the_same_machine_names_the_controller_and_not_the_port(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_beside(monkeypatch, tmp_path) == (EXIT_ANOTHER, [])
    assert "controller c1 holds journal j" in capsys.readouterr().err


def test_a_take_over_does_not_need_the_port_of_the_controller_that_it_replaces(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code, started = run_beside(monkeypatch, tmp_path, "--take-over")
    assert (code, len(started)) == (0, 1)
