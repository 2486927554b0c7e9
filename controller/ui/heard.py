"""Whether the controller is alive, by its last word on Kafka: asked every few seconds, only while somebody looks."""

from __future__ import annotations

import logging
import threading
import time
from typing import NamedTuple

from controller.config.settings import Settings
from controller.domain.errors import BallastError, describe_error
from controller.operations.liveness import OFFLINE, Heard, last_word

log = logging.getLogger(__name__)

ASK_EVERY_S = 5.0
LOOKED_AT_S = 60.0  # after the last question


class Word(NamedTuple):
    """What was heard, or why nothing is known."""

    heard: Heard | None
    not_asked: str | None


class Listening:
    """The last word of the controller. The first question is answered at once with "not asked"."""

    def __init__(self, settings: Settings, ask: bool = True) -> None:
        self._settings, self._ask = settings, ask
        self._word = Word(None, OFFLINE)
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
        return self._word

    def _run(self) -> None:
        kafka = self._settings.kafka
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            while not self._stopping.is_set() and time.monotonic() - self._wanted_s < LOOKED_AT_S:
                try:
                    heard = last_word(kafka.bootstrap_servers, kafka.client, kafka.topics)
                    self._word = Word(heard, None)
                except BallastError as error:
                    self._word = Word(None, describe_error(error))
                self._stopping.wait(ASK_EVERY_S)
