"""The container file: pinned, no root at run time, nothing downloaded by the way, and every copied file is there."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from typing import NamedTuple

import pytest

from controller.config.settings import is_secret
from controller.process.paths import CONF
from controller.process.setup_java import FIT_VERSIONS
from tests.unit.deploy.recipes import DEPLOY, SPARK_VERSION, WHEEL, check_command

FILE = DEPLOY / "container" / "Containerfile"
KNOWN = {"ARG", "FROM", "USER", "RUN", "COPY", "ENV", "CMD"}


class Instruction(NamedTuple):
    """One instruction. `stage`: the number of FROM lines so far."""

    stage: int
    name: str
    text: str


def read_instructions(text: str) -> list[Instruction]:
    """The instructions of a container file in order: comments gone, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    found: list[Instruction] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, rest = line.split(None, 1)
        stage = (found[-1].stage if found else 0) + (name == "FROM")
        found.append(Instruction(stage, name, " ".join(rest.split())))
    return found


INSTRUCTIONS = read_instructions(FILE.read_text())
LAST = INSTRUCTIONS[-1].stage


def texts(name: str, stage: int | None = None) -> list[str]:
    """Of the instructions of this name, in one stage or in all."""
    return [found.text for found in INSTRUCTIONS if found.name == name and stage in (None, found.stage)]


def environment() -> dict[str, str]:
    """What a running container has."""
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(texts("ENV", LAST))))


def test_it_is_read_as_builders_read_it() -> None:
    text = "FROM a AS b\n# no\nRUN one \\\n    # not this\n    && two\nFROM c\nUSER 1\n"
    assert read_instructions(text) == [
        Instruction(1, "FROM", "a AS b"),
        Instruction(1, "RUN", "one && two"),
        Instruction(2, "FROM", "c"),
        Instruction(2, "USER", "1"),
    ]
    assert {found.name for found in INSTRUCTIONS} <= KNOWN  # no ADD, which downloads; no ONBUILD, no VOLUME


def test_the_base_is_pinned_to_the_versions_that_tests_run() -> None:
    assert LAST == 2
    assert texts("FROM") == ["${BASE} AS build", "${BASE}"]
    (base,) = texts("ARG")
    tag = base.removeprefix("BASE=spark:")
    assert tag.startswith(f"{SPARK_VERSION}-scala2.13-")
    java = re.findall(r"-java(\d+)-", tag)
    assert int(java[0]) in FIT_VERSIONS
    assert "-python3" in tag


def test_nobody_is_root_when_it_runs() -> None:
    assert texts("USER", LAST) == ["185"]
    assert [found.name for found in INSTRUCTIONS if found.stage == LAST] == ["FROM", "COPY", "ENV", "USER", "CMD"]
    assert "--chown=root:root" in texts("COPY", LAST)[0]


def test_what_is_copied_is_there() -> None:
    (from_context,) = texts("COPY", 1)
    source, target = from_context.split()
    assert fnmatch(WHEEL, source)
    assert all(f"{target}ballast-" in run or target not in run for run in texts("RUN"))
    (from_build,) = texts("COPY", LAST)
    source, target = from_build.split()[-2:]
    assert source == target
    assert any(f" {source}/" in run for run in texts("RUN", 1))
    assert "/build/wheel/controller/shipped/conf/constraints.txt" in " ".join(texts("RUN", 1))
    assert (CONF / "constraints.txt").is_file()


def test_jars_are_fetched_at_build_time_to_where_ballast_looks() -> None:
    (set_up,) = [run for run in texts("RUN", 1) if " setup " in run]
    program, *words = set_up.split()
    check_command(words)
    home = environment()["BALLAST_HOME"]
    assert words == ["setup", "--dir", home]
    python = environment()["PYSPARK_PYTHON"]
    assert program == python.replace("/bin/python", "/bin/ballast")
    assert environment()["PATH"].startswith(python.removesuffix("/python") + ":")


@pytest.mark.parametrize("name", ["ARG", "ENV"])
def test_no_secret_is_built_in(name: str) -> None:
    assert not [text for text in texts(name) if is_secret(text.split("=")[0])]


def test_nothing_is_downloaded_but_by_apt_pip_and_the_verified_lock() -> None:
    assert not re.search(r"https?://|\bcurl\b|\bwget\b", " ".join(found.text for found in INSTRUCTIONS))
