"""The agent that stands by for a Pulsar cluster begins once the other one has been silent for a whole lease."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.agent.cluster import rivals as rivals_module
from controller.agent.cluster.rivals import ClusterRivals, listen_for_rivals
from controller.domain.state import METADATA

WAIT_MS = 7_000
DIES_AT_MS = 20_000


class Other:
    """Another agent, which sends a heartbeat every second until it dies; asking for the time lets it pass."""

    def __init__(self, rivals: ClusterRivals) -> None:
        self.now_ms = 0
        self._rivals = rivals

    def boot_ms(self) -> int:
        self.now_ms += 50
        if self.now_ms <= DIES_AT_MS and self.now_ms % 1_000 == 0:
            beat = {
                "v": 1, "broker": "a:1", "incarnation": 1, "nonce": "other", "session": 1, "applied_seq": 0,
                "sent_ms": self.now_ms, "info": {"authority": METADATA},
            }  # fmt: skip
            self._rivals.take([cast(Any, SimpleNamespace(topic="heartbeats", value=json.dumps(beat).encode()))])
        return self.now_ms


def test_a_standby_waits_for_a_whole_lease_of_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each heartbeat of the agent that lives begins the wait anew."""
    monkeypatch.setattr(rivals_module, "LOOK_AGAIN_S", 0)
    rivals = ClusterRivals("me")
    other, reader = Other(rivals), SimpleNamespace(start=lambda: None, stop=lambda: None)

    async def listen() -> str | None:
        return await listen_for_rivals(
            rivals, lambda take: cast(Any, reader), WAIT_MS, standby=True, asked=asyncio.Event(), boot_ms=other.boot_ms
        )

    assert asyncio.run(listen()) is None
    assert rivals.heard == DIES_AT_MS // 1_000
    assert other.now_ms >= DIES_AT_MS + WAIT_MS, "it began before the living agent's lease had ended"
