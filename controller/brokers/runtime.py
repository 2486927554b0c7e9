"""What the agent needs of a broker, as a protocol: the reference broker and the Pulsar adapter implement it.

The agent decides *when* (lease, epochs, journal); the runtime does it. All methods run on the agent's event loop.
Every method is idempotent: the agent repeats itself after a reconnect. A runtime never serves a bundle it was not
told to serve, and never goes on after `drop` or `release` has returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from controller.domain.ids import Bundle


@dataclass(frozen=True, slots=True)
class Where:
    """Where a client should go: the owner's data address (`host:port`), and the journal seq that says so."""

    broker: str
    address: str
    seq: int


class Directory(Protocol):
    """The agent's replicated view of ownership, as the runtime may ask it."""

    def owner_of(self, topic: str) -> Where | None:
        """The broker to connect to for this topic (`to` while releasing), or None when nobody is known."""


@dataclass(slots=True)
class BundleStats:
    """What a bundle did since the last sample. Rates are per second over the sample's span."""

    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    throughput_in: float = 0.0
    throughput_out: float = 0.0
    topics: int = 0
    partitions: int = 0
    partitioned_topics: list[str] = field(default_factory=list)
    producers: int = 0
    consumers: int = 0
    sessions: int = 0
    unacked: int = 0
    backlog_bytes: int = 0
    storage_bytes: int = 0
    cache_bytes: int = 0


@dataclass(slots=True)
class LoadSample:
    """One sample of a broker. Resources are (usage, limit); a limit <= 0 means unknown.

    cpu in percent of one core, memory and direct_memory in bytes, bandwidth_* and disk_io in bytes/s.
    """

    resources: dict[str, tuple[float, float]]
    bundles: dict[Bundle, BundleStats]
    rpc_queue_ms: float = 0.0
    metadata_latency_ms: float = 0.0


class BrokerRuntime(Protocol):
    """A broker that can be told what to own."""

    kind: str  # "reference" or "pulsar"
    can_fence: bool  # whether `fence` really shuts out an older owner
    version: str  # of the broker's software, as 4.0.8; empty: not known

    async def start(self, directory: Directory) -> None:
        """Open ports and connections; serves nothing yet."""

    async def stop(self) -> None:
        """Drop everything and close."""

    @property
    def data_address(self) -> str:
        """`host:port` that clients connect to; known after `start`."""

    def refuses(self, bundle: Bundle) -> str | None:
        """A reason code when this broker's own capacity or policy forbids taking the bundle, else None."""

    async def hold(self, bundle: Bundle) -> None:
        """The bundle is coming here: hold clients' requests for it until `serve` or `drop`."""

    async def fence(self, bundle: Bundle, epoch: int) -> None:
        """Shut out every writer below `epoch` in the shared store, without serving."""

    async def serve(self, bundle: Bundle, epoch: int) -> None:
        """Raise the fence to `epoch`, read the tails, answer held requests. Raises Fenced when a higher epoch holds.

        With a bundle that is served already at a lower epoch: adopts the new epoch, clients notice nothing.
        """

    async def release(self, bundle: Bundle, next_owner: Where | None) -> None:
        """Stop taking traffic, finish what is in the store's hands, tell clients where to go. Returns when quiet."""

    async def drop(self, bundle: Bundle) -> None:
        """Stop at once without flushing (lease lapsed, ownership lost). Unacknowledged work is not acknowledged."""

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """The journal retired the parent: serve the children (bundle -> epoch) in its place, clients stay connected."""

    async def reopen(self, topic: str) -> None:
        """Close and reopen one topic; owner and epoch stay (Pulsar: `topics unload`)."""

    def serving(self) -> dict[Bundle, int]:
        """What is served now, with epochs; the inventory is made of it."""

    def sample(self) -> LoadSample:
        """Load since the previous call."""
