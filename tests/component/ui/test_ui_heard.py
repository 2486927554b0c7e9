"""Whether the page knows that the controller lives: by its last word, as of the moment when Kafka was asked."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from controller.bus.cluster import KafkaUnavailable
from controller.config.settings import Settings
from controller.operations.liveness import ASKING, SILENT_AFTER_MS, Heard
from controller.process.clock import wall_ms
from controller.ui import heard
from controller.ui.heard import NOT_ASKED, OLD_AFTER_MS, Listening, Word
from tests.short_run import ShortRun

ASKED_MS = 1_790_000_000_000
LIVING = Word(Heard("c1", ASKED_MS - 900), None, ASKED_MS)


def silent_ms(word: Word, now_ms: int) -> int:
    assert word.heard is not None
    return now_ms - word.heard.at_ms


@pytest.mark.parametrize("later_ms", [0, 4_900, 6_000, OLD_AFTER_MS])
def test_a_controller_that_lived_when_it_was_asked_is_not_silent_before_the_next_question(later_ms: int) -> None:
    now_ms = ASKED_MS + later_ms
    assert silent_ms(LIVING.as_of(now_ms), now_ms) == 900


def test_a_controller_that_was_silent_when_it_was_asked_stays_so_and_its_silence_grows() -> None:
    silent = Word(Heard("c1", ASKED_MS - SILENT_AFTER_MS - 1), None, ASKED_MS)
    now_ms = ASKED_MS + 3_000
    assert silent_ms(silent.as_of(now_ms), now_ms) == SILENT_AFTER_MS + 3_001


def test_an_answer_from_before_a_pause_is_no_answer() -> None:
    for word in (LIVING, Word(None, "no Kafka answers", ASKED_MS), Word(None, None, ASKED_MS)):
        assert word.as_of(ASKED_MS + OLD_AFTER_MS + 1) == NOT_ASKED
    assert NOT_ASKED.as_of(ASKED_MS).not_asked == ASKING


def wait_for(listening: Listening, holds: Callable[[Word], bool]) -> Word:
    deadline = time.monotonic() + 30
    while not holds(word := listening.last()):
        assert time.monotonic() < deadline, word
        time.sleep(0.02)
    return word


def test_it_is_asked_once_somebody_looks_and_failures_are_told(
    run: ShortRun, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heard, "ASK_EVERY_S", 0.05)
    settings: Settings = run.settings
    answers: list[Heard | Exception] = [Heard("c1", wall_ms())]

    def listen() -> Heard:
        answer = answers[-1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    listening = Listening(settings, listen=listen)
    listening.start()
    try:
        assert listening.last() == NOT_ASKED
        assert wait_for(listening, lambda word: word.heard is not None).not_asked is None
        answers.append(KafkaUnavailable("nobody is at home"))
        first = wait_for(listening, lambda word: word.heard is None)
        assert first.not_asked == "nobody is at home"
        wait_for(listening, lambda word: word.asked_ms > first.asked_ms)
        said = [record.getMessage() for record in caplog.records if "nobody is at home" in record.getMessage()]
        assert said == ["what the controller says is unknown: nobody is at home"], "once, however often it is asked"
    finally:
        listening.stop()
