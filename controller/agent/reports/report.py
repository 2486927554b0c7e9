"""Builds the load report v1 from a runtime's sample. Pure.

Invariant: the top-k bundles plus the tail equal the totals in every field, so truncating the list loses no load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controller.agent.records import session_fields
from controller.brokers.runtime import BundleStats, LoadSample
from controller.domain.events import VERSION
from controller.domain.ids import Bundle, Session
from controller.domain.load import BUNDLE_FIELDS, RATES, RESOURCES

UNKNOWN = (-1.0, -1.0)
MAX_PARTITIONED_TOPICS = 1_000  # names in one bundle's row; counts stay exact beyond that

Resources = Mapping[str, tuple[float, float]]


def build_report(
    session: Session, sequence: int, sent_ms: int, sample: LoadSample, resources: Resources, top_k: int
) -> dict[str, Any]:
    """The record for `load-reports`. `resources`: (usage, limit) by name; missing ones are sent as unknown."""
    top, rest = top_bundles(sample.bundles, top_k)
    return {
        "v": VERSION,
        **session_fields(session),
        "sequence": sequence,
        "sent_ms": sent_ms,
        "resources": {name: _usage(resources.get(name, UNKNOWN)) for name in RESOURCES},
        "rpc_queue_ms": sample.rpc_queue_ms,
        "metadata_latency_ms": sample.metadata_latency_ms,
        "totals": _sums(sample.bundles.values()),
        "bundles": [_row(bundle, sample.bundles[bundle]) for bundle in top],
        "tail": _sums(sample.bundles[bundle] for bundle in rest) if rest else None,
    }


def top_bundles(bundles: Mapping[Bundle, BundleStats], k: int) -> tuple[list[Bundle], list[Bundle]]:
    """The k bundles with the largest share of any rate, session count or backlog, and the rest. Ties go by name."""
    if len(bundles) <= k:
        return sorted(bundles), []
    ranked_by = (*RATES, "sessions", "backlog_bytes")
    sums = {name: sum(getattr(s, name) for s in bundles.values()) or 1.0 for name in ranked_by}

    def share(bundle: Bundle) -> float:
        stats = bundles[bundle]
        return max(float(getattr(stats, name)) / sums[name] for name in ranked_by)

    ranked = sorted(bundles, key=lambda b: (-share(b), b))
    return ranked[:k], ranked[k:]


def with_bandwidth(
    resources: Resources, sample: LoadSample, throughput_as_bandwidth: bool, nic_bytes_per_s: float | None
) -> dict[str, tuple[float, float]]:
    """The resources with `nic_bytes_per_s` as the limit of both bandwidths, and, where the network card is unknown and
    `throughput_as_bandwidth` is set, with the bundles' message throughput as the bandwidth used."""
    result = dict(resources)
    for name, field in (("bandwidth_in", "throughput_in"), ("bandwidth_out", "throughput_out")):
        usage, limit = result.get(name, UNKNOWN)
        if throughput_as_bandwidth and (limit <= 0 or usage < 0):
            usage = float(sum(getattr(stats, field) for stats in sample.bundles.values()))
        if nic_bytes_per_s is not None and usage >= 0:
            limit = nic_bytes_per_s
        result[name] = (usage, limit)
    return result


def _usage(pair: tuple[float, float]) -> dict[str, float]:
    return {"usage": pair[0], "limit": pair[1]}


def _row(bundle: Bundle, stats: BundleStats) -> dict[str, Any]:
    row: dict[str, Any] = {"bundle": str(bundle)}
    row.update({name: getattr(stats, name) for name in BUNDLE_FIELDS})
    row["partitioned_topics"] = sorted(stats.partitioned_topics)[:MAX_PARTITIONED_TOPICS]
    return row


def _sums(stats: Iterable[BundleStats]) -> dict[str, Any]:
    rows = list(stats)
    sums: dict[str, Any] = {name: sum(getattr(row, name) for row in rows) for name in BUNDLE_FIELDS}
    sums["bundles"] = len(rows)
    return sums
