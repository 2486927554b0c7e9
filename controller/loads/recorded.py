"""Converts load reports of Pulsar (`LocalBrokerData` of `broker-stats/load-report`) to load reports v1. Pure.

A line of a recording has `ts`, `broker` and `report`. `ballast pulsar record` adds `process_cpu`, the CPU of the
broker's own process, which counts in place of Pulsar's host-wide figure unless the operator wants that one; `excluded`,
what the bundles carry that nobody may move; lines with `gap` in place of `report`, which say why there is none; and
lines with `policies`, the cluster's rules of placement (facts by key) from then on.

It converts Pulsar's units: memory from MiB to bytes, bandwidth from kbit/s to bytes/s; CPU is percent of one core in
both. A limit <= 0 stays unknown, unless the operator gives the network card's speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.config.settings import Settings
from controller.domain.errors import BadRecord, shown
from controller.domain.events import VERSION
from controller.domain.ids import Session
from controller.domain.load import BUNDLE_FIELDS

MIB = 1024 * 1024
BYTES_PER_S_PER_KBIT = 125.0
BYTES_PER_S_PER_GBIT = 125e6
END_OF_TIME_S = 253_402_300_800  # the year 10000: later ones are no seconds since 1970
_PULSARS = {  # Pulsar's names of what bundles carry, in sums of excluded ones
    "msgRateIn": "msg_rate_in", "msgRateOut": "msg_rate_out", "msgThroughputIn": "throughput_in",
    "msgThroughputOut": "throughput_out", "topics": "topics", "producerCount": "producers",
    "consumerCount": "consumers", "cacheSize": "cache_bytes",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a recording lacks: the network card's speed, and whether message throughput replaces its traffic.

    `unknown_nic_gbps` is the speed of cards that Pulsar does not know, whose bandwidth is then message throughput.
    `host_cpu`: Pulsar's figure of CPU counts, even if that of the process is known.
    """

    nic_speed_gbps: float | None = None
    message_throughput_as_bandwidth: bool = False
    unknown_nic_gbps: float | None = None
    host_cpu: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Overrides:
        """As configured."""
        agent, cluster = settings.agent, settings.pulsar_cluster
        nic, as_bandwidth = agent.override_broker_nic_speed_gbps, agent.message_throughput_as_bandwidth
        return cls(nic, as_bandwidth, cluster.nic_gbps, cluster.host_cpu)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded report with its time (ms since epoch), phase of the recording, and broker."""

    at_ms: int
    phase: str
    broker: str
    report: Mapping[str, Any]
    process_cpu: Mapping[str, float] | None = None
    excluded: Mapping[str, float] = field(default_factory=dict)


def is_gap(row: object) -> bool:
    """Whether a line says why there is no report."""
    return isinstance(row, Mapping) and "gap" in row and "report" not in row


def read_policies(row: object) -> dict[str, dict[str, Any]] | None:
    """The cluster's policies in a line that tells them; None for any other line."""
    policies = row.get("policies") if isinstance(row, Mapping) and "report" not in row else None
    if not isinstance(policies, dict):
        return None
    return {key: fact for key, fact in policies.items() if isinstance(fact, dict)}


def read_record(row: object, number: int) -> Recorded:
    """Parse one line of a recording. Raises BadRecord naming the line; what the report holds is checked later."""

    def part(name: str, wanted: tuple[type, ...], in_words: str, absent: Any = None) -> Any:
        value = row.get(name) if isinstance(row, Mapping) else None
        if value is None and absent is not None:
            return absent
        if not isinstance(value, wanted) or isinstance(value, bool):
            text = f"line {number}: {name} is {shown(value)}, wanted {in_words}; wanted are ts, broker and report"
            raise BadRecord("recording", text)
        return value

    ts, process_cpu = part("ts", (int, float), "seconds since 1970"), part("process_cpu", (dict,), "an object", {})
    if not 0 <= ts < END_OF_TIME_S:
        raise BadRecord("recording", f"line {number}: ts is {shown(ts)}, wanted seconds since 1970")
    return Recorded(
        at_ms=round(ts * 1000),
        phase=part("phase", (str,), "text", ""),
        broker=part("broker", (str,), "text"),
        report=part("report", (dict,), "an object"),
        process_cpu=process_cpu or None,
        excluded=part("excluded", (dict,), "an object", {}),
    )


def to_load_report(recorded: Recorded, session: Session, sequence: int, overrides: Overrides) -> dict[str, Any]:
    """The load report v1 that an agent of the broker would have sent.

    Raises AttributeError, KeyError, TypeError, ValueError or OverflowError for a report of another form.
    """
    report = recorded.report
    bundles = [_bundle(name, stats) for name, stats in sorted(report.get("lastStats", {}).items())]
    tail = _tail(recorded.excluded)
    totals = {name: sum(b[name] for b in bundles) + tail[name] for name in BUNDLE_FIELDS}
    return {
        "v": VERSION,
        "broker": session.broker,
        "incarnation": session.incarnation,
        "nonce": session.nonce,
        "session": session.number,
        "sequence": sequence,
        "sent_ms": recorded.at_ms,
        "resources": _resources(recorded, overrides),
        "rpc_queue_ms": 0.0,
        "metadata_latency_ms": 0.0,
        "totals": {**totals, "bundles": len(bundles)},
        "bundles": bundles,
        "tail": {**tail, "bundles": 0},
    }


def _resources(recorded: Recorded, overrides: Overrides) -> dict[str, dict[str, float]]:
    report, own = recorded.report, recorded.process_cpu
    resources = {
        "cpu": _scale(report.get("cpu") if own is None or overrides.host_cpu else own, 1.0),
        "memory": _scale(report.get("memory"), MIB),
        "direct_memory": _scale(report.get("directMemory"), MIB),
        "disk_io": {"usage": -1.0, "limit": -1.0},  # Pulsar does not report it
    }
    for name, key, throughput in (
        ("bandwidth_in", "bandwidthIn", "msgThroughputIn"),
        ("bandwidth_out", "bandwidthOut", "msgThroughputOut"),
    ):
        card = _scale(report.get(key), BYTES_PER_S_PER_KBIT)
        unknown_speed = overrides.unknown_nic_gbps if card["limit"] <= 0 else None
        if card["limit"] <= 0 and (overrides.message_throughput_as_bandwidth or unknown_speed is not None):
            card["usage"] = _number(report.get(throughput, -1.0))
        speed = unknown_speed if overrides.nic_speed_gbps is None else overrides.nic_speed_gbps
        if speed is not None:
            card["limit"] = speed * BYTES_PER_S_PER_GBIT
        resources[name] = card
    return resources


def _scale(resource: Mapping[str, float] | None, factor: float) -> dict[str, float]:
    """Usage and limit in our unit; a limit <= 0 and a negative usage stay unknown."""
    if resource is None:
        return {"usage": -1.0, "limit": -1.0}
    usage, limit = _number(resource["usage"]), _number(resource["limit"])
    return {"usage": usage * factor if usage > 0 else usage, "limit": limit * factor if limit > 0 else -1.0}


def _tail(excluded: Mapping[str, float]) -> dict[str, float]:
    """What bundles carry that are not listed."""
    tail: dict[str, float] = dict.fromkeys(BUNDLE_FIELDS, 0)
    return tail | {name: _number(excluded[key]) for key, name in _PULSARS.items() if key in excluded}


def _bundle(name: str, stats: Mapping[str, Any]) -> dict[str, Any]:
    producers, consumers = int(_number(stats.get("producerCount", 0))), int(_number(stats.get("consumerCount", 0)))
    known = {
        "msg_rate_in": _number(stats["msgRateIn"]),
        "msg_rate_out": _number(stats["msgRateOut"]),
        "throughput_in": _number(stats["msgThroughputIn"]),
        "throughput_out": _number(stats["msgThroughputOut"]),
        "topics": int(_number(stats.get("topics", 0))),
        "partitions": int(_number(stats.get("partitions", 0))),
        "producers": producers,
        "consumers": consumers,
        "sessions": producers + consumers,
        "unacked": int(_number(stats.get("unackedMessages", 0))),
        "backlog_bytes": int(_number(stats.get("backlogSize", 0))),
        "storage_bytes": int(_number(stats.get("storageSize", 0))),
        "cache_bytes": int(_number(stats.get("cacheSize", 0))),
    }
    return {"bundle": name, **dict.fromkeys(BUNDLE_FIELDS, 0), **known, "partitioned_topics": []}


def _number(value: Any) -> float:
    """The value as a float. Raises TypeError for anything but a number, also for the text of one."""
    if type(value) is float or type(value) is int:
        return float(value)
    raise TypeError(f"{shown(value)} is no number")
