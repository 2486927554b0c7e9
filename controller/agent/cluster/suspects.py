"""Tells which listed brokers do not answer polls: to the journal as facts, to the log when it changes.

A suspect is neither source nor target of an order. Who becomes one, and when, is the observer's decision.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from controller.agent.cluster.observer import SUSPECT_AFTER, Observer
from controller.agent.cluster.speaker import Speaker
from controller.brokers.pulsar.outcomes import CallFailed
from controller.domain.facts import SUSPECT

log = logging.getLogger(__name__)


class Suspects:
    """Call `note_failed` for each poll that a broker did not answer, `tell` after each poll of all brokers."""

    def __init__(self, observer: Observer, speaker: Speaker) -> None:
        self._observer, self._speaker = observer, speaker
        self._failures: dict[str, CallFailed] = {}  # broker -> why its last unanswered poll failed
        self._logged: set[str] = set()

    def note_failed(self, broker: str, failure: CallFailed) -> None:
        """The broker did not say what it owns."""
        self._failures[broker] = failure

    def tell(self, listed: Collection[str]) -> None:
        """Tell what the journal lacks, and log what has changed. `listed`: the brokers of the cluster."""
        suspects = self._observer.suspects
        for broker in suspects:
            self._speaker.tell_fact(f"{SUSPECT}{broker}", {"why": "it did not answer three polls in a row"})
        for key in [key for key in self._speaker.state().observed.facts if key.startswith(SUSPECT)]:
            if key.removeprefix(SUSPECT) not in suspects:
                self._speaker.tell_fact(key, None)
        self._log_changes(suspects, listed)

    def _log_changes(self, suspects: Collection[str], listed: Collection[str]) -> None:
        for broker in sorted(set(suspects) - self._logged):
            log.warning(
                "%s is suspect and takes no part in orders: %d polls in a row failed, the last with %s",
                broker, SUSPECT_AFTER, self._failures.get(broker, "no answer"),
            )  # fmt: skip
        for broker in sorted(self._logged.difference(suspects)):
            log.warning("%s is suspect no more: it %s", broker, "answers" if broker in listed else "is not listed")
        self._logged = set(suspects)
        self._failures = {broker: failure for broker, failure in self._failures.items() if broker in listed}
