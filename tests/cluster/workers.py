"""Workers far from the checkout: another user, an environment of its own with the wheel, folders of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

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
    """The wheel beside hard links to this environment's libraries: nothing in it leads to the checkout."""
    made = install(build("build_wheel", copy_source(folder / "source"), folder / "dist"), folder)
    shutil.rmtree(folder / "source")
    packages = next((made.environment / "lib").glob("python*/site-packages"))
    borrowed = packages / "borrowed.pth"
    for source in map(Path, borrowed.read_text().split()):
        for entry in source.iterdir():
            if not (packages / entry.name).exists() and not entry.name.startswith("__editable__"):
                subprocess.run(["cp", "-al", str(entry), str(packages)], check=True)
    borrowed.unlink()
    return made


@contextmanager
def running_cluster(folder: Path, environment: Path) -> Iterator[SparkCluster]:
    """Workers run as `nobody` where this process may say so."""
    cluster = SparkCluster(folder / "spark")
    cluster.create(WORKERS, CORES, MEMORY_MB, environment / "bin" / "python", NOBODY if os.geteuid() == 0 else "")
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


def files_in_use(process: psutil.Process) -> set[str]:
    """What it has mapped or open, its executable and its folder."""
    names: set[str] = set()
    with contextlib.suppress(psutil.Error, OSError):
        names |= {mapped.path for mapped in process.memory_maps()}
        names |= {opened.path for opened in process.open_files()}
        names |= {process.exe(), process.cwd()}
    return names


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
