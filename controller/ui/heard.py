"""Whether the controller is alive, by its last word on Kafka: asked every few seconds, only while somebody looks.

A word counts as of the moment when Kafka was asked. Between two questions nothing is known of the controller, so its
silence does not grow; an answer from before a pause of the questions is no answer any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from controller.config.settings import Settings
from controller.domain.errors import BallastError, describe_error
from controller.operations.liveness import ASKING, SILENT_AFTER_MS, Heard, last_word
from controller.process.clock import wall_ms

log = logging.getLogger(__name__)

ASK_EVERY_S = 5.0
LOOKED_AT_S = 60.0  # after the last question
OLD_AFTER_MS = 20_000  # an answer: several questions, of which each may wait for Kafka for some seconds


class Word(NamedTuple):
    """What was heard, or why nothing is known. `asked_ms`: when, by the wall clock."""

    heard: Heard | None
    not_asked: str | None
    asked_ms: int = 0

    def as_of(self, now_ms: int) -> Word:
        """The word as it counts at this time."""
        since_ms = max(0, now_ms - self.asked_ms)
        if since_ms > OLD_AFTER_MS:
            return NOT_ASKED
        if self.heard is None or self.asked_ms - self.heard.at_ms > SILENT_AFTER_MS:  # silent already
            return self
        return self._replace(heard=replace(self.heard, at_ms=self.heard.at_ms + since_ms))


NOT_ASKED = Word(None, ASKING)


class Listening:
    """The last word of the controller. While nothing is known, a question is answered at once with "not asked"."""

    def __init__(self, settings: Settings, ask: bool = True, listen: Callable[[], Heard | None] | None = None) -> None:
        """`listen` gets the controller's last word, by default from Kafka."""
        self._settings, self._ask = settings, ask
        self._listen = listen or self._ask_kafka
        self._word = NOT_ASKED
        self._wanted_s = -LOOKED_AT_S
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listen", daemon=True)

    def start(self) -> None:
        """Begin to listen, where Kafka is to be asked at all."""
        if self._ask:
            self._thread.start()

    def stop(self) -> None:
        """End; does not wait for Kafka."""
        self._stopping.set()
        self._wake.set()

    def last(self) -> Word:
        """What is known now; somebody looks."""
        self._wanted_s = time.monotonic()
        self._wake.set()
        return self._word.as_of(wall_ms())

    def _ask_kafka(self) -> Heard | None:
        kafka = self._settings.kafka
        return last_word(kafka.bootstrap_servers, kafka.client, kafka.topics)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            while not self._stopping.is_set() and time.monotonic() - self._wanted_s < LOOKED_AT_S:
                try:
                    heard = self._listen()
                    self._word = Word(heard, None, wall_ms())
                except BallastError as error:
                    before, self._word = self._word, Word(None, describe_error(error), wall_ms())
                    if before is NOT_ASKED or before.not_asked is None:  # said once, until Kafka answers again
                        log.warning("what the controller says is unknown: %s", describe_error(error))
                self._stopping.wait(ASK_EVERY_S)
