"""docs/deployment.md: its commands and settings are accepted, and it says what jobs need of the JVM."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from controller.domain.errors import ConfigError
from controller.process.paths import ROOT
from controller.process.setup import LOCK_FILE
from controller.process.setup_lock import read_lock
from controller.process.spark_submit import check_deploy_mode, has_local_master
from controller.service.arguments import parse_arguments
from tests.unit.deploy.recipes import DEPLOY, PYPROJECT, SPARK_VERSION, check_command, spark_settings

PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
LINES = [line[2:] for block in BLOCKS for line in block.replace("\\\n", " ").splitlines() if line.startswith("$ ")]
PROPERTIES = re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
# What is not there over Spark Connect.
OF_THE_JVM = re.compile(
    r"\bSparkContext\b|\bsparkContext\b|\bpy4j\b|\b_jsc\b|\b_gateway\b|\bgateway_of\b|\brun_tasks\b"
)
CONNECT = PAGE[PAGE.index("## Spark Connect") :]


def of_ballast(line: str) -> list[str] | None:
    """The words after `ballast` where that is what a line runs."""
    words = shlex.split(line, comments=True)
    while words and (words[0] in ("sudo", "env") or "=" in words[0]):
        words = words[1:]
    return words[1:] if words and words[0] == "ballast" else None


@pytest.mark.parametrize("line", [line for line in LINES if of_ballast(line)])
def test_commands_are_accepted(line: str) -> None:
    words = of_ballast(line)
    assert words is not None
    check_command(words)


def test_spark_submit_is_given_a_job_and_arguments_that_it_takes() -> None:
    (line,) = [line for line in LINES if line.startswith("spark-submit ")]
    words = shlex.split(line)
    place = words.index("jobs/balance.py")
    assert (ROOT / words[place]).is_file()
    parse_arguments(words[place + 1 :])
    options = [word for word in words[1:place] if word.startswith("--")]
    assert options == ["--properties-file", "--load-spark-defaults", "--jars"], "as `ballast run` gives them"


@pytest.mark.parametrize("text", PROPERTIES, ids=lambda text: text.split()[1])
def test_settings_for_a_cluster_are_in_client_mode_with_a_python_on_both_sides(text: str, tmp_path: Path) -> None:
    file = tmp_path / "spark.conf"
    file.write_text(text)
    check_deploy_mode(file)
    assert not has_local_master(text)
    given = spark_settings(text)
    assert given.get("spark.submit.deployMode", "client") == "client"
    assert given["spark.pyspark.driver.python"].startswith("/")
    assert given["spark.pyspark.python"]
    file.write_text(text + "\nspark.submit.deployMode cluster\n")
    if given["spark.master"].startswith("spark:"):
        with pytest.raises(ConfigError, match="only YARN and Kubernetes run Python drivers"):
            check_deploy_mode(file)


def test_there_are_settings_for_a_standalone_cluster_and_for_yarn() -> None:
    assert [spark_settings(text)["spark.master"].split(":")[0] for text in PROPERTIES] == ["spark", "yarn"]


def test_every_recipe_is_named() -> None:
    folders = [f"conf/deploy/{folder.name}" for folder in DEPLOY.iterdir()]
    assert [folder for folder in folders if folder not in PAGE] == []
    manifests = [file.name for file in (DEPLOY / "kubernetes").iterdir()]
    assert [name for name in manifests if f"`{name}`" not in PAGE] == []


def test_versions_are_those_that_are_pinned() -> None:
    table = PAGE[PAGE.index("## Versions") : PAGE.index("## Spark Connect")]
    constraints = (ROOT / "conf" / "constraints.txt").read_text()
    locked = {str(coordinate) for _, coordinate in read_lock(LOCK_FILE).roots}
    for package in ("deltalake", "kafka-python"):
        assert f" {re.findall(rf'^{package}==(.*)$', constraints, re.MULTILINE)[0]} " in table
    delta = re.findall(r'"delta-spark==([\d.]+)"', PYPROJECT)[0]
    assert f"| {SPARK_VERSION}, Scala 2.13 |" in table
    assert f"| {delta} |" in table
    assert f"io.delta:delta-spark_2.13:{delta}" in locked
    kafka = next(name.rsplit(":", 1)[1] for name in locked if ":kafka_2.13:" in name)
    assert f"| {kafka} as the local broker" in table


def test_every_job_that_needs_the_jvm_is_listed_under_spark_connect() -> None:
    needing = {
        f"jobs/{file.name}"
        for file in (ROOT / "jobs").glob("*.py")
        if OF_THE_JVM.search(file.read_text(encoding="utf-8"))
    }
    assert set(re.findall(r"`(jobs/\w+\.py)`", CONNECT)) == needing
