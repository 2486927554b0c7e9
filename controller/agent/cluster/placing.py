"""Places a bundle at the target of its order before the lookups of its clients spread it over the cluster.

Under the modular load manager the first lookup at the leader after an unload uses the destination up, and only sends
its client there; until the target has taken the bundle, the second lookup gets any broker, and the faster of the two
takes it (`ModularLoadManagerWrapper.getLeastLoaded`, `NamespaceService.searchForCandidateBroker`). With two hundred
clients the second one is milliseconds away. So lookups begin before the unload ends: the leader is asked, without
following it, until it gives the bundle away, whatever it says; then the target is asked as if the leader had sent
a client, and takes the bundle at once. A lookup changes nothing while the bundle has an owner.
"""

from __future__ import annotations

import asyncio
import json
import time
from urllib.parse import quote

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.outcomes import Answer, Outcome
from controller.brokers.pulsar.slots import Slots
from controller.domain.pulsar_address import origin_of

PAUSE_S, LATER_PAUSE_S = 0.015, 0.1
OFTEN_FOR_S = 5.0  # an unload that takes longer closes thousands of topics: lookups are rarer then
LOOKS_AFTER = 20  # once the unload was answered; its owner may need a moment to give up the lock
LOOKUP_TIMEOUT_S = 2.0


class Placing:
    """Of one topic's bundle. `source`, `target`, `leader`: addresses; without a target, the leader chooses."""

    def __init__(
        self, admin: PulsarAdmin, slots: Slots, topic: str, source: str, target: str | None, leader: str
    ) -> None:
        """Begins at once, and ends when the bundle was placed, or soon after `finish`."""
        self._admin, self._slots = admin, slots
        self._path = f"/lookup/v2/topic/{quote(topic.replace('://', '/', 1), safe='/')}"
        self._source, self._target, self._leader = source, target, leader
        self._unloaded = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    async def finish(self) -> None:
        """The unload was answered: look until the bundle was placed, but not for long."""
        self._unloaded.set()
        await self._task

    def cancel(self) -> None:
        """The unload was refused: stop looking."""
        self._task.cancel()

    async def _run(self) -> None:
        began_s, looks_left = time.monotonic(), LOOKS_AFTER
        while looks_left:
            looks_left -= self._unloaded.is_set()
            answer = await self._look(self._leader)
            if answer.redirects:  # nobody owns it, and the leader has used the destination up
                await self._look(self._target or origin_of(answer.redirects[-1]) or self._leader, authoritative=True)
                return
            if answer.outcome is Outcome.OK and _owner_in(answer) != self._source:
                return
            await asyncio.sleep(PAUSE_S if time.monotonic() - began_s < OFTEN_FOR_S else LATER_PAUSE_S)

    async def _look(self, address: str, authoritative: bool = False) -> Answer:
        params = {"authoritative": "true"} if authoritative else {}
        return await self._admin.get(
            self._path, address, params=params, follow=False, timeout_s=LOOKUP_TIMEOUT_S, slots=self._slots
        )


def _owner_in(answer: Answer) -> str | None:
    """The web address of the owner that a lookup was answered with."""
    try:
        document = json.loads(answer.body)
    except ValueError:
        return None
    found = [document.get(key) for key in ("httpUrl", "httpUrlTls")] if isinstance(document, dict) else []
    return next((origin_of(url) for url in found if isinstance(url, str) and url), None)
