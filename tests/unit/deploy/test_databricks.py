"""The asset bundle: it fits the schema of bundles, and everything that it names exists once `ballast init` wrote it."""

from __future__ import annotations

import copy
import importlib
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.cli.run.init import BUNDLE, starter_files
from controller.config.http_access import check_http_access
from controller.config.load import load_settings
from controller.config.settings import reveals_secret
from controller.domain.errors import ConfigError
from controller.service.arguments import parse_arguments
from tests.unit.deploy.recipes import PYPROJECT, WHEEL, check_command, cluster_settings, faults, parts

WORKSPACE = "${workspace.file_path}/"  # where the bundle's folder is
WIDGET = re.compile(r'dbutils\.widgets\.text\("(\w+)"')
ENTRY_POINT = r'^{} = "([\w.]+):(\w+)"$'
OF_THE_RUNTIME = (
    "spark.sql.extensions", "spark.sql.catalog.spark_catalog", "spark.log.level", "spark.executor.extraJavaOptions"
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle as it is written."""
    made = tmp_path_factory.mktemp("written")
    for name, text in starter_files(made, "cluster"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return made / BUNDLE


@pytest.fixture(scope="module")
def bundle(folder: Path) -> dict[str, Any]:
    """With whole values in the place of complex variables, as the CLI puts them in before it judges types."""
    read = yaml.safe_load((folder / "databricks.yml").read_text())
    values = {f"${{var.{name}}}": given.get("default") for name, given in read["variables"].items()}
    for part in list(parts(read["resources"])):
        for key, value in part.items():
            if isinstance(value, str) and isinstance(values.get(value), dict):
                part[key] = copy.deepcopy(values[value])
    return read


@pytest.fixture(scope="module")
def tasks(bundle: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The one task of each job."""
    return {name: job["tasks"][0] for name, job in bundle["resources"]["jobs"].items() if len(job["tasks"]) == 1}


def test_it_has_only_fields_and_values_that_bundles_have(bundle: dict[str, Any]) -> None:
    assert faults(bundle, "databricks_bundle.yaml") == []
    wrong = copy.deepcopy(bundle)
    wrong["resources"]["jobs"]["balance"]["continuous"]["pause_status"] = "RUNNING"
    wrong["resources"]["jobs"]["maintain"]["tasks"][0]["python_wheel_task"].pop("entry_point")
    wrong["resources"]["jobs"]["backtest"]["cron"] = "hourly"
    assert len(faults(wrong, "databricks_bundle.yaml")) == 3


def test_there_are_the_jobs_and_both_notebooks(bundle: dict[str, Any], tasks: dict[str, dict[str, Any]]) -> None:
    assert tasks.keys() == bundle["resources"]["jobs"].keys() == {"balance", "maintain", "operations", "backtest"}
    for name, task in tasks.items():
        (cluster,) = bundle["resources"]["jobs"][name]["job_clusters"]
        assert task["job_cluster_key"] == cluster["job_cluster_key"]
        assert cluster["new_cluster"]["data_security_mode"] == "SINGLE_USER"  # the driver's JVM can be reached
    assert bundle["resources"]["jobs"]["balance"]["continuous"] == {"pause_status": "UNPAUSED"}
    assert bundle["resources"]["jobs"]["balance"]["max_concurrent_runs"] == 1


def test_entry_points_are_those_of_the_wheel_and_take_these_parameters(tasks: dict[str, dict[str, Any]]) -> None:
    started = {name: task["python_wheel_task"] for name, task in tasks.items() if "python_wheel_task" in task}
    assert started.keys() == {"balance", "maintain"}
    for task in started.values():
        assert f'\nname = "{task["package_name"]}"\n' in PYPROJECT
        ((module, function),) = re.findall(ENTRY_POINT.format(task["entry_point"]), PYPROJECT, re.MULTILINE)
        assert callable(getattr(importlib.import_module(module), function))
    parse_arguments(started["balance"]["parameters"])
    check_command(started["maintain"]["parameters"])
    assert started["maintain"]["parameters"][0] == "maintain"


def test_the_files_that_it_names_are_in_its_folder(folder: Path, bundle: dict[str, Any]) -> None:
    named = [word for part in parts(bundle) for words in part.values() if isinstance(words, list) for word in words]
    assert {word for word in named if isinstance(word, str) and word.startswith(WORKSPACE)} == {
        f"{WORKSPACE}ballast.yaml"
    }
    assert (folder / "ballast.yaml").is_file()
    wheels = {library["whl"] for part in parts(bundle) for library in part.get("libraries", [])}
    assert [fnmatch(f"./{WHEEL}", wheel) for wheel in wheels] == [True]


def test_notebooks_are_there_and_know_their_parameters(folder: Path, tasks: dict[str, dict[str, Any]]) -> None:
    shown = [task["notebook_task"] for task in tasks.values() if "notebook_task" in task]
    assert len(shown) == 2
    for task in shown:
        text = (folder / task["notebook_path"]).read_text()
        assert text.startswith("# Databricks notebook source\n")
        assert set(WIDGET.findall(text)) >= task["base_parameters"].keys()
    importing = [name for name, task in tasks.items() if "notebook_task" in task and "libraries" in task]
    assert importing == ["backtest"]  # the other one needs Spark only


def test_notebooks_have_the_modules_that_they_share_beside_them(folder: Path) -> None:
    beside = {file.stem: file.read_text() for file in (folder / "notebooks").glob("*.py")}
    shared = {name for name, text in beside.items() if not text.startswith("# Databricks notebook source\n")}
    assert shared == {"plots", "views"}
    assert {name for name in beside if name[0].isdigit()} == beside.keys() - shared
    imported = {name for text in beside.values() for name in re.findall(r"(?m)^from (\w+) import", text)}
    assert shared <= imported


def test_spark_has_the_settings_of_a_cluster(bundle: dict[str, Any]) -> None:
    given = bundle["variables"]["cluster"]["default"]["spark_conf"]
    shipped = {
        key: value for key, value in cluster_settings().items()
        if key not in OF_THE_RUNTIME and not key.startswith("spark.databricks.")
    }  # fmt: skip
    assert given == shipped


def test_its_configuration_starts_a_job_and_has_no_secret(folder: Path, bundle: dict[str, Any]) -> None:
    file = folder / "ballast.yaml"
    settings = load_settings(file, env={})
    check_http_access(settings, "http.bind_host")
    assert settings.tables.root == bundle["variables"]["tables"]["default"]
    assert settings.kafka.client["security_protocol"] == "SSL"
    assert not reveals_secret(file.read_text())
    assert not reveals_secret((folder / "databricks.yml").read_text())
    with pytest.raises(ConfigError, match="HTTP beyond loopback"):
        check_http_access(settings, "agent.bind_host")  # that of agents elsewhere has a token
