"""Workers far from the checkout: another user, an environment of its own with the wheel, folders of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from controller.cli.run.package import PACKAGES
from controller.process.paths import ROOT
from controller.testbed.spark_cluster import SparkCluster
from tests.installed import Installed, build, copy_source, install

NOBODY = "nobody"
WORKERS, CORES, MEMORY_MB = 2, 1, 900


@contextmanager
def apart() -> Iterator[Path]:
    """A folder that every user may enter, as pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="ballast-cluster-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install_apart(folder: Path) -> Installed:
    """The wheel beside hard links to this environment's libraries, and to its interpreter: nothing in it leads to the
    checkout, or to a home that others cannot enter."""
    link_tree(Path(sys.base_prefix), folder / "python")
    made = install(build("build_wheel", copy_source(folder / "source"), folder / "dist"), folder)
    interpreter = made.environment / "bin" / "python3"
    real = folder / "python" / "bin" / Path(os.path.realpath(interpreter)).name
    for name in ("python", "python3", real.name):
        (made.environment / "bin" / name).unlink(missing_ok=True)
        (made.environment / "bin" / name).symlink_to(real)
    (made.environment / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n")
    shutil.rmtree(folder / "source")
    packages = next((made.environment / "lib").glob("python*/site-packages"))
    borrowed = packages / "borrowed.pth"
    for source in map(Path, borrowed.read_text().split()):
        for entry in source.iterdir():
            if not (packages / entry.name).exists() and not entry.name.startswith("__editable__"):
                link_tree(entry, packages / entry.name)
    borrowed.unlink()
    return made


def copy_without_ballast(environment: Path, into: Path) -> Path:
    """An environment with the same libraries, but without the wheel."""
    link_tree(environment, into)
    packages = next((into / "lib").glob("python*/site-packages"))
    for place in (*(packages / name for name in PACKAGES), *packages.glob("ballast-*.dist-info")):
        shutil.rmtree(place)
    return into


def link_tree(source: Path, target: Path) -> None:
    """A copy that costs no space, where both are on one file system."""
    linked = subprocess.run(["cp", "-al", str(source), str(target)], capture_output=True, check=False)
    if linked.returncode != 0:
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(["cp", "-a", str(source), str(target)], check=True)


@contextmanager
def running_cluster(folder: Path, environment: Path) -> Iterator[SparkCluster]:
    """Workers run as `nobody` where this process may say so."""
    cluster = SparkCluster(folder / "spark")
    cluster.create(WORKERS, CORES, MEMORY_MB, environment / "bin" / "python", NOBODY if os.geteuid() == 0 else "")
    with pytest.MonkeyPatch.context() as patch:
        # the interpreter looks for its library where it was built, which may be a home that others cannot enter
        patch.setenv("LD_LIBRARY_PATH", str(folder / "python" / "lib"))
        try:
            cluster.up()
            yield cluster
        finally:
            cluster.down()


def processes_of(user: str) -> list[psutil.Process]:
    """Those that run as this user."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.username() == user:
                found.append(process)
    return found


def command_lines(processes: list[psutil.Process]) -> list[str]:
    """As `ps` shows them."""
    lines = []
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it has ended
            lines.append(" ".join(process.cmdline()))
    return lines


def files_in_use(process: psutil.Process) -> set[str]:
    """What it has mapped or open, its executable and its folder."""
    names: set[str] = set()
    with contextlib.suppress(psutil.Error, OSError):
        names |= {mapped.path for mapped in process.memory_maps()}
        names |= {opened.path for opened in process.open_files()}
        names |= {process.exe(), process.cwd()}
    return names


def runs_python(cluster: SparkCluster, number: int) -> bool:
    """Whether an executor of this worker has started Python, which the first task does that it is given."""
    pid = cluster.process(f"worker-{number}").pid
    started = psutil.Process(pid).children(recursive=True) if pid is not None else []
    return any("pyspark.daemon" in line for line in command_lines(started))


@contextmanager
def closed_to_others(folder: Path = ROOT) -> Iterator[None]:
    """Nobody but its owner may enter the checkout meanwhile."""
    before = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(before & 0o700)
    try:
        yield
    finally:
        folder.chmod(before)


def user_of_workers() -> str:
    """Whose processes they are."""
    return NOBODY if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
