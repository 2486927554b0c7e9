"""Whether clients go on, by the producer's log: what was acknowledged once and is not any more waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.brokers.reference.client import log as client_log
from controller.brokers.reference.client.log import ClientLog
from controller.testbed.chaos import acks
from controller.testbed.chaos.acks import SILENT_MS, AckWatch


class Clock:
    """The boot clock of both sides."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(client_log, "boot_ms", clock)
    monkeypatch.setattr(acks, "boot_ms", clock)
    return clock


@pytest.fixture
def log(clock: Clock, tmp_path: Path) -> Iterator[ClientLog]:
    made = ClientLog(tmp_path / "clients" / "producer.jsonl")
    for number in range(2):
        made.write("topic", i=number, topic=f"t-{number}", name="p")
    yield made
    made.close()


def ack(log: ClientLog, *topics: int) -> None:
    for number in topics:
        log.note_acked(number, 0, 1)
    log.flush()


def test_a_topic_waits_from_its_first_silence_until_it_is_acknowledged_again(
    clock: Clock, log: ClientLog, tmp_path: Path
) -> None:
    watch = AckWatch(tmp_path / "clients" / "producer.jsonl")
    assert watch.waiting() == []
    ack(log, 0, 1)
    clock.now_ms += int(SILENT_MS)
    assert watch.waiting() == []
    ack(log, 1)
    clock.now_ms += 1
    assert watch.waiting() == ["t-0"]
    ack(log, 0)
    assert watch.waiting() == []


def test_half_a_line_is_read_once_it_is_whole(clock: Clock, log: ClientLog, tmp_path: Path) -> None:
    ack(log, 0)
    file = tmp_path / "clients" / "producer.jsonl"
    watch = AckWatch(file)
    clock.now_ms += 2 * int(SILENT_MS)
    whole = f'{{"t":"acked","at":{clock.now_ms},"a":[[0,1,1]]}}\n'
    with file.open("a") as writer:
        writer.write(whole[:20])
        writer.flush()
        assert watch.waiting() == ["t-0"]
        writer.write(whole[20:])
    assert watch.waiting() == []


def test_no_log_yet(tmp_path: Path) -> None:
    assert AckWatch(tmp_path / "none").waiting() == []
