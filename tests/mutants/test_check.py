"""What `make mutants` says of bugs that are caught, survive, do not apply any more or break the tests: on a small tree.

The copies, patches, pytest and processes are real ones; the tree has one function, its tests, and a simulation.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller.process.paths import CODE
from tests.mutants import workshop
from tests.mutants.__main__ import check
from tests.mutants.mutant import Mutant
from tests.mutants.workshop import COPIED, COPIED_FILES, SIMULATION, fast_part

PRODUCT = "controller/sums.py"
BEFORE = "    return a + b\n"
TESTS = """
import pytest
from controller.sums import add

def test_small():
    assert add(1, 1) == 2

@pytest.mark.thorough
def test_large():
    assert add(1_000, 1) == 1_001
"""
SIMULATED = """
import sys
from controller.sums import add

first, seeds = (int(sys.argv[sys.argv.index(name) + 1]) for name in ("--first", "--seeds"))
for seed in range(first, first + seeds):
    if add(seed, 1) != seed + 1:
        sys.exit(f"seed {seed} FAILED: the sum is {add(seed, 1)}")
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that a workshop copies, mostly empty. Its pytest loads one plugin instead of all, which takes a second."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    root = tmp_path / "tree"
    for name in COPIED:
        (root / name).mkdir(parents=True)
    for name in COPIED_FILES:
        (root / name).touch()
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "-ra"\nmarkers = ["thorough", "slow"]\n')
    (root / "Makefile").write_text("QUICK := not slow\n")
    (root / PRODUCT).write_text(f"def add(a, b):\n{BEFORE}")
    os.utime(root / PRODUCT, (1e9, 1e9))  # bytecode knows its source by seconds and size
    (root / "tests" / "test_sums.py").write_text(TESTS)
    simulation = root.joinpath(*SIMULATION.split(".")) / "__main__.py"
    simulation.parent.mkdir(parents=True)
    simulation.write_text(SIMULATED)
    for package in ("controller", "controller/testbed", "controller/testbed/simulated"):
        (root / package / "__init__.py").touch()
    return root


def plant(tree: Path, name: str, after: str, before: str = BEFORE, tests: str = "tests/test_sums.py") -> Mutant:
    """The mutant that puts one line in place of the function's."""
    patch = tree / "tests" / f"{name}.patch"
    patch.write_text(f"--- a/{PRODUCT}\n+++ b/{PRODUCT}\n@@ -1,2 +1,2 @@\n def add(a, b):\n-{before}+{after}")
    return Mutant(name, "It adds badly.", (tests,), (PRODUCT,), patch)


def judged(said: str) -> dict[str, str]:
    """Mutant -> verdict, by what was printed."""
    verdicts = ("caught", "SURVIVED", "STALE", "BROKEN")
    words = [line.split() for line in said.splitlines() if line.startswith(verdicts)]
    return {name: verdict for verdict, name, *_ in words}


def test_survivors_and_stale_patches_fail_the_command(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants = [
        plant(tree, "worse", "    return a - b\n"),
        plant(tree, "large", "    return min(a + b, 9)\n"),  # which only the thorough test would see
        plant(tree, "stale", "    return 0\n", before="    return a * b\n"),
    ]
    assert check(mutants, tmp_path / "copies", 1, root=tree) == 1
    said = capsys.readouterr().out
    assert judged(said) == {"worse": "caught", "large": "SURVIVED", "stale": "STALE"}
    assert "1 of 3 mutants caught" in said
    assert "tests/test_sums.py::test_small\n" in said, "it names the test"


def test_all_caught(tree: Path, tmp_path: Path) -> None:
    assert check([plant(tree, "worse", "    return a - b\n")], tmp_path / "copies", 1, root=tree) == 0


def test_nothing_is_said_where_the_tests_fail_anyhow(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants = [plant(tree, "worse", "    return a - b\n")]
    (tree / "tests" / "test_sums.py").write_text(TESTS.replace("== 2", "== 3"))
    assert check(mutants, tmp_path / "copies", 1, root=tree) == 2
    assert "the tests fail without any bug" in capsys.readouterr().out


WORSE, BROKEN = "    return a - b\n", "    return a + c\n"  # seeds fail; a traceback
LATE = "    return a + b + (a > 3)\n"


@pytest.mark.parametrize(
    ("after", "verdicts", "code"),
    [
        ([WORSE, WORSE, LATE, BEFORE], {"0": "caught", "1": "caught", "2": "caught", "3": "SURVIVED"}, 0),
        ([WORSE, BEFORE], {"0": "caught", "1": "SURVIVED"}, 1),
        ([WORSE, WORSE, WORSE, BROKEN], {"0": "caught", "1": "caught", "2": "caught", "3": "BROKEN"}, 1),
    ],
    ids=["share is enough", "share is too small", "a traceback is no failing seed"],
)
def test_simulated_seeds_must_fail_by_name(
    after: list[str], verdicts: dict[str, str], code: int, tree: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    mutants = [plant(tree, str(number), line) for number, line in enumerate(after)]
    assert check(mutants, tmp_path / "copies", 2, 5, root=tree) == code
    assert judged(capsys.readouterr().out) == verdicts


def test_a_stale_patch_fails_although_the_share_is_caught(tree: Path, tmp_path: Path) -> None:
    mutants = [plant(tree, str(number), WORSE) for number in range(3)]
    mutants.append(plant(tree, "stale", WORSE, before="    return a * b\n"))
    assert check(mutants, tmp_path / "copies", 1, 5, root=tree) == 1


def test_a_false_alarm_of_the_simulation_catches_nothing(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants = [plant(tree, "same", BEFORE)]
    simulation = tree.joinpath(*SIMULATION.split(".")) / "__main__.py"
    simulation.write_text(SIMULATED.replace("!= seed + 1", "!= seed + (seed < 4)"))
    assert check(mutants, tmp_path / "copies", 2, 5, root=tree) == 2
    said = capsys.readouterr().out
    assert "the seeds fail without any bug" in said
    assert judged(said) == {}


def test_what_does_not_end_is_not_caught(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workshop, "RUN_LIMIT_S", 0.5)
    mutants = [plant(tree, "hangs", "    while True: pass\n")]
    assert check(mutants, tmp_path / "copies", 1, 5, root=tree) == 1
    assert "did not end" in capsys.readouterr().out


def test_tests_run_with_the_marks_of_make_test() -> None:
    makefile = (CODE / "Makefile").read_text()
    assert '-m "$(QUICK) and not thorough"' in makefile
    assert fast_part().endswith("and not thorough")
    assert "not slow" in fast_part()
    assert "$" not in fast_part()
