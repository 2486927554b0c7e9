"""The wheel as pip installs it for a user, its libraries from the package index: pyproject.toml names all it needs.

All other tests borrow this environment's libraries, where those of tests are as well.
"""

from __future__ import annotations

import json
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

import controller
from controller.cli.run.package import PACKAGES
from controller.process.paths import CONF
from tests.cluster.workers import apart
from tests.installed import Installed, build, clean_environment, copy_source

CONSTRAINTS = CONF / "constraints.txt"
# Imported where a test or a developer asks for it: the simulated deployment, pictures of the demo.
OF_DEVELOPERS = {"greenlet", "playwright"}
# Libraries use these without asking for them: Spark's Arrow path, kafka-python's checksums, httpx's locks.
OF_LIBRARIES = {"pandas", "crc32c", "sniffio"}
# Of these names and of all that a module of the packages imports, in functions too, those that are not to be found.
# Notebooks import their neighbours.
MISSING = """
import ast, importlib.util, json, pathlib, sys
wanted, packages = json.loads(sys.argv[1])
files = [f for p in packages for f in pathlib.Path(importlib.util.find_spec(p).origin).parent.rglob("*.py")]
for file in files:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    roots = {name.partition(".")[0] for name in names}
    wanted += [root for root in roots if not file.with_name(f"{root}.py").is_file()]
print(json.dumps([len(files), sorted(root for root in set(wanted) if importlib.util.find_spec(root) is None)]))
"""


def pip(environment: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Of this environment, configured as it is on this machine."""
    command = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment(), cwd="/")


@pytest.fixture(scope="module")
def from_index() -> Iterator[Installed]:
    """The wheel in an empty environment far from the checkout."""
    with apart() as folder:
        environment = folder / "environment"
        venv.create(environment, with_pip=True)
        asked = pip(environment, "download", "--no-deps", "--no-cache-dir", "--retries", "0", "--timeout", "20",
                    "--dest", str(folder / "asked"), "sniffio")  # fmt: skip
        if asked.returncode != 0:
            pytest.skip(f"no package index can be reached: {(asked.stderr.splitlines() or ['?'])[-1]}")
        wheel = build("build_wheel", copy_source(folder / "source"), folder / "dist")
        done = pip(environment, "install", "--quiet", "--constraint", str(CONSTRAINTS), str(wheel))
        assert done.returncode == 0, done.stderr[-4000:]
        for name in ("home", "empty"):
            (folder / name).mkdir()
        yield Installed(environment, folder / "empty", folder / "home")


def test_its_dependencies_are_complete_and_fit_each_other(from_index: Installed) -> None:
    checked = pip(from_index.environment, "check")
    assert checked.returncode == 0, checked.stdout
    asked = subprocess.run(
        [from_index.python, "-c", MISSING, json.dumps([sorted(OF_LIBRARIES), PACKAGES])],
        capture_output=True, text=True, check=False, env=clean_environment(), cwd=from_index.folder,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    files, missing = json.loads(asked.stdout)
    assert files > 500
    assert set(missing) == OF_DEVELOPERS, "a dependency is not in pyproject.toml"


def test_its_commands_work_from_an_empty_folder(from_index: Installed) -> None:
    version = from_index.ballast("--version")
    assert (version.returncode, version.stdout) == (0, f"ballast {controller.__version__}\n"), version.stderr
    made = from_index.ballast("init", "site")
    assert made.returncode == 0, made.stderr
    checked = from_index.ballast("config", "check", "--conf", "site/ballast.yaml")
    assert checked.returncode == 0, checked.stderr
