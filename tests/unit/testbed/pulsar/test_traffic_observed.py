"""What clients of a Pulsar cluster saw: counts of lost, repeated and reordered messages, and gaps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.testbed.pulsar.spec import PulsarFailed
from controller.testbed.pulsar.traffic.library import import_pulsar
from controller.testbed.pulsar.traffic.message import SMALLEST_BYTES, Stamp, decode, encode
from controller.testbed.pulsar.traffic.observed import GapMeter, TopicReceipts, TopicSends
from controller.testbed.pulsar.traffic.rates import even_rates, heat, topics_of
from controller.testbed.pulsar.traffic.report import Gap, gaps_between, quantiles, read_report


def receipts(*sequences: int, ids: dict[int, str] | None = None) -> TopicReceipts:
    """What a consumer noted of these deliveries; `ids` gives the message id by position, else by sequence."""
    noted = TopicReceipts()
    for position, sequence in enumerate(sequences):
        noted.note(Stamp(sequence, 10 * sequence), (ids or {}).get(position, f"id-{sequence}"), 10 * position)
    return noted


def counts(noted: TopicReceipts) -> tuple[int, int, int]:
    return noted.redelivered, noted.duplicated, noted.reordered


def test_a_message_carries_its_stamp_whatever_its_size() -> None:
    for size in (0, SMALLEST_BYTES, 512):
        data = encode(Stamp(7, 1_234_567), size)
        assert len(data) == max(size, SMALLEST_BYTES)
        assert decode(data) == Stamp(7, 1_234_567)


@given(st.binary(max_size=64))
def test_a_foreign_message_is_none_of_ours(data: bytes) -> None:
    assert data.startswith(b"BLST") or decode(data) is None


def test_what_arrives_once_and_in_order_is_no_finding() -> None:
    noted = receipts(0, 1, 2, 3)
    assert (counts(noted), noted.seen.mark, noted.received) == ((0, 0, 0), 4, 4)


def test_the_same_message_again_is_a_redelivery_and_another_one_a_duplicate() -> None:
    assert counts(receipts(0, 1, 2, 1, 2, 3)) == (2, 0, 0)
    assert counts(receipts(0, 1, 2, 2, 3, ids={3: "stored again"})) == (0, 1, 0)


def test_a_first_delivery_after_a_higher_sequence_is_out_of_order() -> None:
    assert counts(receipts(0, 2, 1, 3)) == (0, 0, 1)


@given(st.lists(st.integers(0, 30), max_size=60))
def test_every_delivery_is_counted_once(sequences: list[int]) -> None:
    noted = receipts(*sequences)
    assert noted.received == len(sequences) == noted.seen.size + noted.redelivered + noted.duplicated


@pytest.mark.parametrize(
    ("arrivals", "longest"),
    [
        ([(0, 0), (100, 100), (200, 200)], 0),  # at the sending interval
        ([(0, 0), (500, 500)], 0),  # a slow topic
        ([(0, 0), (700, 100), (701, 200), (702, 300)], 600),  # a wait, then a burst
        ([(0, 0), (5_000, 4_900)], 100),  # the sender paused as well
    ],
)
def test_a_gap_is_what_exceeds_the_sending_interval(arrivals: list[tuple[int, int]], longest: int) -> None:
    meter = GapMeter()
    for arrived_ms, sent_ms in arrivals:
        meter.note(arrived_ms, sent_ms)
    assert meter.take()[0] == longest
    assert meter.take() == (0, 0)


def test_messages_wait_until_they_are_acknowledged_or_fail() -> None:
    sends = TopicSends(next_sequence=5)
    for sequence in (0, 2):
        sends.note_acked(Stamp(sequence, 0), 1)
    sends.failed = 1
    assert sends.waiting == 2


def log_file(file: Path, *lines: dict[str, object]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def produced(file: Path, sent: int, acked: list[list[int]]) -> Path:
    return log_file(file, {"t": "end", "topics": {"t": {"sent": sent, "failed": 0, "acked": acked}}})


def consumed(file: Path, seen: list[list[int]], **more: int) -> Path:
    totals = {"received": 9, "seen": seen, "redelivered": 0, "duplicated": 0, "reordered": 0, **more}
    return log_file(
        file,
        {"t": "topic", "topic": "t", "low": 0, "high": 9, "gap_ms": 40, "gap_at_ms": 1_000},
        {"t": "topic", "topic": "t", "low": 9, "high": 9, "gap_ms": 0, "gap_at_ms": 0},
        {"t": "end", "topics": {"t": totals}},
    )


@pytest.mark.parametrize(
    ("acked", "seen", "lost"),
    [
        ([[0, 10]], [[0, 10]], 0),
        ([[0, 10]], [[0, 9]], 1),
        ([[0, 10]], [[0, 3], [5, 8]], 4),
        ([[0, 3], [5, 10]], [[0, 4], [6, 10]], 1),  # 5; 3 and 4 were never acknowledged
        ([[0, 10]], [], 10),
        ([[0, 5]], [[0, 10]], 0),
    ],
)
def test_what_was_acknowledged_and_never_delivered_is_lost(
    tmp_path: Path, acked: list[list[int]], seen: list[list[int]], lost: int
) -> None:
    report = read_report([produced(tmp_path / "p", 10, acked)], [consumed(tmp_path / "c", seen)])
    assert report.lost == lost
    assert report.clean == (lost == 0)
    assert report.texts == ([f"t: {lost} lost"] if lost else [])
    assert report.unconfirmed == 10 - sum(high - low for low, high in acked)


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_lost_is_the_difference_of_both_sides(acked: set[int], seen: set[int]) -> None:
    with TemporaryDirectory() as folder:
        report = read_report(
            [produced(Path(folder) / "p", 21, ranges(acked))], [consumed(Path(folder) / "c", ranges(seen))]
        )
    assert report.lost == len(acked - seen)
    assert report.acknowledged == len(acked)


def ranges(values: set[int]) -> list[list[int]]:
    return [[value, value + 1] for value in sorted(values)]


def test_repetitions_are_told_from_faults(tmp_path: Path) -> None:
    producer = produced(tmp_path / "p", 3, [[0, 3]])
    repeated = read_report([producer], [consumed(tmp_path / "c", [[0, 3]], redelivered=2, duplicated=1)])
    assert (repeated.clean, repeated.redelivered, repeated.duplicated) == (True, 2, 1)
    assert not read_report([producer], [consumed(tmp_path / "c", [[0, 3]], reordered=1)]).clean


def test_the_document_has_counts_and_quantiles_of_gaps(tmp_path: Path) -> None:
    report = read_report([produced(tmp_path / "p", 3, [[0, 3]])], [consumed(tmp_path / "c", [[0, 3]])])
    document = json.loads(json.dumps(report.document()))
    assert document["consume_gap_ms"] == {"p50": 40, "p99": 40, "max": 40}
    assert document["publish_gap_ms"] == {}
    assert (document["sent"], document["lost"]) == (3, 0)


def test_a_client_that_was_killed_proves_nothing(tmp_path: Path) -> None:
    cut = log_file(tmp_path / "p", {"t": "topic", "topic": "t", "low": 0, "high": 1, "gap_ms": 0, "gap_at_ms": 0})
    with pytest.raises(PulsarFailed, match=r"has no totals: the client was killed"):
        read_report([cut], [])


def test_the_gap_of_a_move_is_the_longest_of_its_topics_in_its_time() -> None:
    gaps = [Gap("a", 100, 1_000), Gap("a", 300, 2_000), Gap("b", 900, 1_500), Gap("a", 800, 9_000)]
    assert gaps_between(gaps, ["a"], 900, 2_000) == 300
    assert gaps_between(gaps, ["c"], 0, 10_000) == 0


def test_quantiles_of_few_values() -> None:
    assert quantiles([]) == {}
    assert quantiles([5]) == {"p50": 5, "p99": 5, "max": 5}
    assert quantiles(list(range(1, 101))) == {"p50": 50, "p99": 99, "max": 100}


def test_even_rates_add_up_and_differ() -> None:
    rates = even_rates(topics_of("demo/load", 22), 1_000)
    assert sum(rates.values()) == pytest.approx(1_000)
    assert max(rates.values()) <= 3.5 * min(rates.values())


def test_heat_is_the_same_for_every_bundle_of_the_hot_broker() -> None:
    topics = topics_of("demo/load", 4)
    rates = dict.fromkeys(topics, 1.0)
    hot = heat(rates, {topics[0]: "x", topics[1]: "x", topics[2]: "y"}, extra_per_s=100)
    assert hot == {topics[0]: 26.0, topics[1]: 26.0, topics[2]: 51.0, topics[3]: 1.0}
    with pytest.raises(ValueError, match=r"no topic is hot"):
        heat(rates, {}, 100)


def test_without_pulsar_client_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pulsar", None)
    with pytest.raises(PulsarFailed, match=r"traffic needs pulsar-client, .* `make setup`"):
        import_pulsar()
