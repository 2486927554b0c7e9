"""Tells of records that Kafka does not take: once an outage and reason, then how many they were."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Outage:
    lost: int = 0
    told: set[type[Exception]] = field(default_factory=set)


class Undelivered:
    """The outages of a producer, one a topic. An outage lasts until a record is delivered. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outages: dict[str, _Outage] = {}

    def note(self, topic: str, error: Exception, why: str) -> None:
        """A record was not delivered."""
        with self._lock:
            outage = self._outages.setdefault(topic, _Outage())
            outage.lost += 1
            new = type(error) not in outage.told
            outage.told.add(type(error))
        if new:
            log.warning("record for %s not delivered: %s; those that follow are counted", topic, why)

    def delivered(self, topic: str) -> None:
        """A record was delivered: an outage of the topic is over."""
        if topic not in self._outages:  # as a rule; asked for every record
            return
        with self._lock:
            outage = self._outages.pop(topic, None)
        if outage is not None:
            log.warning("records for %s are delivered again; not delivered: %d", topic, outage.lost)

    def close(self) -> None:
        """Nothing more is sent: tell of outages that are not over."""
        with self._lock:
            outages, self._outages = self._outages, {}
        for topic, outage in outages.items():
            if outage.lost > 1:  # one alone has been told
                log.warning("records for %s not delivered until the end: %d", topic, outage.lost)
