"""What an agent is connected to: Kafka and the journal's table, as protocols of just the parts it uses.

The process that starts an agent passes the adapters in (`controller.cli.run.agent`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

from controller.bus.topics import TopicNames
from controller.domain.entries import Entry
from controller.domain.state import ClusterState


class Sender(Protocol):
    """The part of `controller.bus.producer.JsonProducer` that the agent uses."""

    def send(
        self, topic: str, value: Mapping[str, Any], key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        """Queue one record; the future resolves in another thread, with (partition, offset) or the failure."""


class Read(Protocol):
    """One record, as the reader's thread hands it over."""

    @property
    def topic(self) -> str:
        """The topic it was read from."""

    @property
    def value(self) -> bytes:
        """The bytes as they were sent."""


class Reader(Protocol):
    """The part of `controller.bus.consumer.TopicReader` that the agent uses."""

    def start(self, timeout_ms: int = 30_000) -> None:
        """Determine the starting offsets and start the thread."""

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop the thread."""


class Journal(Protocol):
    """The part of `controller.ledger.follower.Follower` that the agent uses; called from one worker thread at a
    time."""

    state: ClusterState

    @property
    def place(self) -> str:
        """Where the tables are, for people."""

    def bootstrap(self) -> object:
        """Load the newest snapshot and replay the entries after it."""

    def offer(self, entries: Iterable[Entry]) -> object:
        """Pass in entries known from elsewhere, so that `catch_up` need not read them."""

    def hear(self, seq: int) -> None:
        """Note that this seq is said to exist, so that `catch_up` looks for it by every means."""

    def catch_up(self) -> Iterable[Entry]:
        """Read the table; returns the entries that were new to the follower."""


MakeReader = Callable[[list[str], Callable[[Sequence[Any]], None], Callable[[Exception], object]], Reader]


class AgentConnections(NamedTuple):
    """`urgent` sends heartbeats, answers and requests, `bulk` the load reports, so that a large report never delays a
    heartbeat. `reader` makes a reader of topics from a batch callback and a failure callback, both called in the
    reader's thread."""

    urgent: Sender
    bulk: Sender
    reader: MakeReader
    journal: Journal
    names: TopicNames
