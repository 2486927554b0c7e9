"""Which Java is taken, and what the one line says when none fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.domain.errors import JavaNotFit
from controller.process.setup_java import find_java


def install(folder: Path, version: str, modules: tuple[str, ...] = ("jdk.incubator.vector",)) -> Path:
    """A folder that answers `--list-modules` as that Java does."""
    lines = [f"java.base@{version}", *(f"{module}@{version}" for module in modules)]
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\n" + "".join(f"echo {line}\n" for line in lines))
    binary.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2"])
def test_java_home_comes_first(tmp_path: Path, version: str) -> None:
    home = install(tmp_path / "home", version)
    path = install(tmp_path / "path", "17.0.1")
    java = find_java({"JAVA_HOME": str(home), "PATH": str(path / "bin")}, places=())
    assert (java.home, java.version, java.found_by) == (home, int(version[:2]), "JAVA_HOME")


def test_an_unfit_java_home_gives_way_to_path_and_to_the_usual_places(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = install(tmp_path / "jdk25", "25.0.1")
    path = install(tmp_path / "jdk11", "11.0.20")
    install(tmp_path / "places" / "a-reduced-17", "17.0.1", modules=())
    fit = install(tmp_path / "places" / "b-full-17", "17.0.1")
    environ = {"JAVA_HOME": str(home), "PATH": str(path / "bin")}
    java = find_java(environ, places=(str(tmp_path / "places" / "*"),))
    assert (java.home, java.found_by) == (fit, "found")
    unfit = f"JAVA_HOME {home}: version 25, needed is 17 or 21"
    assert caplog.messages == [f"{unfit}; using Java 17 at {fit} (found) instead: set JAVA_HOME to that, or unset it"]


def test_a_java_home_that_points_to_nothing_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = install(tmp_path / "jdk17", "17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "nothing"), "PATH": str(path / "bin")}
    assert find_java(environ, places=()).home == path
    assert f"JAVA_HOME {tmp_path}/nothing: {tmp_path}/nothing/bin/java does not exist" in caplog.text
    assert f"using Java 17 at {path} (PATH) instead" in caplog.text


def test_a_fit_java_home_is_nothing_to_talk_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    unfit = install(tmp_path / "jdk11", "11.0.20")
    home = install(tmp_path / "home", "17.0.1")
    find_java({"JAVA_HOME": str(home), "PATH": str(unfit / "bin")}, places=())
    find_java({"PATH": f"{unfit / 'bin'}:{home / 'bin'}"}, places=(str(home),))
    assert caplog.messages == []


def test_without_a_fit_java_one_line_says_what_was_seen_and_what_to_do(tmp_path: Path) -> None:
    home = install(tmp_path / "jdk25", "25.0.1")
    path = install(tmp_path / "jlinked", "21.0.1", modules=())
    with pytest.raises(JavaNotFit) as caught:
        find_java({"JAVA_HOME": str(home), "PATH": str(path / "bin")}, places=())
    text = str(caught.value)
    assert "\n" not in text
    assert f"JAVA_HOME {home}: version 25, needed is 17 or 21" in text
    assert f"PATH {path}: version 21 lacks the module jdk.incubator.vector" in text
    assert "openjdk-17-jdk-headless" in text


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFit, match=r"nothing/bin/java does not exist"):
        find_java({"JAVA_HOME": str(tmp_path / "nothing"), "PATH": ""}, places=())


def test_this_machine_has_one() -> None:
    assert find_java().version in (17, 21)
