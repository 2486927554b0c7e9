"""The loads in cases about TransferShedder: by broker, or as groups of identical brokers in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.conformance.layout import NOW_MS, moment_ms, number, parse_numbers, stats_of, usages_of
from benchmarks.conformance.reading import first, pass_over
from benchmarks.conformance.values import BadCase
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.extensible import weighted_max
from controller.pulsar.load.load_data import ResourceUsage
from controller.pulsar.shedding.transfer import BrokerLoad
from controller.pulsar.shedding.transfer_pair import TopBundle

_GROUP = re.compile(
    r"(?P<who>broker\d+(?:\.\.broker\d+)?): cpu (?P<cpu>[\d.]+)%"
    r"(?:, (?:throughputOut|out) (?P<out>[\d,.e]+), "
    r"(?:top )?bundles (?P<small>[\d,.e]+)(?:/| and )(?P<large>[\d,.e]+))?"
)
_REPORTED_TOO = (  # fields of BrokerLoadData that the shedder ignores
    *("msgRateIn", "msgRateOut", "bundleCount", "topics", "maxResourceUsage", "reportedAt"),
)
_RANGES = ("0x00000000_0x0FFFFFFF", "0x0FFFFFFF_0xFFFFFFFF")
Tops = dict[str, list[TopBundle]]


def loads_of(
    brokers: Mapping[str, Any], updated_ms: int = NOW_MS, knobs: PulsarKnobs | None = None
) -> tuple[list[BrokerLoad], Tops]:
    """The loads and the top bundles of the brokers, which may be groups in words under `generator`."""
    if "generator" in brokers:
        return _parse_groups(str(brokers["generator"]), updated_ms)
    loads: list[BrokerLoad] = []
    tops: Tops = {}
    for name, row in brokers.items():
        if row is None:  # registered, but has not reported
            continue
        if not isinstance(row, Mapping):
            raise BadCase(f"brokers.{name} is {row!r}: it must be an object")
        pass_over(row, *_REPORTED_TOO)
        traffic = row.get("msgThroughputIn", 0) + row.get("msgThroughputOut", 0)
        moment = moment_ms(row["updatedAt"]) if "updatedAt" in row else updated_ms
        loads.append(BrokerLoad(name, _load(row, knobs), traffic, row.get("msgThroughputEMA", traffic), moment))
        top = row.get("topBundles") or ()
        rows = [(one, stats) for one, stats in top.items()] if isinstance(top, Mapping) else top
        tops[name] = [_top_bundle(one) for one in rows]
    return loads, tops


def _load(row: Mapping[str, Any], knobs: PulsarKnobs | None = None) -> float:
    """The reported average, else the largest usage, else Pulsar's default for a broker that has not reported."""
    usages = usages_of(row)
    if "weightedMaxEMA" in row:
        return float(row["weightedMaxEMA"])
    return weighted_max(usages, knobs or PulsarKnobs()) if usages else 1.0


def _top_bundle(row: Any) -> TopBundle:
    """A top bundle from an object with its name, or from a name and its statistics or bytes/s in + out."""
    if isinstance(row, list | tuple):
        bundle, said = row
        row = {"bundle": bundle, "stats": said if isinstance(said, Mapping) else {"throughput": said}}
    name = first(row, "bundle", "bundleName")
    if name is None:
        raise BadCase(f"a top bundle without a name: {row!r}")
    said = first(row, "stats", default=row)
    stats = stats_of(said)
    both = stats.msg_throughput_in + stats.msg_throughput_out
    return TopBundle(name, first(said, "throughput", "msgThroughput", default=both))


def _parse_groups(text: str, updated_ms: int) -> tuple[list[BrokerLoad], Tops]:
    """Parse groups of identical brokers. `same traffic` means that of the previous group."""
    throughput_in = re.search(r"throughputIn ([\d,.]+) each", text)
    base = number(throughput_in[1]) if throughput_in else 0.0
    loads: list[BrokerLoad] = []
    tops: Tops = {}
    out, sizes = 0.0, (0.0, 0.0)
    for group in _GROUP.finditer(text):
        if group["out"] is not None:
            out, sizes = number(group["out"]), (number(group["small"]), number(group["large"]))
        load = ResourceUsage(float(group["cpu"]), 100.0).percent() / 100
        for at in parse_numbers(group["who"], "broker"):
            name = f"broker{at}:8080"
            loads.append(BrokerLoad(name, load, base + out, base + out, updated_ms))
            pairs = zip(_RANGES, sizes, strict=True)
            tops[name] = [TopBundle(f"my-tenant/my-namespace{at}/{part}", size) for part, size in pairs]
    if not loads:
        raise BadCase(f"no group of brokers found in {text!r}")
    return loads, tops
