"""A copy of the tree in which bugs are planted. The tree itself is never changed, and may be while a run goes on.

Bytecode is written while the copy is unchanged and never while a bug is in it, so no run can load another one's.
"""

from __future__ import annotations

import os
import re
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
PASSED, FAILED = 0, 1  # exit codes of pytest and of the simulation: all is well, something failed
_TEST = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_SEED = re.compile(r"^(seed \d+ FAILED: .+)$", re.MULTILINE)
_QUICK = re.compile(r"^QUICK := (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """The end of a run. `code`: the exit code, None if it did not end in time; `failed`: the first test or seed that
    failed, empty if the output names none."""

    code: int | None
    output: str
    failed: str


def applies(patch: Path, root: Path = ROOT) -> str:
    """Why the patch does not apply to the tree; empty if it does. Changes nothing."""
    checked = _git_apply(root, "--check", str(patch))
    return checked.stderr.strip() if checked.returncode else ""


def fast_part(root: Path = ROOT) -> str:
    """What `make test` runs, as an expression of pytest's marks."""
    quick = _QUICK.search((root / "Makefile").read_text(encoding="utf-8"))
    assert quick is not None, "the Makefile says no more what QUICK is"
    return f"{quick[1]} and not thorough"


class Workshop:
    """One copy of the tree `root` in `folder`, for one run at a time."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.folder, self._root = folder, root
        skipped = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in COPIED:
            shutil.copytree(root / name, folder / name, ignore=skipped)
        for name in COPIED_FILES:
            shutil.copy2(root / name, folder / name)
        self._marks = fast_part(folder)

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """The copy with the bug in it. Raises ValueError when the patch does not apply."""
        places = [self.folder / name for name in mutant.files]
        before = [(place, place.read_bytes(), place.stat()) for place in places]
        applied = _git_apply(self.folder, str(self.folder / mutant.patch.relative_to(self._root)))
        if applied.returncode:
            raise ValueError(f"{mutant.name} does not apply: {applied.stderr.strip()}")
        try:
            yield
        finally:
            for place, content, stat in before:
                place.write_bytes(content)
                os.utime(place, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def run(self, tests: Sequence[str], *, keep_bytecode: bool = False) -> Run:
        """Run the fast ones of the tests in the copy, up to the first failure."""
        command = ["pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", f"--timeout={TEST_LIMIT_S}"]
        return self._execute([*command, "-m", self._marks, *tests], _TEST, keep_bytecode)

    def simulate(self, seeds: range, *, keep_bytecode: bool = False) -> Run:
        """Run these seeds of the simulated deployment in the copy, up to the first failure."""
        command = [SIMULATION, "--first", str(seeds.start), "--seeds", str(len(seeds)), "--processes", "1"]
        return self._execute([*command, "--until-failure"], _SEED, keep_bytecode)

    def _execute(self, module: Sequence[str], failure: re.Pattern[str], keep_bytecode: bool) -> Run:
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
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that its tests started
            output, code = process.communicate()[0], None
        named = failure.search(output)
        return Run(code, output, named[1] if named else "")

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
