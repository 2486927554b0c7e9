"""Every mutant can be planted: its patch applies, and its tests exist. `make mutants` plants them."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.process.paths import CODE
from tests.mutants.mutant import CLASSES, PATCHES, Mutant, read_mutant, read_mutants
from tests.mutants.workshop import applies

MUTANTS = read_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_planted(mutant: Mutant) -> None:
    assert applies(mutant.patch) == "", "the code it is in has changed: make the patch again, or drop it with the code"
    assert all(name.startswith(("controller/", "jobs/", "schemas/")) for name in mutant.files)
    assert [test for test in mutant.tests if not (CODE / test.partition("::")[0]).exists()] == []
    assert mutant.bug.endswith(".")


def test_every_class_has_mutants() -> None:
    assert {mutant.name.partition("/")[0] for mutant in MUTANTS} == set(CLASSES)


def test_every_patch_is_read() -> None:
    assert len(MUTANTS) == sum(file.is_file() for file in PATCHES.rglob("*"))
    assert {patch.parent.parent for patch in PATCHES.rglob("*.patch")} == {PATCHES}


@pytest.mark.parametrize(
    ("folder", "text", "why"),
    [
        ("leases", "--- a/x\n+++ b/x\n", "must begin with `Bug: …`"),
        ("leases", "Bug: It lies.\n\n--- a/x\n+++ b/x\n", "must begin with `Bug: …`"),
        ("levitation", "Bug: It flies.\nCaught by: tests/unit\n\n--- a/x\n+++ b/x\n", "none of leases, epochs"),
    ],
)
def test_a_patch_that_says_too_little_is_refused(folder: str, text: str, why: str, tmp_path: Path) -> None:
    patch = tmp_path / folder / "one.patch"
    patch.parent.mkdir()
    patch.write_text(text)
    with pytest.raises(ValueError, match=why):
        read_mutant(patch)


def test_a_patch_of_other_code_does_not_apply(tmp_path: Path) -> None:
    patch = tmp_path / "leases" / "stale.patch"
    patch.parent.mkdir()
    patch.write_text(MUTANTS[0].patch.read_text().replace("\n-  ", "\n-no such line "))
    assert "does not apply" in applies(patch)
