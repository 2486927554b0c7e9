"""The offset from which each partition of the control topics is read."""

from __future__ import annotations

import logging
from collections.abc import Collection

from controller.bus.reach import Reaches
from controller.service.records import Offsets

log = logging.getLogger(__name__)


def starting_offsets(reach: Reaches, applied: Offsets, from_end: Collection[str]) -> dict[str, dict[str, int]]:
    """The first offset to read of each partition: the journaled one, or the oldest that Kafka still has.

    `from_end` are the heartbeats topics, of which only new records tell who is alive now. Spark requires an offset for
    every partition. Offsets beyond a partition's end have been refused before (`controller.service.kafka_identity`).
    """
    starting: dict[str, dict[str, int]] = {}
    for topic, partitions in reach.items():
        for partition, (oldest, end) in partitions.items():
            wanted = end if topic in from_end else applied.get(topic, {}).get(partition, oldest)
            if wanted < oldest:
                log.warning(
                    "%s-%s: the journal continues at offset %d, Kafka has %d and later: %d records were removed unread",
                    topic, partition, wanted, oldest, oldest - wanted,
                )  # fmt: skip
            starting.setdefault(topic, {})[partition] = max(wanted, oldest)
    return starting
