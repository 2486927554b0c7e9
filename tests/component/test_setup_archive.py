"""Archives from Maven: downloaded and unpacked once, and whatever was interrupted is noticed."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import tarfile
from pathlib import Path

import pytest

from controller.process.setup_archive import MARK, ensure_unpacked, find_unpacked
from controller.process.setup_ivy import SetupFailed
from controller.process.setup_lock import Coordinate, LockedArchive
from tests.component.maven_repository import point_ivy_to, publish

COORDINATE = Coordinate("org.example", "thing", "1.0", "tar.gz", "bin")


def packed(*files: str) -> bytes:
    """A tar.gz of these files; each holds its own name."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(name), 0o755
            archive.addfile(entry, io.BytesIO(name.encode()))
    return stream.getvalue()


CONTENT = packed("thing-1.0/bin/run", "thing-1.0/conf/a")


def locked(content: bytes = CONTENT) -> LockedArchive:
    return LockedArchive("thing", COORDINATE, hashlib.sha256(content).hexdigest())


def in_cache(cache: Path, content: bytes = CONTENT) -> Path:
    """Puts the archive where a download would."""
    cache.mkdir(exist_ok=True)
    file = cache / COORDINATE.file_name
    file.write_bytes(content)
    return file


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    point_ivy_to(folder.as_uri(), tmp_path, monkeypatch)
    return folder


def test_an_archive_is_downloaded_and_unpacked_once(repository: Path, tmp_path: Path) -> None:
    publish(repository, COORDINATE, CONTENT)
    said: list[str] = []
    cache = tmp_path / "cache"
    home = ensure_unpacked(locked(), cache, said.append, size="1 kB")
    assert home == cache / "thing-1.0"
    assert (home / "bin" / "run").read_text() == "thing-1.0/bin/run"
    assert (home / "bin" / "run").stat().st_mode & 0o111
    assert [line.split()[0] for line in said] == ["downloading", "unpacking"]
    assert "org.example:thing:1.0:tar.gz:bin (1 kB)" in said[0]
    assert {file.name for file in cache.iterdir()} == {"thing-1.0", "thing-1.0-bin.tar.gz", ".lock"}
    (cache / COORDINATE.file_name).unlink()
    assert ensure_unpacked(locked(), cache, said.append) == home
    assert len(said) == 2, "what is unpacked needs neither archive nor repository"


def test_an_interrupted_unpacking_is_repeated(tmp_path: Path) -> None:
    in_cache(tmp_path / "cache")
    torn = tmp_path / "cache" / "thing-1.0" / "bin"
    torn.mkdir(parents=True)
    (torn / "half").touch()
    left = tmp_path / "cache" / ".incomplete-x" / "thing-1.0"
    left.mkdir(parents=True)
    (left / MARK).write_text(locked().sha256)
    assert find_unpacked(locked(), tmp_path / "cache") is None
    home = ensure_unpacked(locked(), tmp_path / "cache", lambda text: None)
    assert sorted(file.name for file in home.rglob("*") if file.is_file()) == [MARK, "a", "run"]
    assert not left.exists()


def test_a_damaged_archive_is_downloaded_again(repository: Path, tmp_path: Path) -> None:
    publish(repository, COORDINATE, CONTENT)
    file = in_cache(tmp_path / "cache", CONTENT[:-5])
    said: list[str] = []
    ensure_unpacked(locked(), tmp_path / "cache", said.append)
    assert said[0] == f"{file} is damaged; it is removed"
    assert file.read_bytes() == CONTENT


def test_a_folder_of_another_archive_does_not_count(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    in_cache(cache)
    ensure_unpacked(locked(), cache, lambda text: None)
    other = packed("thing-1.0/bin/other")
    in_cache(cache, other)
    home = ensure_unpacked(locked(other), cache, lambda text: None)
    assert [file.name for file in home.rglob("*") if file.is_file() and file.name != MARK] == ["other"]


def test_a_download_with_another_checksum_is_not_kept(repository: Path, tmp_path: Path) -> None:
    publish(repository, COORDINATE, packed("other/x"))
    with pytest.raises(SetupFailed, match=r"checksum mismatch: thing-1\.0-bin\.tar\.gz as downloaded"):
        ensure_unpacked(locked(), tmp_path / "cache", lambda text: None)
    assert [file.name for file in (tmp_path / "cache").iterdir()] == [".lock"]


def test_offline_the_one_line_says_what_to_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point_ivy_to("http://127.0.0.1:9/", tmp_path, monkeypatch)
    with pytest.raises(SetupFailed, match=r"thing:1\.0:tar\.gz:bin: no way to the Maven .* run `go` again") as caught:
        ensure_unpacked(locked(), tmp_path / "cache", lambda text: None, again="`go`")
    assert "\n" not in str(caught.value)


def test_an_artifact_that_does_not_exist_is_named(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match=r"not in the Maven repository: org\.example#thing;1\.0"):
        ensure_unpacked(locked(), tmp_path / "cache", lambda text: None)


def test_an_archive_of_several_folders_is_refused(tmp_path: Path) -> None:
    content = packed("a/x", "b/x")
    in_cache(tmp_path / "cache", content)
    with pytest.raises(SetupFailed, match=r"holds a, b instead of one folder"):
        ensure_unpacked(locked(content), tmp_path / "cache", lambda text: None)


def unpack(archive: LockedArchive, cache: Path) -> None:
    ensure_unpacked(archive, cache, lambda text: None)


def test_processes_that_need_it_at_the_same_time_share_it(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    in_cache(cache)
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=unpack, args=(locked(), cache)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert find_unpacked(locked(), cache) == cache / "thing-1.0"
