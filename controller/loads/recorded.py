"""Converts recorded Pulsar load reports (`LocalBrokerData` of `broker-stats/load-report`) to load reports v1. Pure.

It converts Pulsar's units: memory from MiB to bytes, bandwidth from kbit/s to bytes/s; CPU is percent of one core in
both. A limit <= 0 stays unknown, unless the operator overrides the network card's speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.domain.errors import BadRecord
from controller.domain.events import VERSION
from controller.domain.ids import Session
from controller.domain.load import BUNDLE_FIELDS

MIB = 1024 * 1024
BYTES_PER_S_PER_KBIT = 125.0
BYTES_PER_S_PER_GBIT = 125e6


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a recording lacks: the network card's speed, and whether message throughput replaces its traffic."""

    nic_speed_gbps: float | None = None
    message_throughput_as_bandwidth: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded report with its time (ms since epoch), phase of the recording, and broker."""

    at_ms: int
    phase: str
    broker: str
    report: Mapping[str, Any]


def read_record(row: Mapping[str, Any], number: int) -> Recorded:
    """Parse one line of a recording. Raises BadRecord naming the line."""
    try:
        return Recorded(round(row["ts"] * 1000), str(row.get("phase", "")), row["broker"], row["report"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadRecord("recording", f"line {number}: {error!r}; wanted ts, broker and report") from None


def to_load_report(recorded: Recorded, session: Session, sequence: int, overrides: Overrides) -> dict[str, Any]:
    """The load report v1 that an agent of the broker would have sent."""
    report = recorded.report
    bundles = [_bundle(name, stats) for name, stats in sorted(report.get("lastStats", {}).items())]
    totals = {field: sum(b[field] for b in bundles) for field in BUNDLE_FIELDS}
    return {
        "v": VERSION,
        "broker": session.broker,
        "incarnation": session.incarnation,
        "nonce": session.nonce,
        "session": session.number,
        "sequence": sequence,
        "sent_ms": recorded.at_ms,
        "resources": _resources(report, overrides),
        "rpc_queue_ms": 0.0,
        "metadata_latency_ms": 0.0,
        "totals": {**totals, "bundles": len(bundles)},
        "bundles": bundles,
        "tail": {**dict.fromkeys(BUNDLE_FIELDS, 0), "bundles": 0},
    }


def _resources(report: Mapping[str, Any], overrides: Overrides) -> dict[str, dict[str, float]]:
    resources = {
        "cpu": _scale(report.get("cpu"), 1.0),
        "memory": _scale(report.get("memory"), MIB),
        "direct_memory": _scale(report.get("directMemory"), MIB),
        "disk_io": {"usage": -1.0, "limit": -1.0},  # Pulsar does not report it
    }
    for name, key, throughput in (
        ("bandwidth_in", "bandwidthIn", "msgThroughputIn"),
        ("bandwidth_out", "bandwidthOut", "msgThroughputOut"),
    ):
        card = _scale(report.get(key), BYTES_PER_S_PER_KBIT)
        if card["limit"] <= 0 and overrides.message_throughput_as_bandwidth:
            card["usage"] = float(report.get(throughput, -1.0))
        if overrides.nic_speed_gbps is not None:
            card["limit"] = overrides.nic_speed_gbps * BYTES_PER_S_PER_GBIT
        resources[name] = card
    return resources


def _scale(resource: Mapping[str, float] | None, factor: float) -> dict[str, float]:
    """Usage and limit in our unit; a limit <= 0 and a negative usage stay unknown."""
    if resource is None:
        return {"usage": -1.0, "limit": -1.0}
    usage, limit = float(resource["usage"]), float(resource["limit"])
    return {"usage": usage * factor if usage > 0 else usage, "limit": limit * factor if limit > 0 else -1.0}


def _bundle(name: str, stats: Mapping[str, Any]) -> dict[str, Any]:
    producers, consumers = int(stats.get("producerCount", 0)), int(stats.get("consumerCount", 0))
    known = {
        "msg_rate_in": float(stats["msgRateIn"]),
        "msg_rate_out": float(stats["msgRateOut"]),
        "throughput_in": float(stats["msgThroughputIn"]),
        "throughput_out": float(stats["msgThroughputOut"]),
        "topics": int(stats.get("topics", 0)),
        "producers": producers,
        "consumers": consumers,
        "sessions": producers + consumers,
        "cache_bytes": int(stats.get("cacheSize", 0)),
    }
    return {"bundle": name, **dict.fromkeys(BUNDLE_FIELDS, 0), **known, "partitioned_topics": []}
