"""A damaged length looks like a torn end. What follows it was acknowledged: the store does not start without it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from controller.brokers.reference.store.engine import StoreEngine
from controller.brokers.reference.store.framed_log import TORN_COPIES, FramedLog
from controller.brokers.reference.store.frames import HEAD, Bodies, frame, scan
from controller.brokers.reference.store.messages import Message, StoredBodies, StoredMessage, pack_stored
from controller.domain.errors import StoreError
from controller.domain.ids import RING_END, Bundle
from tests.examples import examples

WHOLE = Bundle("shop/orders", 0, RING_END)
TOPIC = "persistent://shop/orders/t"
FILE = Path("some.file")
BASE = 7


def stored(offset: int, payload: bytes = b"x" * 20) -> bytes:
    return pack_stored(StoredMessage(offset, 3, "a", "p", offset, "k", payload, 100 + offset, 1_000))


def entry(number: int) -> bytes:
    return frame(b'{"s":"s","r":[[%d,%d]]}' % (number, number + 1))


SEGMENT = (StoredBodies(BASE), [stored(BASE + n, b"y" * (n % 4)) for n in range(12)])
ACKS = (Bodies(), [entry(10**n) for n in range(12)])


def bodies(data: bytes, layout: Bodies) -> list[bytes]:
    return [body for _, body in scan(data, FILE, layout)]


def contents(frames: list[bytes]) -> list[bytes]:
    return [each[HEAD.size :] for each in frames]


def flipped(frames: list[bytes], number: int, bit: int) -> bytes:
    """The file with one bit of the length of one frame changed."""
    data = bytearray(b"".join(frames))
    at = sum(map(len, frames[:number]))
    data[at + bit // 8] ^= 0x80 >> bit % 8
    return bytes(data)


@pytest.mark.parametrize("file", [SEGMENT, ACKS], ids=["segment", "acks"])
def test_no_bit_of_any_length_is_taken_for_a_torn_end(file: tuple[Bodies, list[bytes]]) -> None:
    layout, frames = file
    for number in range(len(frames)):
        at = sum(map(len, frames[:number]))
        for bit in range(32):
            with pytest.raises(StoreError, match=f"some.file is damaged at byte {at}: .*restore the file"):
                bodies(flipped(frames, number, bit), layout)


@pytest.mark.parametrize("file", [SEGMENT, ACKS], ids=["segment", "acks"])
@pytest.mark.parametrize("lost", [b"\0", b"\xff", b"\x41"])
@pytest.mark.parametrize("much", [4, 8, 30, 200])
def test_a_frame_behind_the_damage_stops_the_start(file: tuple[Bodies, list[bytes]], lost: bytes, much: int) -> None:
    layout, frames = file
    data, at = b"".join(frames), sum(map(len, frames[:3]))
    with pytest.raises(StoreError, match=f"damaged at byte {at}"):
        bodies(data[:at] + much * lost + data[at + much :], layout)


@pytest.mark.parametrize("file", [SEGMENT, ACKS], ids=["segment", "acks"])
def test_a_torn_end_is_left_out_wherever_it_is_torn(file: tuple[Bodies, list[bytes]]) -> None:
    layout, frames = file
    data, ends = b"".join(frames), [sum(map(len, frames[: n + 1])) for n in range(len(frames))]
    for size in range(len(data) + 1):
        whole = sum(end <= size for end in ends)
        assert bodies(data[:size], layout) == contents(frames[:whole])
        assert bodies(data[: ends[whole - 1] if whole else 0] + bytes(100), layout) == contents(frames[:whole])


@settings(max_examples=examples(40))
@given(nested=st.lists(st.integers(0, 40), min_size=1, max_size=4), cut=st.integers(1, 400))
def test_frames_in_a_payload_are_no_frames_of_the_file(nested: list[int], cut: int) -> None:
    """A client may store what it likes, such as a segment."""
    first = stored(BASE, b"".join(stored(offset) for offset in nested))
    last = stored(BASE + 1, b"".join(stored(offset) for offset in nested))
    data = first + last
    torn = data[: max(len(first), len(data) - cut)]
    assert bodies(torn, StoredBodies(BASE)) == contents([first])


def test_a_frame_whose_place_does_not_fit_is_of_a_payload() -> None:
    """The beginning of the last write was lost with the power, the rest of it was not."""
    for offset in (0, BASE, 500):
        torn = bytes(80) + stored(offset) + b"z" * 50
        assert bodies(stored(BASE) + torn, StoredBodies(BASE)) == contents([stored(BASE)])
    with pytest.raises(StoreError, match="another one follows at byte"):
        bodies(stored(BASE) + bytes(80) + stored(BASE + 2) + b"z" * 50, StoredBodies(BASE))


def test_an_end_made_to_be_searched_for_long_is_taken_for_damage() -> None:
    """Every one of these heads may begin a frame, and to rule one out costs a checksum of the rest."""
    head, size = struct.Struct(">IIQQqQQHHHI"), 2 << 20
    fake = b"".join(
        head.pack(length, 1, BASE + 1 + at // head.size, 3, 0, 0, 0, 0, 0, 0, length - head.size + HEAD.size)
        for at in range(head.size, size // 2, head.size)
        for length in [size - at - HEAD.size]
    )
    data = (b"\xff" * head.size + fake).ljust(size, b"q")
    with pytest.raises(StoreError, match="damaged at byte 0"):
        bodies(data, StoredBodies(BASE))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = StoreEngine(tmp_path)
    for epoch in range(1, 9):
        store.acquire(WHOLE, epoch, "a")
    for sequence in range(20):
        store.append(TOPIC, 8, "a", [Message("p", sequence, "k", b"x" * 50)])
    store.subscribe(TOPIC, "s", 8, "a", latest=False)
    for offset in range(5):
        store.acknowledge(TOPIC, "s", 8, "a", [(2 * offset, 2 * offset + 1)])
    store.close()
    return tmp_path


@pytest.mark.parametrize("name", ["fences.log", "acks.log", "*.seg"])
def test_a_store_does_not_start_without_what_follows_a_damaged_length(root: Path, name: str) -> None:
    (path,) = root.rglob(name)
    data = bytearray(path.read_bytes())
    at = HEAD.size + HEAD.unpack_from(data)[0]
    data[at + 1] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(StoreError, match=rf"{path.name} is damaged at byte {at}: the length of a frame is"):
        StoreEngine(root)
    assert path.read_bytes() == bytes(data), "what is left is for whoever mends it"


@pytest.mark.parametrize("name", ["fences.log", "acks.log", "*.seg"])
@pytest.mark.parametrize(("end", "kept"), [(b"\0\0\0\x60\x12\x34\x56\x78half of it", True), (bytes(4096), False)])
def test_what_is_cut_is_kept_beside_the_file(root: Path, name: str, end: bytes, kept: bool) -> None:
    (path,) = root.rglob(name)
    with path.open("ab") as file:
        file.write(end)
    store = StoreEngine(root)
    assert store.stats()[TOPIC]["messages"] == 20
    assert store.fences()[0].epoch == 8
    assert [copy.read_bytes() for copy in path.parent.glob("*.torn")] == ([end] if kept else [])


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"5", b'{"topic": 5}', b"{}", b'{"topic": "t"}', b"\xff"])
def test_a_folder_that_does_not_tell_its_topic_is_named(root: Path, damage: bytes) -> None:
    (path,) = root.rglob("topic.json")
    path.write_bytes(damage)
    with pytest.raises(StoreError, match=rf"{path} is damaged, .*: restore the file, or remove its folder"):
        StoreEngine(root)
    assert path.read_bytes() == damage


def test_messages_that_no_topic_claims_are_told(root: Path) -> None:
    (path,) = root.rglob("topic.json")
    path.unlink()
    with capture_logs() as told:
        store = StoreEngine(root)
    assert store.stats() == {}
    assert [(line["event"], line["folder"]) for line in told] == [("topic_left_out", str(path.parent))]
    assert "no topic.json: restore the file" in told[0]["why"]


def test_a_file_that_is_torn_again_and_again_keeps_the_newest_ends(tmp_path: Path) -> None:
    path = tmp_path / "acks.log"
    for number in range(12):
        with path.open("ab") as file:
            file.write(b"\0\0\x10\0%d" % number)
        log = FramedLog(path)
        assert len(log.recover()) == number
        log.append(b"{}")
        log.close()
    copies = sorted(tmp_path.glob("*.torn"), key=lambda copy: copy.stat().st_mtime_ns)
    assert [copy.name for copy in copies] == [f"acks.log.{n}.torn" for n in (10, 11, 12)]
    assert len(copies) == TORN_COPIES
    assert copies[-1].read_bytes() == b"\0\0\x10\x0011"


def test_an_end_that_cannot_be_kept_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "acks.log"
    path.write_bytes(entry(1) + b"torn")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("controller.brokers.reference.store.framed_log.os.fsync", full)
    with pytest.raises(StoreError, match=r"cannot keep the torn end of .*acks\.log, 4 bytes, .*free some space"):
        FramedLog(path).recover()
    assert path.read_bytes() == entry(1) + b"torn"
