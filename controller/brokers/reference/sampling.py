"""The load sample of the reference broker, derived from the work it served.

Rates are per second over the time since the previous sample. CPU is the modelled work served, in percent of one core;
memory is what the broker really holds (message caches, open topics, connections).
"""

from __future__ import annotations

from controller.brokers.reference.bundle import ServedBundle, Traffic
from controller.brokers.reference.capacity import Capacity, Served
from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.protocol import FrameConnection
from controller.brokers.reference.topic import OpenTopic
from controller.brokers.runtime import BundleStats, LoadSample
from controller.domain.ids import Bundle, split_partition

TOPIC_BYTES = 4096  # bookkeeping of an open topic, measured with tracemalloc: 3–5 KiB
CONNECTION_BYTES = 64 * 1024  # socket and stream buffers


def bundle_stats(served: ServedBundle, span_s: float) -> BundleStats:
    """One bundle's statistics; resets its traffic counters and those of its topics."""
    traffic, served.traffic = served.traffic, Traffic()
    served.topic_rates = dict.fromkeys(served.tails, 0.0)
    for topic in served.topics.values():
        served.topic_rates[topic.name] = topic.messages / span_s
        topic.messages = 0
    stats = BundleStats(
        msg_rate_in=traffic.messages_in / span_s,
        msg_rate_out=traffic.messages_out / span_s,
        throughput_in=traffic.bytes_in / span_s,
        throughput_out=traffic.bytes_out / span_s,
        topics=len(served.topics) + len(served.tails),
    )
    connections: set[FrameConnection] = set()
    for topic in served.topics.values():
        stats.producers += len(topic.producers)
        stats.consumers += sum(len(s.consumers) for s in topic.subscriptions.values())
        connections.update(handle.connection for handle in topic.handles())
        stats.unacked += topic.count_unacknowledged()
        stats.storage_bytes += topic.bytes
        stats.cache_bytes += topic.cache_bytes
        stats.backlog_bytes += _backlog_bytes(topic.next_offset, topic.bytes, list(topic.cursors.values()))
    for tail in served.tails.values():
        cursors = [Cursor(c["mark"], c["ranges"]) for c in tail["cursors"].values()]
        stats.storage_bytes += tail["bytes"]
        stats.backlog_bytes += _backlog_bytes(tail["next"], tail["bytes"], cursors)
    # Pulsar counts producers and consumers as sessions, in its bundle limits too.
    stats.sessions = stats.producers + stats.consumers
    parts = map(split_partition, (*served.topics, *served.tails))
    partitioned = [whole for whole, number in parts if number is not None]
    stats.partitions = len(partitioned)
    stats.partitioned_topics = sorted(set(partitioned))
    return stats


def _backlog_bytes(messages: int, size: int, cursors: list[Cursor]) -> int:
    """The backlog of the slowest subscription, at the topic's mean message size."""
    if not messages or not cursors:
        return 0
    return max(c.backlog(messages) for c in cursors) * size // messages


def load_sample(
    served: list[ServedBundle],
    work: Served,
    capacity: Capacity,
    *,
    span_s: float,
    connections: int,
    store_latency_ms: float,
) -> LoadSample:
    """The broker's sample. `work` is what the throttle served in the span."""
    bundles: dict[Bundle, BundleStats] = {s.bundle: bundle_stats(s, span_s) for s in served}
    topics: list[OpenTopic] = [topic for s in served for topic in s.topics.values()]
    memory = sum(t.cache_bytes for t in topics) + TOPIC_BYTES * len(topics) + CONNECTION_BYTES * connections
    bytes_in, bytes_out = work.bytes_in / span_s, work.bytes_out / span_s
    return LoadSample(
        resources={
            "cpu": (100.0 * work.cpu_s / span_s, capacity.cpu_pct),
            "memory": (float(memory), capacity.memory_bytes),
            "direct_memory": (float(work.queued_bytes), capacity.memory_bytes),
            "bandwidth_in": (bytes_in, capacity.bandwidth_in_bytes_per_s),
            "bandwidth_out": (bytes_out, capacity.bandwidth_out_bytes_per_s),
            "disk_io": (bytes_in, capacity.disk_bytes_per_s),
        },
        bundles=bundles,
        rpc_queue_ms=work.mean_queue_ms,
        metadata_latency_ms=store_latency_ms,
    )
