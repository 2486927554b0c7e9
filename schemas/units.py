"""The units of what brokers report, of resources and of bundles."""

from __future__ import annotations

RESOURCE_UNITS = {
    "cpu": "percent of one core",
    "memory": "bytes",
    "direct_memory": "bytes",
    "bandwidth_in": "bytes/s",
    "bandwidth_out": "bytes/s",
    "disk_io": "bytes/s",
}
FIELD_UNITS = {
    "msg_rate_in": "messages/s",
    "msg_rate_out": "messages/s",
    "throughput_in": "bytes/s",
    "throughput_out": "bytes/s",
    "topics": "count",
    "partitions": "count",
    "producers": "count",
    "consumers": "count",
    "sessions": "count",
    "unacked": "messages",
    "backlog_bytes": "bytes",
    "storage_bytes": "bytes",
    "cache_bytes": "bytes",
}
