"""The cache of JARs against its lock: with the Ivy of the installed PySpark and a Maven repository in a folder."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from controller.domain.errors import ConfigError
from controller.process.paths import CONF, ROOT
from controller.process.setup_ivy import SetupFailed
from controller.process.setup_jars import ensure_group, ensure_jars, resolve_roots
from controller.process.setup_lock import Coordinate, Lock, LockedJar, read_lock, write_jars
from tests.component.maven_repository import point_ivy_to, publish

CONTENT = b"not really a JAR, but bytes with a checksum"
JAR = Coordinate("org.example", "thing_2.13", "1.2.0")
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def lock_of(sha256: str = SHA256) -> Lock:
    return Lock((("spark", JAR),), (LockedJar("spark", JAR, sha256),))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    point_ivy_to(folder.as_uri(), tmp_path, monkeypatch)
    return folder


def test_a_cache_that_cannot_be_written_to_is_named_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match=rf"{file}/cache/spark cannot be used \(Not a directory\): name a folder"):
        ensure_jars(lock_of(), file / "cache")


def test_what_is_missing_is_downloaded_once_and_verified(repository: Path, tmp_path: Path) -> None:
    publish(repository, JAR, CONTENT)
    said: list[str] = []
    ensure_jars(lock_of(), tmp_path / "cache", said.append)
    assert (tmp_path / "cache" / "spark" / "thing_2.13-1.2.0.jar").read_bytes() == CONTENT
    assert len(said) == 1
    for file in repository.rglob("*.jar"):
        file.unlink()
    ensure_jars(lock_of(), tmp_path / "cache", said.append)
    assert len(said) == 1, "the second run needs no repository"


def test_an_extra_group_is_downloaded_only_when_asked_for(repository: Path, tmp_path: Path) -> None:
    publish(repository, JAR, CONTENT)
    file, cache = tmp_path / "jars.lock", tmp_path / "cache"
    file.write_text(f"extra s3a {JAR} {SHA256}\n")
    write_jars(file, [])
    ensure_jars(read_lock(file), cache, lambda text: None)
    assert list(cache.rglob("*.jar")) == []
    for _ in range(2):
        ensure_group(read_lock(file), "s3a", cache, lambda text: None)
        assert [found.name for found in (cache / "s3a").iterdir()] == [JAR.file_name]
    ensure_jars(read_lock(file), cache, lambda text: None)
    assert (cache / "s3a" / JAR.file_name).exists(), "what was asked for stays"


def test_a_download_with_another_checksum_is_not_installed(repository: Path, tmp_path: Path) -> None:
    publish(repository, JAR, b"something else")
    with pytest.raises(SetupFailed, match=rf"checksum mismatch: thing_2\.13-1\.2\.0\.jar as downloaded .* {SHA256}"):
        ensure_jars(lock_of(), tmp_path / "cache", lambda text: None)
    assert list((tmp_path / "cache").rglob("*.jar")) == []


def test_a_corrupted_file_in_the_cache_is_named_with_the_next_step(tmp_path: Path) -> None:
    file = tmp_path / "spark" / JAR.file_name
    file.parent.mkdir()
    file.write_bytes(CONTENT[:-1])
    with pytest.raises(
        SetupFailed, match=rf"checksum mismatch: {re.escape(str(file))} .*Delete the file and run `make setup`"
    ):
        ensure_jars(lock_of(), tmp_path, lambda text: None)


def test_files_of_other_versions_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "spark"
    folder.mkdir()
    (folder / JAR.file_name).write_bytes(CONTENT)
    (folder / "thing_2.13-1.1.0.jar").write_bytes(b"old")
    said: list[str] = []
    ensure_jars(lock_of(), tmp_path, said.append)
    assert [file.name for file in folder.iterdir()] == [JAR.file_name]
    assert said == ["removing spark/thing_2.13-1.1.0.jar: not in the lock"]


def test_offline_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point_ivy_to("http://127.0.0.1:9/", tmp_path, monkeypatch)
    with pytest.raises(
        SetupFailed, match=r"no way to the Maven repository .*Connect this machine and run `make setup` again"
    ):
        ensure_jars(lock_of(), tmp_path / "cache", lambda text: None)


def test_an_artifact_that_does_not_exist_is_named(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match=r"not in the Maven repository: org\.example#thing_2\.13;1\.2\.0"):
        ensure_jars(lock_of(), tmp_path / "cache", lambda text: None)


def test_the_refresh_follows_dependencies_and_leaves_out_what_pyspark_ships(repository: Path) -> None:
    needed, shipped = Coordinate("org.example", "part", "2.0"), Coordinate("org.slf4j", "slf4j-api", "1.0")
    publish(repository, JAR, CONTENT, needs=(needed, shipped))
    publish(repository, needed, b"part")
    publish(repository, shipped, b"shipped")
    found = resolve_roots([("spark", JAR), ("kafka", shipped)])
    assert {(jar.group, jar.coordinate) for jar in found} == {("spark", JAR), ("spark", needed), ("kafka", shipped)}
    assert {jar.sha256 for jar in found if jar.coordinate == JAR} == {SHA256}


def test_the_lock_keeps_comments_and_roots_when_its_jars_are_rewritten(tmp_path: Path) -> None:
    file = tmp_path / "jars.lock"
    file.write_text(f"# why\nroot spark {JAR}\n\njar  spark  {JAR}  {'0' * 64}\n")
    write_jars(file, lock_of().jars)
    assert read_lock(file) == lock_of()
    assert file.read_text().startswith(f"# why\nroot spark {JAR}\n")


@pytest.mark.parametrize(
    "line",
    [
        "extra spark a:b:1 " + "0" * 64,
        "extra s3a a:b:1 12",
        "jar spark a:b:1 abc",
        "root flink a:b:1",
        "jar spark a:b",
        "archive x a:b:1:tar.gz:bin 12",
        "what",
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "jars.lock"
    file.write_text(f"# first\n{line}\n")
    with pytest.raises(ConfigError, match=r"jars\.lock:2: .* is neither"):
        read_lock(file)


def test_a_bad_coordinate_is_named(tmp_path: Path) -> None:
    file = tmp_path / "jars.lock"
    file.write_text("root spark org.example:thing\n")
    with pytest.raises(ConfigError, match=r"'org.example:thing' is no coordinate"):
        read_lock(file)


def test_an_archive_has_an_extension_and_a_classifier(tmp_path: Path) -> None:
    file = tmp_path / "jars.lock"
    file.write_text(f"archive thing org.example:thing:1.0:tar.gz:bin {SHA256}\n")
    archive = read_lock(file).archive("thing")
    assert archive.coordinate.file_name == "thing-1.0-bin.tar.gz"
    assert str(archive.coordinate) == "org.example:thing:1.0:tar.gz:bin"
    with pytest.raises(ConfigError, match=r"no line `archive other …`"):
        read_lock(file).archive("other")


def test_the_shipped_lock_fits_the_python_packages() -> None:
    """The connector must have Spark's version and the Delta JAR that of delta-spark."""
    pins = dict(re.findall(r'"(pyspark|delta-spark)==([\d.]+)"', (ROOT / "pyproject.toml").read_text()))
    roots = {coordinate.name: coordinate.version for _, coordinate in read_lock(CONF / "jars.lock").roots}
    assert roots["spark-sql-kafka-0-10_2.13"] == pins["pyspark"]
    assert roots["delta-spark_2.13"] == pins["delta-spark"]


def test_constraints_satisfy_the_pins_of_the_project() -> None:
    constraints = (CONF / "constraints.txt").read_text()
    for name, version in re.findall(r'"([\w-]+)==([\d.]+)"', (ROOT / "pyproject.toml").read_text()):
        assert re.search(rf"^{name}=={re.escape(version)}$", constraints, re.MULTILINE), name
