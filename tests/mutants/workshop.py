"""A copy of the tree in which bugs are planted. The tree itself is never changed, and may be while a run goes on.

Bytecode is written while the copy is unchanged and never while a bug is in it, so no run can load another one's.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controller.process.paths import CODE as ROOT
from tests.mutants.mutant import Mutant

COPIED = ("benchmarks", "conf", "controller", "docs", "jobs", "notebooks", "schemas", "tests")
COPIED_FILES = ("CHANGELOG.md", "Makefile", "README.md", "pyproject.toml")
TEST_LIMIT_S = 120  # of one test, which a bug may hang
RUN_LIMIT_S = 900
SIMULATION = "controller.testbed.simulated"
SURVIVED, CAUGHT = 0, 1  # pytest's exit codes: all passed, some failed


@dataclass(frozen=True, slots=True)
class Run:
    """The end of a run of tests. `code` is pytest's exit code; None: it did not end in time."""

    code: int | None
    output: str

    @property
    def failed(self) -> str:
        """The first test or seed that failed, or an empty string."""
        for line in self.output.splitlines():
            if line.startswith(("FAILED ", "ERROR ")):
                return line.partition(" - ")[0].partition(" ")[2]
            if line.startswith("seed ") and " FAILED: " in line:
                return line
        return ""


def applies(patch: Path, root: Path = ROOT) -> str:
    """Why the patch does not apply to the tree; empty if it does. Changes nothing."""
    checked = _git_apply(root, "--check", str(patch))
    return checked.stderr.strip() if checked.returncode else ""


class Workshop:
    """One copy of the tree in `folder`, for one run at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        skipped = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=skipped)
        for name in COPIED_FILES:
            shutil.copy2(ROOT / name, folder / name)

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """The copy with the bug in it. Raises ValueError when the patch does not apply."""
        places = [self.folder / name for name in mutant.files]
        before = [(place, place.read_bytes(), place.stat()) for place in places]
        applied = _git_apply(self.folder, str(self.folder / mutant.patch.relative_to(ROOT)))
        if applied.returncode:
            raise ValueError(f"{mutant.name} does not apply: {applied.stderr.strip()}")
        try:
            yield
        finally:
            for place, content, stat in before:
                place.write_bytes(content)
                os.utime(place, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def run(self, tests: Sequence[str], *, keep_bytecode: bool = False) -> Run:
        """Run the tests in the copy, up to the first failure."""
        command = ["pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", f"--timeout={TEST_LIMIT_S}", *tests]
        return self._execute(command, keep_bytecode)

    def simulate(self, seeds: int, *, keep_bytecode: bool = False) -> Run:
        """Run so many seeds of the simulated deployment in the copy, up to the first failure."""
        command = [SIMULATION, "--seeds", str(seeds), "--processes", "1", "--until-failure"]
        return self._execute(command, keep_bytecode)

    def _execute(self, module: Sequence[str], keep_bytecode: bool) -> Run:
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        if not keep_bytecode:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that its tests started
            return Run(None, process.communicate()[0])
        return Run(process.returncode, output)

    def source_of(self, package: str) -> Path:
        """The file that `import package` loads in a run here."""
        code = f"import {package}; print({package}.__file__)"
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        found = subprocess.run(
            [sys.executable, "-c", code], cwd=self.folder, env=environment, capture_output=True, text=True, check=True
        )
        return Path(found.stdout.strip())


def _git_apply(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`git apply` on files, also where `root` is no repository or lies inside another one."""
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    return subprocess.run(["git", "apply", *arguments], cwd=root, env=outside, capture_output=True, text=True)
