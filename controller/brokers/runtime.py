"""`BrokerRuntime`: the protocol by which an agent drives its broker. Each kind of broker implements it in its folder.

The agent decides *when* (lease, epochs, journal), the runtime carries it out. All methods run on the agent's event loop
and are idempotent, because the agent repeats calls. A runtime serves only bundles that it was told to serve, and none
any more once `drop` or `release` has returned.

A runtime that knows the load of single topics also has `topic_loads(bundle) -> {topic: load}`; without it bundles are
split in the middle of their range. One whose service hangs on something else also has `troubles() -> list[str]`: a
sentence for each thing that keeps it from serving, which the agent's `/healthz` lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from controller.domain.ids import Bundle


@dataclass(frozen=True, slots=True)
class Where:
    """Where a client should connect: the owner's data address (`host:port`), as of a journal seq."""

    broker: str
    address: str
    seq: int


class Directory(Protocol):
    """The agent's replicated view of ownership, for the runtime."""

    def owner_of(self, topic: str) -> Where | None:
        """The broker to connect to for this topic (the grantee while releasing); None when there is none."""


@dataclass(slots=True)
class BundleStats:
    """A bundle's activity since the last sample. Rates are per second over that time."""

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
    """One sample of a broker. Resources are (usage, limit); a limit <= 0 means unknown. Figures are finite and not
    negative; one that is not is left out of the report, with a warning.

    cpu in percent of one core, memory and direct_memory in bytes, bandwidth_* and disk_io in bytes/s.
    """

    resources: dict[str, tuple[float, float]]
    bundles: dict[Bundle, BundleStats]
    rpc_queue_ms: float = 0.0
    metadata_latency_ms: float = 0.0


class BrokerRuntime(Protocol):
    """A broker whose ownership of bundles is controlled from outside."""

    kind: str  # such as "reference"; for people
    authority: str  # JOURNAL, or METADATA where the broker's own cluster decides ownership
    can_fence: bool  # whether `fence` really excludes an older owner
    version: str  # of the broker's software, such as 4.0.8; empty when unknown

    async def start(self, directory: Directory) -> None:
        """Open ports and connections; nothing is served yet."""

    async def stop(self) -> None:
        """Drop all bundles and close."""

    @property
    def data_address(self) -> str:
        """`host:port` that clients connect to; known after `start`."""

    def refuses(self, bundle: Bundle) -> str | None:
        """A reason code when the broker's own capacity or policy forbids taking the bundle, else None."""

    async def hold(self, bundle: Bundle) -> None:
        """Hold clients' requests for a bundle that is on its way here, until `serve` or `drop`."""

    async def fence(self, bundle: Bundle, epoch: int) -> None:
        """Fence off every writer below `epoch` in the shared store, without serving."""

    async def serve(self, bundle: Bundle, epoch: int) -> None:
        """Raise the fence to `epoch`, read the tails, answer held requests. Raises Fenced when a higher fence exists.

        A bundle already served at a lower epoch adopts the new one; clients notice nothing.
        """

    async def release(self, bundle: Bundle, next_owner: Where | None) -> None:
        """Stop accepting traffic, finish what is pending in the store, redirect clients. Returns once that is done."""

    async def drop(self, bundle: Bundle) -> None:
        """Stop at once without flushing (lease expired, ownership lost); pending work is not acknowledged."""

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """Serve the children (bundle -> epoch) in place of the retired parent; clients stay connected."""

    async def reopen(self, topic: str) -> None:
        """Close and reopen one topic; owner and epoch stay the same (Pulsar: `topics unload`)."""

    def serving(self) -> dict[Bundle, int]:
        """The bundles served now, with epochs; inventories are made of it."""

    def sample(self) -> LoadSample:
        """Load since the previous call."""
