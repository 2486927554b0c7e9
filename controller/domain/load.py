"""Resources and per-bundle load fields: their names, units and order everywhere.

The order fixes the columns of every array in `controller.policy` and of the tables in `schemas/`.
"""

from __future__ import annotations

import math

# usage and limit: cpu in percent of one core, memory in bytes, bandwidth and disk in bytes/s
RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out", "disk_io")

# summed over bundles these make the broker's totals (top-k bundles plus one tail row)
RATES = ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out")  # messages/s, bytes/s
COUNTS = (
    "topics",
    "partitions",
    "producers",
    "consumers",
    "sessions",
    "unacked",
    "backlog_bytes",
    "storage_bytes",
    "cache_bytes",
)
BUNDLE_FIELDS = RATES + COUNTS

# Steps per unit when a round quantises its input, so that a replay sees the very same numbers: thousandths for shares
# of a core, messages/s and averaged counts, whole numbers for bytes and bytes/s
RESOURCE_SCALES = (1000, 1, 1, 1, 1, 1)
FIELD_SCALES = (1000, 1000, 1, 1, 1000, 1000, 1000, 1000, 1000, 1000, 1, 1, 1)
UNKNOWN = -1  # an unknown usage or limit, quantised
SCORE_UNIT = 10_000  # scores are compared in hundredths of a percentage point: 85 % = 8,500

TAIL = "tail"  # the bundle name of the aggregate of everything below the top k
# what to do where no report knows usage and limit of a resource that counts
MAKE_LOAD_KNOWN = "give another resource a weight, or the network card's speed (agent.override_broker_nic_speed_gbps)"
IMPOSSIBLE_FACTOR = 3.0  # usage above three times a known limit is a misreading


def utilisation(usage: float, limit: float) -> float:
    """Usage as a fraction of the limit; NaN when the limit is unknown (<= 0) or the usage is (< 0)."""
    return usage / limit if limit > 0 and usage >= 0 else math.nan
