"""The segment store's promises, as properties: fences, de-duplication, order, recovery."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controller.brokers.reference.store import topic as topic_module
from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.engine import StoreEngine
from controller.brokers.reference.store.messages import Message, pack_messages, unpack_all_stored, unpack_messages
from controller.brokers.reference.store.producers import OutOfSequence
from controller.domain.errors import Fenced, StoreError
from controller.domain.ids import RING_END, Bundle, topic_hash
from tests.examples import examples

NS = "shop/orders"
WHOLE = Bundle(NS, 0, RING_END)
LOW, HIGH = WHOLE.split_at(0x80000000)
TOPICS = [f"persistent://{NS}/t{i}" for i in range(4)]


def message(sequence: int, producer: str = "p", payload: bytes = b"x", key: str = "k") -> Message:
    return Message(producer, sequence, key, payload)


def engine(path: Path, **settings_: int | bool) -> StoreEngine:
    return StoreEngine(path, clock_ms=lambda: 1_000, **settings_)  # type: ignore[arg-type]


def contents(store: StoreEngine, topic: str) -> list[tuple[str, int, bytes]]:
    found, offset = [], 0
    while True:
        data, after = store.read(topic, offset, 100)
        if not data:
            return found
        records = unpack_all_stored(data)
        assert [r.offset for r in records] == list(range(offset, after))
        assert records
        found += [(r.producer, r.sequence, r.payload) for r in records]
        offset = after


@pytest.mark.covers("keeps-deduplication")
def test_an_append_is_found_again_after_a_restart_with_producer_and_cursor(tmp_path: Path) -> None:
    store = engine(tmp_path)
    store.acquire(WHOLE, 3, "a")
    store.append(TOPICS[0], 3, "a", [message(i) for i in range(5)])
    store.subscribe(TOPICS[0], "s", 3, "a", latest=False)
    store.acknowledge(TOPICS[0], "s", 3, "a", [(0, 2), (3, 4)])
    before = store.tail(TOPICS[0])
    store.close()
    again = engine(tmp_path)
    assert again.tail(TOPICS[0]) == before
    assert before["producers"] == {"p": 4}
    assert before["cursors"]["s"] == {"mark": 2, "ranges": [(3, 4)], "start": 0}
    assert [s.duplicate for s in again.append(TOPICS[0], 3, "a", [message(4), message(5)])] == [True, False]


@pytest.mark.covers("keeps-deduplication")
def test_a_repeated_send_is_answered_with_its_first_offset(tmp_path: Path) -> None:
    store = engine(tmp_path)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPICS[0], 1, "a", [message(0, "q"), message(0), message(1), message(1, "q")])
    repeated = store.append(TOPICS[0], 1, "a", [message(1), message(0)])
    assert [(s.offset, s.duplicate) for s in repeated] == [(2, True), (1, True)]
    twice_in_one = store.append(TOPICS[0], 1, "a", [message(2), message(2)])
    assert [(s.offset, s.duplicate) for s in twice_in_one] == [(4, False), (4, True)]


def test_a_gap_is_refused_and_stores_nothing(tmp_path: Path) -> None:
    store = engine(tmp_path)
    store.acquire(WHOLE, 1, "a")
    with pytest.raises(OutOfSequence, match="where 1 is due"):
        store.append(TOPICS[0], 1, "a", [message(0), message(2)])
    assert store.tail(TOPICS[0])["next"] == 0


def test_a_fence_covers_future_topics_and_outlives_a_restart(tmp_path: Path) -> None:
    store = engine(tmp_path)
    store.acquire(WHOLE, 5, "a")
    store.close()
    store = engine(tmp_path)
    with pytest.raises(Fenced, match="a holds epoch 5"):
        store.append(TOPICS[1], 4, "b", [message(0)])
    with pytest.raises(Fenced):
        store.acquire(LOW, 5, "b")
    with pytest.raises(Fenced, match="never acquired"):
        store.append(TOPICS[1], 6, "b", [message(0)])
    store.acquire(WHOLE, 5, "a")  # the same owner may repeat itself


def test_children_fence_their_parent_only_where_they_lie(tmp_path: Path) -> None:
    store = engine(tmp_path)
    store.acquire(WHOLE, 5, "a")
    store.acquire(LOW, 6, "b")
    low = next(t for t in TOPICS if LOW.contains(topic_hash(t)))
    high = next(t for t in TOPICS if HIGH.contains(topic_hash(t)))
    with pytest.raises(Fenced):
        store.append(low, 5, "a", [message(0)])
    store.append(high, 5, "a", [message(0)])
    with pytest.raises(Fenced):
        store.acquire(WHOLE, 5, "a")


def test_acknowledging_is_fenced_and_bounded(tmp_path: Path) -> None:
    store = engine(tmp_path)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPICS[0], 1, "a", [message(0)])
    store.subscribe(TOPICS[0], "s", 1, "a", latest=False)
    with pytest.raises(StoreError, match="it ends at 1"):
        store.acknowledge(TOPICS[0], "s", 1, "a", [(0, 2)])
    store.acquire(WHOLE, 2, "b")
    with pytest.raises(Fenced):
        store.acknowledge(TOPICS[0], "s", 1, "a", [(0, 1)])
    assert store.acknowledge(TOPICS[0], "s", 2, "b", [], below=1).mark == 1


def test_subscribing_is_fenced(tmp_path: Path) -> None:
    """The present owner has read the cursors when it acquired the range: one that another broker creates afterwards, at
    the end of the topic, it would not know."""
    store = engine(tmp_path)
    store.acquire(WHOLE, 1, "old")
    store.append(TOPICS[0], 1, "old", [message(0)])
    store.acquire(WHOLE, 2, "new")
    for epoch, owner in ((1, "old"), (2, "old"), (3, "new")):
        with pytest.raises(Fenced):
            store.subscribe(TOPICS[0], "s", epoch, owner, latest=True)
    assert store.tail(TOPICS[0])["cursors"] == {}


def test_a_subscription_that_could_not_be_stored_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it there, its acknowledgements would be stored without its beginning, and the next start could not read
    them."""
    store = engine(tmp_path)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPICS[0], 1, "a", [message(0)])

    def write(fd: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "write", write)
        with pytest.raises(StoreError, match="No space left"):
            store.subscribe(TOPICS[0], "s", 1, "a", latest=False)
    assert store.tail(TOPICS[0])["cursors"] == {}
    store.subscribe(TOPICS[0], "s", 1, "a", latest=False)
    store.acknowledge(TOPICS[0], "s", 1, "a", [(0, 1)])
    store.close()
    assert engine(tmp_path).tail(TOPICS[0])["cursors"]["s"]["mark"] == 1


def test_two_processes_cannot_serve_one_folder(tmp_path: Path) -> None:
    store = engine(tmp_path)
    with pytest.raises(StoreError, match="another process serves"):
        engine(tmp_path)
    store.close()
    engine(tmp_path).close()


@settings(max_examples=examples(40))
@given(keep=st.integers(0, 400), garbage=st.binary(max_size=6))
def test_a_torn_tail_is_cut_to_whole_records(keep: int, garbage: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = engine(Path(folder))
        store.acquire(WHOLE, 1, "a")
        store.append(TOPICS[0], 1, "a", [message(i, payload=b"x" * i) for i in range(5)])
        store.close()
        (segment,) = Path(folder).glob("topics/*/*/*.seg")
        size = segment.stat().st_size
        kept = min(keep, size)
        segment.write_bytes(segment.read_bytes()[:kept] + (garbage if kept == size else b""))
        again = engine(Path(folder))
        found = contents(again, TOPICS[0])
        assert found == [("p", i, b"x" * i) for i in range(len(found))]
        assert len(found) == 5 or kept < size
        last = again.tail(TOPICS[0])["producers"].get("p", -1)
        assert last == len(found) - 1
        again.append(TOPICS[0], 1, "a", [message(last + 1)])
        assert len(contents(again, TOPICS[0])) == len(found) + 1


def test_damage_in_the_middle_stops_the_start(tmp_path: Path) -> None:
    store = engine(tmp_path)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPICS[0], 1, "a", [message(i, payload=b"x" * 20) for i in range(5)])
    store.close()
    (segment,) = tmp_path.glob("topics/*/*/*.seg")
    data = bytearray(segment.read_bytes())
    data[60] ^= 0xFF
    segment.write_bytes(data)
    with pytest.raises(StoreError, match="damaged at byte"):
        engine(tmp_path)


def test_a_full_disk_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = engine(tmp_path)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPICS[0], 1, "a", [message(0)])
    write = os.write

    def half(fd: int, data: bytes) -> int:
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return write(fd, data[:20])

    monkeypatch.setattr(os, "write", lambda fd, data: half(fd, bytes(data)))
    with pytest.raises(StoreError, match="free some space"):
        store.append(TOPICS[0], 1, "a", [message(1)])
    monkeypatch.undo()
    store.append(TOPICS[0], 1, "a", [message(1)])
    store.close()
    assert [s for _, s, _ in contents(engine(tmp_path), TOPICS[0])] == [0, 1]


@pytest.mark.covers("split-readers-resume")
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=40), st.integers(0, 20))
def test_a_cursor_is_the_set_of_acknowledged_offsets(ranges: list[tuple[int, int]], mark: int) -> None:
    cursor, model = Cursor(mark), set(range(mark))
    for low, width in ranges:
        cursor.add(low, low + width)
        model |= set(range(low, low + width))
    assert [o for o in range(80) if cursor.contains(o)] == sorted(model)
    assert cursor.mark not in model
    assert cursor.backlog(80) == 80 - len(model)
    assert all(cursor.next_open(o) == next(n for n in range(o, 81) if n not in model) for o in range(80))
    flat = [cursor.mark, *(n for pair in cursor.ranges for n in pair)]
    assert all(a < b for a, b in pairwise(flat))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60), st.integers(1, 9)), max_size=40))
def test_a_cumulative_acknowledgement_only_adds(steps: list[tuple[bool, int, int]]) -> None:
    cursor, model = Cursor(), set()
    for cumulative, low, width in steps:
        if cumulative:
            cursor.acknowledge_below(low)
            model |= set(range(low))
        else:
            cursor.add(low, low + width)
            model |= set(range(low, low + width))
        assert [o for o in range(80) if cursor.contains(o)] == sorted(model)


def test_a_late_cumulative_acknowledgement_moves_nothing_back(tmp_path: Path) -> None:
    store = engine(tmp_path)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPICS[0], 1, "a", [message(i) for i in range(9)])
    store.subscribe(TOPICS[0], "s", 1, "a", latest=False)
    store.acknowledge(TOPICS[0], "s", 1, "a", [(7, 8)], below=5)
    assert store.acknowledge(TOPICS[0], "s", 1, "a", [], below=3).mark == 5
    after = {"mark": 5, "ranges": [(7, 8)], "start": 0}
    for _ in range(2):
        assert store.tail(TOPICS[0])["cursors"]["s"] == after
        store.close()
        store = engine(tmp_path)


def test_single_acknowledgements_survive_every_restart(tmp_path: Path) -> None:
    """A start compacts the log: what the compacted log lacks is lost at the second one."""
    store = engine(tmp_path)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPICS[0], 1, "a", [message(i) for i in range(9)])
    store.subscribe(TOPICS[0], "s", 1, "a", latest=False)
    for offset in (0, 2, 4, 6):
        store.acknowledge(TOPICS[0], "s", 1, "a", [(offset, offset + 1)])
    for _ in range(3):
        store.close()
        store = engine(tmp_path)
        assert store.tail(TOPICS[0])["cursors"]["s"]["ranges"] == [(2, 3), (4, 5), (6, 7)]


def test_a_subscription_at_the_end_stays_there_through_compaction(tmp_path: Path) -> None:
    store = engine(tmp_path)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPICS[0], 1, "a", [message(i) for i in range(3)])
    assert store.subscribe(TOPICS[0], "s", 1, "a", latest=True).start == 3
    store.append(TOPICS[0], 1, "a", [message(i) for i in range(3, 6)])
    for offset in (3, 4):
        store.acknowledge(TOPICS[0], "s", 1, "a", [(offset, offset + 1)])
    for _ in range(2):
        store.close()
        store = engine(tmp_path)
        assert store.tail(TOPICS[0])["cursors"]["s"] == {"mark": 5, "ranges": [], "start": 3}


def test_a_log_of_acknowledgements_that_grew_is_compacted_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_module, "COMPACT_ACKS_ABOVE_BYTES", 200)
    store = engine(tmp_path)
    store.acquire(WHOLE, 1, "a")
    store.append(TOPICS[0], 1, "a", [message(i) for i in range(60)])
    for name in ("s", "t"):
        store.subscribe(TOPICS[0], name, 1, "a", latest=False)
    for offset in range(0, 60, 2):
        store.acknowledge(TOPICS[0], "s", 1, "a", [(offset, offset + 1)])
    before = store.tail(TOPICS[0])["cursors"]
    store.close()
    assert engine(tmp_path).tail(TOPICS[0])["cursors"] == before
    assert len(before["s"]["ranges"]) == 29


@given(
    st.lists(
        st.builds(Message, st.text(max_size=5), st.integers(0, 2**60), st.text(max_size=5), st.binary(max_size=50))
    )
)
def test_messages_survive_packing(messages: list[Message]) -> None:
    body = pack_messages(messages)
    assert unpack_messages(body) == messages
    if body:
        with pytest.raises(StoreError):
            unpack_messages(body[:-1])


class StoreMachine(RuleBasedStateMachine):
    """Any mix of acquire, append, acknowledge and restart against a plain model."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="store-"))
        self.store = engine(self.folder, segment_bytes=300)
        self.fence: dict[str, tuple[int, str]] = {}
        self.stored: dict[str, list[tuple[str, int, bytes]]] = {t: [] for t in TOPICS}
        self.acked: dict[str, set[int]] = {}

    @rule(bundle=st.sampled_from([WHOLE, LOW, HIGH]), epoch=st.integers(1, 6), owner=st.sampled_from("ab"))
    def acquire(self, bundle: Bundle, epoch: int, owner: str) -> None:
        halves = [h for h in (LOW, HIGH) if h.overlaps(bundle)]
        held = [self.fence[str(h)] for h in halves if str(h) in self.fence]
        if any(e > epoch or (e == epoch and o != owner) for e, o in held):
            with pytest.raises(Fenced):
                self.store.acquire(bundle, epoch, owner)
        else:
            tails = self.store.acquire(bundle, epoch, owner)
            assert {t: tails[t]["next"] for t in tails if tails[t]["next"]} == {
                t: len(self.stored[t]) for t in TOPICS if self.stored[t] and bundle.contains(topic_hash(t))
            }
            self.fence.update({str(h): (epoch, owner) for h in halves})

    @rule(
        topic=st.sampled_from(TOPICS),
        epoch=st.integers(1, 6),
        owner=st.sampled_from("ab"),
        producer=st.sampled_from("pq"),
        start=st.integers(-3, 1),
        count=st.integers(1, 4),
    )
    def append(self, topic: str, epoch: int, owner: str, producer: str, start: int, count: int) -> None:
        half = LOW if LOW.contains(topic_hash(topic)) else HIGH
        last = max([s for p, s, _ in self.stored[topic] if p == producer], default=-1)
        first = max(0, last + 1 + start)
        batch = [message(s, producer, f"{topic}{s}".encode()) for s in range(first, first + count)]
        if self.fence.get(str(half)) != (epoch, owner):
            with pytest.raises(Fenced):
                self.store.append(topic, epoch, owner, batch)
        elif first > last + 1:
            with pytest.raises(OutOfSequence):
                self.store.append(topic, epoch, owner, batch)
        else:
            for sent, answer in zip(batch, self.store.append(topic, epoch, owner, batch), strict=True):
                assert answer.duplicate == (sent.sequence <= last)
                if not answer.duplicate:
                    self.stored[topic].append((producer, sent.sequence, sent.payload))
                assert self.stored[topic][answer.offset][:2] == (producer, sent.sequence)

    @precondition(lambda self: any(self.stored.values()))
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        topic = data.draw(st.sampled_from([t for t in TOPICS if self.stored[t]]))
        half = LOW if LOW.contains(topic_hash(topic)) else HIGH
        epoch, owner = self.fence[str(half)]
        self.store.subscribe(topic, "s", epoch, owner, latest=False)
        low = data.draw(st.integers(0, len(self.stored[topic]) - 1))
        self.store.acknowledge(topic, "s", epoch, owner, [(low, low + 1)])
        self.acked.setdefault(topic, set()).add(low)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = engine(self.folder, segment_bytes=300)

    @invariant()
    def agrees(self) -> None:
        for topic, stored in self.stored.items():
            if stored:
                assert contents(self.store, topic) == stored
        for topic, acked in self.acked.items():
            state = self.store.tail(topic)["cursors"]["s"]
            found = set(range(state["mark"])) | {o for a, b in state["ranges"] for o in range(a, b)}
            assert found == acked

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=examples(25), stateful_step_count=25)
