"""Whether another agent already observes this cluster: a starting agent listens before it registers anything."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from controller.agent.connections import Read
from controller.agent.session.rivals import HEARD_TWICE, Once, describe_process
from controller.domain.errors import BadRecord
from controller.domain.events import Heartbeat, parse_heartbeat
from controller.domain.state import METADATA, authority_of

LOOK_AGAIN_S = 0.1


class ClusterRivals:
    """Counts the heartbeats of other agents of clusters. `take` is called in the reader's thread.

    `heard`: how many heartbeats of rivals were read. `living`: one of a rival of which two were read.
    """

    def __init__(self, nonce: str, speaks_for: Callable[[str, str], bool] = lambda topic, broker: True) -> None:
        """`nonce`: that of this very process, which is no rival. `speaks_for`: whether a heartbeat of a broker counts
        in this topic (`TopicNames.speaks_for`)."""
        self._nonce, self._speaks_for = nonce, speaks_for
        self._beats: Counter[object] = Counter()
        self._once = Once()
        self.heard = 0
        self.living: Heartbeat | None = None

    def take(self, records: Sequence[Read]) -> None:
        """Count a batch of the heartbeats topic."""
        for record in records:
            try:
                beat = parse_heartbeat(record.value)
            except BadRecord:
                continue
            if not isinstance(beat, Heartbeat) or authority_of(beat.info) != METADATA:
                continue
            if self._speaks_for(record.topic, beat.session.broker) and self._once.is_new(record.value):
                self._count(beat)

    def _count(self, beat: Heartbeat) -> None:
        if beat.session.nonce == self._nonce:
            return
        self.heard += 1
        self._beats[beat.session] += 1
        if self._beats[beat.session] >= HEARD_TWICE:
            self.living = beat


def describe_holder(beat: Heartbeat) -> str:
    """Who observes the cluster, and what to do about it, in one line."""
    where = describe_process(beat) or "an agent"
    return (
        f"another agent observes this cluster: {where} (nonce {beat.session.nonce}); stop it first, start with "
        "--take-over, or with --standby to wait until it ends"
    )


async def listen_for_rivals(
    rivals: ClusterRivals,
    make_reader: Callable[[Callable[[Sequence[Read]], None]], Any],
    wait_ms: int,
    *,
    standby: bool,
    asked: asyncio.Event,
    boot_ms: Callable[[], int],
) -> str | None:
    """Who observes the cluster, as `describe_holder` says; None after `wait_ms` of silence, or when `asked` is set.

    `make_reader` gives a reader of heartbeats. `standby`: wait for that silence instead of returning a holder.
    """
    reader = make_reader(rivals.take)
    await asyncio.to_thread(reader.start)
    try:
        until_ms, heard = boot_ms() + wait_ms, 0
        while boot_ms() < until_ms and not asked.is_set():
            if rivals.living is not None and not standby:
                return describe_holder(rivals.living)
            if rivals.heard != heard:
                heard, until_ms = rivals.heard, max(until_ms, boot_ms() + wait_ms)
            await asyncio.sleep(LOOK_AGAIN_S)
        return None
    finally:
        await asyncio.to_thread(reader.stop)
