"""What a wheel brings along, and that it works in a folder where no checkout is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from controller.backtest.store import code_digest
from controller.cli.run.package import PACKAGES, write_zip
from controller.process.paths import CODE, CONF, JARS
from tests.installed import Installed, build, clean_environment, copy_source
from tests.stored_state.archive import extract_all

SHIPPED = Path("controller/shipped")


def files_below(folder: Path, pattern: str = "*") -> set[Path]:
    """Relative to the folder, compiled ones left out."""
    found = (path for path in folder.rglob(pattern) if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(folder) for path in found}


@pytest.fixture(scope="module")
def place(installed: Installed) -> Path:
    """Where pip has put the code."""
    return next((installed.environment / "lib").glob("python*/site-packages"))


def test_it_has_all_of_the_code_and_nothing_else(place: Path) -> None:
    assert {path.name for path in place.iterdir() if path.suffix not in (".dist-info", ".pth")} == set(PACKAGES)
    for package in PACKAGES:
        code = {package / path for path in files_below(place / package, "*.py")}
        assert {path for path in code if SHIPPED not in path.parents} == {
            package / path for path in files_below(CODE / package, "*.py")
        }


def test_it_has_all_of_the_configuration(place: Path) -> None:
    assert files_below(place / SHIPPED / "conf") == files_below(CONF) - {Path("mkdocs.yml")}  # builds the documentation
    assert Path("01_operations.py") in files_below(place / SHIPPED / "notebooks")
    assert Path("sql.md") in files_below(place / SHIPPED / "docs")
    assert files_below(place / SHIPPED / "docs" / "sql") == files_below(CODE / "docs" / "sql")


def test_a_wheel_made_of_the_source_distribution_is_the_same(place: Path, tmp_path: Path) -> None:
    archive = build("build_sdist", copy_source(tmp_path / "source"), tmp_path)
    with tarfile.open(archive) as packed:
        extract_all(packed, tmp_path / "unpacked")
    wheel = build("build_wheel", next((tmp_path / "unpacked").iterdir()), tmp_path)
    names = {Path(name) for name in zipfile.ZipFile(wheel).namelist()}
    code = {path for path in names if path.parts[0] in PACKAGES}
    assert code == {package / path for package in PACKAGES for path in files_below(place / package)}


def test_commands_work_without_a_checkout_and_without_a_home(installed: Installed, tmp_path: Path) -> None:
    alone = {"HOME": str(tmp_path), "BALLAST_HOME": ""}
    assert installed.ballast("--version", **alone).returncode == 0
    shown = installed.ballast("config", "show", "--profile", "cluster", **alone)
    assert shown.returncode == 0, shown.stderr
    assert str(tmp_path / ".ballast" / "run" / "tables") in shown.stdout.replace("\n", "")
    run = installed.ballast("run", **alone)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert "run `ballast setup` once" in run.stderr


def test_setup_verifies_what_is_there_and_says_how_it_is_found(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "jars").symlink_to(JARS)
    done = installed.ballast("setup", "--dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "JARs verified" in done.stdout
    assert f"set BALLAST_HOME={tmp_path} wherever" in done.stdout
    (tmp_path / "empty").mkdir()
    settings = tmp_path / "ivysettings.xml"
    settings.write_text("<ivysettings/>")
    failed = installed.ballast("setup", "--dir", str(tmp_path / "empty"), BALLAST_IVY_SETTINGS=str(settings))
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr


def test_a_folder_to_run_from(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / "my ballast"
    made = installed.ballast("init", str(folder), "--profile", "cluster")
    assert made.returncode == 0, made.stderr
    check = ("config", "check", "--conf", str(folder / "ballast.yaml"))
    assert "HTTP beyond loopback needs authentication" in installed.ballast(*check).stderr
    checked = installed.ballast(*check, "--set", "http.allow_unauthenticated=true")
    assert checked.returncode == 0, checked.stderr
    assert "\nprofile: cluster\n" in (folder / "ballast.yaml").read_text()
    assert (folder / "spark.conf").read_text() == (CONF / "spark" / "cluster.conf").read_text()
    job = (folder / "systemd" / "ballast-job.service").read_text()
    program = installed.environment / "bin" / "ballast"
    assert f'ExecStart="{program}" run --conf "{folder}/ballast.yaml" --spark-conf "{folder}/spark.conf"' in job
    assert f'"BALLAST_HOME={installed.home}"' in job
    assert not [unit for unit in (folder / "systemd").iterdir() if "@FOLDER@" in unit.read_text()]
    before = files_below(folder)
    again = installed.ballast("init", str(folder))
    assert again.returncode == 2
    assert f"{folder}/ballast.yaml exists already" in again.stderr
    assert files_below(folder) == before
    refused = installed.ballast("init", str(tmp_path / "other"), "--profile", "clutser")
    assert refused.returncode == 2
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd to ask")
def test_systemd_takes_the_units(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / "100 % ballast"
    assert installed.ballast("init", str(folder)).returncode == 0
    units = sorted((folder / "systemd").iterdir())
    named = [unit.with_name(unit.name.replace("@", "@broker-1")) for unit in units]
    for unit, instance in zip(units, named, strict=True):
        unit.rename(instance)
    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, named)], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    assert not [line for line in said.stderr.splitlines() if str(folder) in line]


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="there is no systemd to ask")
def test_systemd_makes_the_user_of_the_units(installed: Installed, tmp_path: Path) -> None:
    folder, root = tmp_path / "folder", tmp_path / "root"
    made = installed.ballast("init", str(folder))
    assert f"systemd-sysusers {folder}/sysusers/ballast.conf" in made.stdout
    (root / "etc").mkdir(parents=True)
    users = folder / "sysusers" / "ballast.conf"
    done = subprocess.run(
        ["systemd-sysusers", f"--root={root}", str(users)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    named = {line.split(":")[0] for line in (root / "etc" / "passwd").read_text().splitlines()}
    units = "".join(unit.read_text() for unit in (folder / "systemd").glob("*.service"))
    assert set(re.findall(r"^User=(.*)$", units, re.MULTILINE)) == named == {"ballast"}


def test_the_recipes_are_written_with_their_notebooks(installed: Installed, tmp_path: Path) -> None:
    assert installed.ballast("init", str(tmp_path / "folder")).returncode == 0
    written = files_below(tmp_path / "folder" / "deploy")
    notebooks = {Path("databricks/notebooks") / file for file in files_below(CODE / "notebooks", "*.py")}
    notebooks.remove(Path("databricks/notebooks/run_local.py"))
    assert written == files_below(CONF / "deploy") | notebooks


def test_the_job_is_an_entry_point_of_the_wheel(installed: Installed) -> None:
    found = (
        "from importlib.metadata import distribution; print([p.value for p in distribution('ballast').entry_points])"
    )
    done = subprocess.run(
        [installed.python, "-c", found], capture_output=True, text=True, check=True, env=clean_environment()
    )
    assert "'jobs.balance:main'" in done.stdout


def test_the_zip_for_executors_is_all_that_a_task_imports(tmp_path: Path) -> None:
    modules = write_zip(tmp_path / "one.zip")
    assert write_zip(tmp_path / "other.zip") == modules == len(zipfile.ZipFile(tmp_path / "one.zip").namelist())
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()
    imports = (
        "import controller.loads.task, jobs.loads_batch, jobs.backtest_tasks; print(jobs.loads_batch.__file__);"
        "print(jobs.backtest_tasks.code_digest())"
    )
    zipped = subprocess.run(
        [sys.executable, "-P", "-S", "-c", imports], capture_output=True, text=True, check=False, cwd=tmp_path,
        env=clean_environment() | {"PYTHONPATH": f"{tmp_path / 'one.zip'}:{_libraries()}"},
    )  # fmt: skip
    assert zipped.returncode == 0, zipped.stderr
    module, digest = zipped.stdout.split()
    assert module.startswith(str(tmp_path / "one.zip"))
    assert digest == code_digest(), "a task would refuse the driver's code"


def test_the_zip_has_nothing_that_no_task_imports(tmp_path: Path, installed: Installed) -> None:
    """An installed package brings notebooks along."""
    made = installed.ballast("package", str(tmp_path / "installed.zip"))
    assert made.returncode == 0, made.stderr
    write_zip(tmp_path / "checkout.zip")
    names = [set(zipfile.ZipFile(tmp_path / f"{name}.zip").namelist()) for name in ("installed", "checkout")]
    assert names[0] == names[1]


def test_files_and_commands_that_are_named_are_there(installed: Installed, place: Path) -> None:
    code = (
        "from pathlib import Path; from controller.operations.stopped import OVER; from controller.testbed.demo.screen"
        ".summary import next_lines; print(OVER); print(list(next_lines(Path(), []))[-1])"
    )
    done = subprocess.run(
        [installed.python, "-c", code], capture_output=True, text=True, check=True, env=clean_environment(),
        cwd=installed.folder,
    )  # fmt: skip
    over, last = done.stdout.splitlines()
    assert f"docs/sql.md in {place / SHIPPED} read them. `ballast demo` starts a new one" in over
    assert last == f"  docs/sql.md and notebooks/01_operations.py in {place / SHIPPED}, on its tables"
    told = installed.ballast("status").stderr
    assert "start a controller (`ballast run` or `ballast demo`)" in told


def _libraries() -> Path:
    return Path(pytest.__file__).parents[1]
