"""What `weighted` looks at: one class a figure, each with what brokers have of it, their limit, and a bundle's part.

A provider is pure: the same snapshot and settings give the same arrays, and it reads nothing else. One of your own
needs a constructor without arguments and is named in the configuration by its dotted name. A limit of NaN is none;
a usage of NaN under a limit makes the broker neither a source by it nor a target, unless it is unknown of all brokers.

| provider | what a broker has of it | its limit | a bundle's part |
| --- | --- | --- | --- |
| cpu, memory, direct memory, disk I/O | usage | share of the broker's own limit | what it costs (costs.py) |
| bandwidth in, bandwidth out | usage | a rate, else a share of the card's speed | its throughput |
| topics, partitions, unacknowledged | sum over its bundles | a number | its own |
| offload | bytes stored in its bundles: reports have no figure nearer to it | a size | its own |
| RPC queue | time a request waits | a time | by its share of its broker's messages |
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.settings.weighted import WeightedSettings
from controller.policy.view.costs import Floats
from controller.policy.view.frame import LATENCIES, NOBODY
from controller.policy.view.snapshot import Snapshot

_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
_US_A_MS = 1000


class LoadAwarenessProvider(Protocol):
    """One figure. `name` stands in evidence; of a figure that `fluctuates` a target keeps a little free."""

    name: str
    fluctuates: bool

    def usage(self, snapshot: Snapshot) -> Floats:
        """[B] what each broker has of it; NaN unknown."""
        ...

    def limit(self, snapshot: Snapshot, settings: WeightedSettings) -> Floats:
        """[B] above which a broker is over its limit, in the same unit; NaN: none."""
        ...

    def part(self, snapshot: Snapshot) -> Floats:
        """[N] what each bundle adds to its broker's."""
        ...


class _Resource:
    """A resource, limited to a share of what the broker has."""

    name: str
    fluctuates = True

    def usage(self, snapshot: Snapshot) -> Floats:
        """[B] as reported."""
        return snapshot.usage[:, RESOURCES.index(self.name)]

    def limit(self, snapshot: Snapshot, settings: WeightedSettings) -> Floats:
        """[B] the configured share of each broker's own limit."""
        share = self._share(settings)
        own = snapshot.limit[:, RESOURCES.index(self.name)]
        return np.full(len(own), np.nan) if share is None else share * own

    def part(self, snapshot: Snapshot) -> Floats:
        """[N] estimated cost."""
        return snapshot.cost[:, RESOURCES.index(self.name)]

    def _share(self, settings: WeightedSettings) -> float | None:
        raise NotImplementedError


class CpuProvider(_Resource):
    """Percent of one core; `cpu_threshold` of the cores it has."""

    name = "cpu"

    def _share(self, settings: WeightedSettings) -> float | None:
        return settings.cpu_threshold


class MemoryProvider(_Resource):
    """Heap in bytes; `memory_threshold` of its limit."""

    name = "memory"

    def _share(self, settings: WeightedSettings) -> float | None:
        return settings.memory_threshold


class DirectMemoryProvider(_Resource):
    """Direct memory in bytes; `memory_threshold` of its limit."""

    name = "direct_memory"

    def _share(self, settings: WeightedSettings) -> float | None:
        return settings.memory_threshold


class DiskIoProvider(_Resource):
    """Bytes/s; `disk_io_threshold` of what the disk can do."""

    name = "disk_io"

    def _share(self, settings: WeightedSettings) -> float | None:
        return settings.disk_io_threshold


class _Bandwidth(_Resource):
    """Bytes/s; a rate, or `bandwidth_threshold` of the card's speed."""

    def limit(self, snapshot: Snapshot, settings: WeightedSettings) -> Floats:
        """[B] the rate for all brokers where one is given."""
        rate = self._rate(settings)
        return super().limit(snapshot, settings) if rate is None else np.full(len(snapshot.brokers), float(rate))

    def _share(self, settings: WeightedSettings) -> float | None:
        return settings.bandwidth_threshold

    def _rate(self, settings: WeightedSettings) -> int | None:
        raise NotImplementedError


class BandwidthInProvider(_Bandwidth):
    """`bandwidth_in_threshold_bytes_per_s`."""

    name = "bandwidth_in"

    def _rate(self, settings: WeightedSettings) -> int | None:
        return settings.bandwidth_in_threshold_bytes_per_s


class BandwidthOutProvider(_Bandwidth):
    """`bandwidth_out_threshold_bytes_per_s`."""

    name = "bandwidth_out"

    def _rate(self, settings: WeightedSettings) -> int | None:
        return settings.bandwidth_out_threshold_bytes_per_s


class _Counted:
    """A figure of bundles, summed over a broker's."""

    name: str
    fluctuates = False
    field: str

    def usage(self, snapshot: Snapshot) -> Floats:
        """[B] of all its bundles, those below the top k among them."""
        return snapshot.totals[:, _F[self.field]]

    def limit(self, snapshot: Snapshot, settings: WeightedSettings) -> Floats:
        """[B] the same for all."""
        most = self._most(settings)
        return np.full(len(snapshot.brokers), np.nan if most is None else float(most))

    def part(self, snapshot: Snapshot) -> Floats:
        """[N] the bundle's own."""
        return snapshot.fields[:, _F[self.field]]

    def _most(self, settings: WeightedSettings) -> int | None:
        raise NotImplementedError


class TopicsProvider(_Counted):
    """`max_topics_per_broker`."""

    name = field = "topics"

    def _most(self, settings: WeightedSettings) -> int | None:
        return settings.max_topics_per_broker


class PartitionsProvider(_Counted):
    """`max_partitions_per_broker`."""

    name = field = "partitions"

    def _most(self, settings: WeightedSettings) -> int | None:
        return settings.max_partitions_per_broker


class UnackedMessagesProvider(_Counted):
    """`max_unacked_messages_per_broker`."""

    name = field = "unacked"
    fluctuates = True

    def _most(self, settings: WeightedSettings) -> int | None:
        return settings.max_unacked_messages_per_broker


class OffloadProvider(_Counted):
    """`offload_threshold_bytes`, of stored bytes."""

    name, field = "offload", "storage_bytes"

    def _most(self, settings: WeightedSettings) -> int | None:
        return settings.offload_threshold_bytes


class RpcQueueProvider:
    """`max_active_rpc_queue_ms`. What a bundle adds is a guess: the queue is taken to shrink and grow with messages."""

    name = "rpc_queue"
    fluctuates = True

    def usage(self, snapshot: Snapshot) -> Floats:
        """[B] ms."""
        return latency_ms(snapshot, "rpc_queue_ms")

    def limit(self, snapshot: Snapshot, settings: WeightedSettings) -> Floats:
        """[B] the same for all."""
        most = settings.max_active_rpc_queue_ms
        return np.full(len(snapshot.brokers), np.nan if most is None else most)

    def part(self, snapshot: Snapshot) -> Floats:
        """[N] of its broker's queue, the bundle's share of its broker's messages."""
        columns = [_F["msg_rate_in"], _F["msg_rate_out"]]
        own, all_of_it = snapshot.fields[:, columns].sum(axis=1), snapshot.totals[:, columns].sum(axis=1)
        rate = np.where(all_of_it > 0, self.usage(snapshot) / np.where(all_of_it > 0, all_of_it, 1.0), 0.0)
        held = np.where(snapshot.owner == NOBODY, 0.0, np.append(rate, 0.0)[snapshot.owner])
        return np.asarray(np.nan_to_num(own * held))


BUILT_IN = (
    CpuProvider,
    MemoryProvider,
    DirectMemoryProvider,
    BandwidthInProvider,
    BandwidthOutProvider,
    DiskIoProvider,
    TopicsProvider,
    PartitionsProvider,
    OffloadProvider,
    UnackedMessagesProvider,
    RpcQueueProvider,
)


def latency_ms(snapshot: Snapshot, name: str) -> Floats:
    """[B] one of LATENCIES, NaN where unknown."""
    if snapshot.frame.latencies is None:
        return np.full(len(snapshot.brokers), np.nan)
    us = snapshot.frame.latencies[:, LATENCIES.index(name)]
    return np.where(us < 0, np.nan, us / _US_A_MS)
