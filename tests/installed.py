"""Ballast as its users install it: from its wheel, in an environment of its own, used from an empty folder.

The libraries are those of the tests' environment: downloading them again would only test pip.
"""

from __future__ import annotations

import os
import site
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

from controller.process.paths import JARS, ROOT

BUILD = "import sys, setuptools.build_meta as backend; print(getattr(backend, sys.argv[1])(sys.argv[2]))"


@dataclass(frozen=True)
class Installed:
    """`folder`: empty, where commands run. `home`: BALLAST_HOME, which has the cached JARs."""

    environment: Path
    folder: Path
    home: Path

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.environment / "bin" / "python"

    def ballast(self, *arguments: str, timeout_s: float = 120.0, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. The limit only catches a hang."""
        command = [str(self.environment / "bin" / "ballast"), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=self.folder,
            env=clean_environment() | {"BALLAST_HOME": str(self.home)} | variables,
        )  # fmt: skip


def clean_environment() -> dict[str, str]:
    """This process's, without what leads to the checkout or to its settings."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and name[:8] != "BALLAST_"}


def build(kind: str, source: Path, into: Path) -> Path:
    """The file that the build backend makes of a source tree. `kind`: build_wheel, build_sdist."""
    into.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(into)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return into / done.stdout.splitlines()[-1]


def copy_source(into: Path) -> Path:
    """The tracked files and new ones, as a fresh clone would have them; building in the checkout leaves files there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout.decode()  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "benchmarks/")):
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            (into / name).write_bytes((ROOT / name).read_bytes())
    return into


def install(wheel: Path, folder: Path) -> Installed:
    """The wheel in a new environment, which borrows the libraries of this one."""
    environment = folder / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    borrowed = [path for path in map(Path, site.getsitepackages()) if path.is_dir()]
    (packages / "borrowed.pth").write_text("".join(f"{path}\n" for path in borrowed))
    command = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    command += ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(command, check=True, env=clean_environment())  # pip takes a checkout on PYTHONPATH for installed
    home, empty = folder / "home", folder / "empty"
    (home / ".cache").mkdir(parents=True)
    (home / ".cache" / "jars").symlink_to(JARS)
    empty.mkdir()
    return Installed(environment, empty, home)
