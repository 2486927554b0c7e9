"""What the segment store has answered is on the disk: fences, messages, cursors, also when the power goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.brokers.reference.store.engine import StoreEngine
from controller.brokers.reference.store.framed_log import FramedLog
from controller.brokers.reference.store.messages import Message, unpack_all_stored
from controller.domain.errors import Fenced, StoreError
from controller.domain.ids import RING_END, Bundle
from tests.unit.brokers.disk import Disk

NS = "shop/orders"
WHOLE = Bundle(NS, 0, RING_END)
TOPIC = f"persistent://{NS}/t"


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.close()


def durable(folder: Path, disk: Disk, **settings: int) -> StoreEngine:
    return StoreEngine(folder, fsync=True, sync=disk.sync, clock_ms=lambda: 1_000, **settings)


def messages(first: int, count: int = 1) -> list[Message]:
    return [Message("p", sequence, "k", b"x" * 20) for sequence in range(first, first + count)]


def sequences(store: StoreEngine) -> list[int]:
    found: list[int] = []
    while data := store.read(TOPIC, len(found), 1 << 20)[0]:
        records = unpack_all_stored(data)
        assert records[0].offset == len(found)
        found += [record.sequence for record in records]
    return found


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(fd: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", write)


def test_a_fence_that_could_not_be_stored_is_stored_by_the_repeated_acquire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were it in force before it is stored, the repeated acquire would write nothing, and a restart forget it."""
    store = StoreEngine(tmp_path)
    store.acquire(WHOLE, 1, "old")
    fill_disk(monkeypatch)
    with pytest.raises(StoreError, match="No space left"):
        store.acquire(WHOLE, 2, "new")
    with pytest.raises(Fenced, match="never acquired"):
        store.append(TOPIC, 2, "new", messages(0))
    monkeypatch.undo()
    store.acquire(WHOLE, 2, "new")
    store.close()
    with pytest.raises(Fenced, match="new holds epoch 2"):
        StoreEngine(tmp_path).append(TOPIC, 1, "old", messages(0))


def test_a_fence_that_could_not_be_flushed_is_not_in_force(tmp_path: Path, disk: Disk) -> None:
    store = durable(tmp_path / "store", disk)
    store.acquire(WHOLE, 1, "old")
    disk.failing = True
    with pytest.raises(StoreError, match=r"cannot flush .*fences\.log"):
        store.acquire(WHOLE, 2, "new")
    assert [fence.epoch for fence in store.fences()] == [1]
    disk.failing = False
    store.acquire(WHOLE, 2, "new")
    left = StoreEngine(disk.after_power_loss(tmp_path / "store", tmp_path / "left"))
    assert [fence.epoch for fence in left.fences()] == [2]


def test_what_was_answered_survives_a_power_loss(tmp_path: Path, disk: Disk) -> None:
    root = tmp_path / "store"
    store = durable(root, disk, segment_bytes=100)
    store.acquire(WHOLE, 3, "a")
    for sequence in range(5):  # in more than one segment
        store.append(TOPIC, 3, "a", messages(sequence))
        store.sync()
        left = StoreEngine(disk.after_power_loss(root, tmp_path / f"left{sequence}"))
        assert sequences(left) == list(range(sequence + 1))
        assert [fence.epoch for fence in left.fences()] == [3]
    store.subscribe(TOPIC, "s", 3, "a", latest=True)
    left = StoreEngine(disk.after_power_loss(root, tmp_path / "subscribed"))
    assert left.tail(TOPIC)["cursors"]["s"]["mark"] == 5
    store.append(TOPIC, 3, "a", messages(5, 3))
    store.sync()
    store.acknowledge(TOPIC, "s", 3, "a", [(6, 7)])
    left = StoreEngine(disk.after_power_loss(root, tmp_path / "acknowledged"))
    assert left.tail(TOPIC)["cursors"]["s"] == {"mark": 5, "ranges": [(6, 7)], "start": 5}


def test_a_compacted_log_survives_a_power_loss(tmp_path: Path, disk: Disk) -> None:
    root = tmp_path / "store"
    store = durable(root, disk)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPIC, 1, "a", messages(0, 5))
    store.subscribe(TOPIC, "s", 1, "a", latest=False)
    for offset in (1, 3):
        store.acknowledge(TOPIC, "s", 1, "a", [(offset, offset + 1)])
    store.close()
    durable(root, disk).close()  # compacts at its start
    left = StoreEngine(disk.after_power_loss(root, tmp_path / "left"))
    assert left.tail(TOPIC)["cursors"]["s"]["ranges"] == [(1, 2), (3, 4)]


def test_a_log_is_whole_after_a_compaction_whose_last_flush_failed(tmp_path: Path) -> None:
    """The new file is in place when the flush of its folder fails: from then on its own size counts. With that of the
    file before, the next failed write would leave bytes of nothing behind its end: damage at the next start."""
    failing = ""

    def sync(fd: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{fd}")).name == failing:
            raise OSError(5, "Input/output error")

    path = tmp_path / "acks.log"
    log = FramedLog(path, sync=sync)
    log.recover()
    for _ in range(100):
        log.append(b"acknowledged")
    failing = tmp_path.name
    with pytest.raises(OSError, match="Input/output"):
        log.rewrite([b"all of it"])
    failing = path.name
    with pytest.raises(StoreError):
        log.append(b"lost")
    failing = ""
    log.append(b"kept")
    log.close()
    assert FramedLog(path).recover() == [b"all of it", b"kept"]


def test_what_a_killed_process_had_not_flushed_is_flushed_before_it_is_confirmed_again(
    tmp_path: Path, disk: Disk
) -> None:
    """The next process finds it in the files, so it answers a repetition without storing anything."""
    root = tmp_path / "store"
    killed = StoreEngine(root)
    killed.acquire(WHOLE, 1, "a")
    killed.append(TOPIC, 1, "a", messages(0))
    killed.subscribe(TOPIC, "s", 1, "a", latest=False)
    killed.close()  # flushes nothing, as without fsync
    assert disk.flushed == []
    StoreEngine(root).close()
    for folder in (root, *root.rglob("*")):  # the names were flushed when the files were made
        if folder.is_dir():
            fd = os.open(folder, os.O_RDONLY)
            disk.sync(fd)
            os.close(fd)
    (meta,) = root.rglob("topic.json")
    with meta.open() as file:
        disk.sync(file.fileno())
    store = durable(root, disk)
    store.acquire(WHOLE, 1, "a")
    assert store.append(TOPIC, 1, "a", messages(0))[0].duplicate
    store.sync()
    left = StoreEngine(disk.after_power_loss(root, tmp_path / "left"))
    assert sequences(left) == [0]
    assert [fence.epoch for fence in left.fences()] == [1]
    assert set(left.tail(TOPIC)["cursors"]) == {"s"}


def test_a_flush_that_failed_is_tried_again_and_not_taken_for_done(tmp_path: Path, disk: Disk) -> None:
    store = durable(tmp_path, disk)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPIC, 1, "a", messages(0))
    disk.failing = True
    for _ in range(4):
        with pytest.raises(StoreError, match="cannot flush"):
            store.sync()


def test_an_acknowledgement_whose_flush_failed_leaves_whole_frames(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its frame is taken back; otherwise a later failure would cut the file in the middle of a frame."""
    store = durable(tmp_path, disk)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPIC, 1, "a", messages(0, 20))
    store.subscribe(TOPIC, "s", 1, "a", latest=False)
    disk.failing = True
    with pytest.raises(StoreError, match=r"cannot flush .*acks\.log"):
        store.acknowledge(TOPIC, "s", 1, "a", [(11, 12)])
    assert store.tail(TOPIC)["cursors"]["s"]["ranges"] == [], "what is not stored is not acknowledged"
    disk.failing = False
    store.acknowledge(TOPIC, "s", 1, "a", [(3, 4)])
    fill_disk(monkeypatch)
    with pytest.raises(StoreError, match="No space left"):
        store.acknowledge(TOPIC, "s", 1, "a", [(5, 6)])
    monkeypatch.undo()
    store.close()
    assert StoreEngine(tmp_path).tail(TOPIC)["cursors"]["s"]["ranges"] == [(3, 4)]


@pytest.mark.parametrize("torn", [b"\0\0", b"\0\0\0\x30\x12\x34\x56\x78half of it"])
def test_what_follows_a_torn_frame_is_found_again(tmp_path: Path, torn: bytes) -> None:
    """A crash tore the last frame of a log; were it left there, whatever is stored behind it would be lost."""
    store = StoreEngine(tmp_path)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPIC, 1, "a", messages(0, 5))
    store.subscribe(TOPIC, "s", 1, "a", latest=False)
    store.close()
    for log in (tmp_path / "fences.log", *tmp_path.rglob("acks.log"), *tmp_path.rglob("*.seg")):
        with log.open("ab") as file:
            file.write(torn)
    store = StoreEngine(tmp_path)
    store.acquire(WHOLE, 2, "b")
    store.append(TOPIC, 2, "b", messages(5))
    store.acknowledge(TOPIC, "s", 2, "b", [(3, 4)])
    store.close()
    store = StoreEngine(tmp_path)
    assert [fence.epoch for fence in store.fences()] == [2]
    assert store.tail(TOPIC)["cursors"]["s"]["ranges"] == [(3, 4)]
    assert sequences(store) == [0, 1, 2, 3, 4, 5]


def test_without_fsync_nothing_waits_for_the_disk(tmp_path: Path, disk: Disk) -> None:
    store = StoreEngine(tmp_path, sync=disk.sync)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPIC, 1, "a", messages(0))
    store.sync()
    store.close()
    assert disk.flushed == []
