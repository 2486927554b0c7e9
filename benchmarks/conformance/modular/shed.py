"""Adapters for the modular manager's shedders: shed, shed-sequence, shed-state."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.conformance.layout import (
    RESOURCES,
    knobs_of,
    local_fields,
    moment_ms,
    moments_ms,
    resource_of,
    rows_of,
    stats_of,
)
from benchmarks.conformance.reading import first
from benchmarks.conformance.values import Adapters, BadCase, Case, Series
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.arrays import LoadArrays, Shedding
from controller.pulsar.load.load_data import LocalBrokerData, NamespaceBundleStats
from controller.pulsar.placement.strategies import AvgPlacement, BrokerLoads, BundleToPlace, Draw
from controller.pulsar.shedding.average import AverageResult, HitCounts, shed_average
from controller.pulsar.shedding.overload import shed_overload
from controller.pulsar.shedding.simple import shed_simple
from controller.pulsar.shedding.threshold import shed_threshold
from controller.pulsar.shedding.uniform import shed_uniform
from controller.pulsar.system_namespaces import is_sla_or_heartbeat, namespace_of_bundle_name

SEED = 20240815
MINUTE_MS = 60_000
Unloads = dict[str, list[str]]


class Cluster:
    """The brokers and bundles of a case, and a shedder with its state between cycles."""

    def __init__(self, case: Case) -> None:
        self.strategy = str(case["strategy"]).rpartition("+")[2]
        self.knobs = knobs_of(case)
        self.rows = {broker: local_fields(row) for broker, row in rows_of(case, "brokers").items()}
        self.local = {broker: LocalBrokerData.from_json(row) for broker, row in self.rows.items()}
        self.bundles = {bundle: _short_term(row) for bundle, row in rows_of(case, "bundles").items()}
        self.recently = set(moments_ms(case.get("recently_unloaded")))
        self.history: dict[str, float] = dict(case.get("history") or {})
        self.mean = 0.0
        self.hits = HitCounts()
        self.average: AverageResult | None = None

    def load(self) -> LoadArrays:
        """The input of a shedder. Candidates are the bundles with data that brokers hold, in the order of the data."""
        held = [
            (at, name)
            for at, data in enumerate(self.local.values())
            for name in self.bundles
            if name in set(data.bundles)
        ]
        names = tuple(name for _, name in held)
        stats = [self.bundles[name] for name in names]
        local = list(self.local.values())
        return LoadArrays(
            brokers=tuple(self.local),
            usage=_floats(data.max_resource_usage_with_weight(self.knobs) for data in local),
            msg_rate=_floats(data.msg_rate_in + data.msg_rate_out for data in local),
            throughput=_floats(data.msg_throughput_in + data.msg_throughput_out for data in local),
            bundle_count=np.array([len(set(data.bundles)) for data in local], np.int64),
            bundles=names,
            holder=np.array([at for at, _ in held], np.int64),
            short_msg_rate=_floats(one.msg_rate_in + one.msg_rate_out for one in stats),
            short_throughput=_floats(one.msg_throughput_in + one.msg_throughput_out for one in stats),
            barred=np.array([name in self.recently or _never_shed(name) for name in names], bool),
        )

    def cycle(self) -> Unloads:
        """Run one shedding cycle: broker -> bundles in the order of selection."""
        load = self.load()
        shedding = self._shed(load)
        return {load.brokers[at]: [load.bundles[row] for row in rows] for at, rows in shedding.rows.items()}

    def destinations(self, unloads: Unloads) -> dict[str, str | None]:
        """Where AvgShedder's own placement puts the unloaded bundles, by source; None unless all go to one broker."""
        if self.average is None:
            return {}
        load = self.load()
        by_name = {broker: at for at, broker in enumerate(load.brokers)}
        placement = AvgPlacement(Draw(SEED))
        for hot, cold in self.average.destination.items():
            for name in unloads[load.brokers[hot]]:
                placement.plan(self._bundle(name), cold)
        zeros = np.zeros(len(load.brokers))
        loads = BrokerLoads(load.brokers, load.usage, load.msg_rate, load.bundle_count, zeros)
        everybody = np.arange(len(by_name))
        result: dict[str, str | None] = {}
        for source, names in unloads.items():
            found = {placement.select(everybody, self._bundle(name), loads).broker for name in names}
            (only,) = found if len(found) == 1 else (None,)
            result[source] = None if only is None else load.brokers[only]
        return result

    def on_active_brokers_change(self, active: Sequence[str]) -> None:
        """Drop the history of brokers that are no longer active."""
        self.history = {broker: value for broker, value in self.history.items() if broker in active}

    def apply(self, step: Mapping[str, Any]) -> None:
        """Set what a step gives: usages by broker or for the first broker, whole brokers, bundles."""
        for name, ours in {**RESOURCES, "usage": "cpu", "usages": "cpu", "usage_percent": "cpu"}.items():
            given = step.get(name, {})
            for broker, value in (given if isinstance(given, Mapping) else {next(iter(self.local)): given}).items():
                changed: dict[str, Any] = {ours: resource_of(value)}
                self.local[broker] = replace(self.local[broker], **changed)
        for broker, row in rows_of(step, "brokers").items():
            self.rows[broker] = {**self.rows.get(broker, {}), **local_fields(row)}
            self.local[broker] = LocalBrokerData.from_json(self.rows[broker])
        for bundle, row in rows_of(step, "bundles").items():
            self.bundles[bundle] = _short_term(row)

    def _bundle(self, name: str) -> BundleToPlace:
        # no two real bundles have the same data: the index stands for the number of samples in Pulsar's own tests
        return BundleToPlace(0.0, (list(self.bundles).index(name), self.bundles[name]))

    def _shed(self, load: LoadArrays) -> Shedding:
        knobs = self.knobs
        if self.strategy == "OverloadShedder":
            return shed_overload(load, knobs)
        if self.strategy == "UniformLoadShedder":
            return shed_uniform(load, knobs)
        if self.strategy in ("SimpleLoadManagerImpl", "simple"):
            highest = _floats(max([0.0, *data.percents().values()]) / 100 for data in self.local.values())
            return shed_simple(load, highest, knobs)
        if self.strategy == "ThresholdShedder":
            before = _floats(self.history.get(broker, np.nan) for broker in load.brokers)
            result = shed_threshold(load, before, knobs)
            self.history.update(zip(load.brokers, result.history.tolist(), strict=True))
            self.mean = result.mean
            return result.shedding
        if self.strategy == "AvgShedder":
            self.average = shed_average(load, self.hits, knobs)
            self.hits = self.average.hits
            return self.average.shedding
        raise BadCase(f"no shedder of the modular manager is called {self.strategy!r}")


def shed(case: Case) -> Mapping[str, Any]:
    """Run one cycle."""
    cluster = Cluster(case)
    results = _results(cluster.cycle())
    history = dict.fromkeys(("history", "history_cache"), cluster.history)
    return {**results, **history, **dict.fromkeys(("avg", "mean", "avgUsage"), cluster.mean)}


def shed_sequence(case: Case) -> Mapping[str, Any]:
    """Run cycles on the same load, twice as many as the hit counters need; report the first one that sheds."""
    if case.get("steps"):
        return shed_steps(case)
    cluster = Cluster(case)
    cycles: list[Unloads] = []
    first, where = 0, {}
    for at in range(1, 2 * _longest(cluster.knobs) + 1):
        cycles.append(cluster.cycle())
        if cycles[-1] and not first:
            first, where = at, cluster.destinations(cycles[-1])
    unloads = cycles[first - 1] if first else {}
    return {
        **{f"cycle{at}": found for at, found in enumerate(cycles, start=1)},
        **_results(unloads),
        "cycle": first or None,
        "cycles_with_no_unload_first": first - 1 if first else len(cycles),
        "total": sum(map(len, unloads.values())),
        "destination": where,
    }


def shed_steps(case: Case) -> Mapping[str, Any]:
    """Run one cycle for each step. A step sets usages, and clears or ages the recent unloads.

    The whole manager keeps unloaded bundles in their grace period, although they stay in the broker's report. A shedder
    alone does not remember them.
    """
    cluster = Cluster(case)
    for step in case["steps"]:  # other brokers appear only as destinations, and nothing moves without two brokers
        if step.get("dest") is not None:
            cluster.local.setdefault(str(step["dest"]), LocalBrokerData())
    managed = str(case["strategy"]).startswith("ModularLoadManagerImpl")
    unloaded_ms = moments_ms(case.get("recently_unloaded"), 0)
    now_ms, steps = 0, []
    histories: list[dict[str, float]] = []
    for step in case["steps"]:
        now_ms = moment_ms(step["now"]) if "now" in step else now_ms + MINUTE_MS
        if step.get("clear_recent"):
            unloaded_ms.clear()
        if "recently_unloaded" in step:
            unloaded_ms = moments_ms(step["recently_unloaded"], now_ms)
        cluster.apply(step)
        grace_ms = cluster.knobs.load_balancer_shedding_grace_period_minutes * MINUTE_MS
        unloaded_ms = {name: at for name, at in unloaded_ms.items() if at >= now_ms - grace_ms}
        cluster.recently = set(unloaded_ms)
        unloads = cluster.cycle() if len(cluster.local) > 1 or not managed else {}
        unloaded_ms |= dict.fromkeys(_names(unloads), now_ms) if managed else {}
        steps.append(unloads)
        histories.append(dict(cluster.history))
    return {
        **dict.fromkeys(("history", "history_cache"), Series(tuple(histories))),
        "history_size": len(cluster.history),
        **{f"cycle{at}": unloads for at, unloads in enumerate(steps, start=1)},
        "total_unload_calls": sum(len(_names(unloads)) for unloads in steps),
        "per_step": steps,
        "steps": [
            {
                "expect": unloads,
                "expect_unload": unloads,
                "expect_unloads": _names(unloads),
                "expect_unloads_count": len(_names(unloads)),
                "expect_history": history,
            }
            for unloads, history in zip(steps, histories, strict=True)
        ],
    }


def shed_state(case: Case) -> Mapping[str, Any]:
    """Steps in words: a cycle, or a change of the active brokers."""
    cluster = Cluster(case)
    for step in case.get("steps") or ():
        active = active_brokers(str(step))
        if active is not None:
            cluster.on_active_brokers_change(active)
        elif re.match(r"(run )?shed", str(step)):
            cluster.cycle()
        else:
            raise BadCase(f"step {step!r} is not understood: write 'run shedding' or 'onActiveBrokersChange({{…}})'")
    return {"history_cache": cluster.history, "history": cluster.history, "history_size": len(cluster.history)}


def active_brokers(step: str) -> list[str] | None:
    """The brokers of a step `onActiveBrokersChange({…})`; None for any other."""
    changed = re.search(r"onActiveBrokersChange\(\{(.*)\}\)", step)
    return None if changed is None else re.findall(r"[^\s,]+", changed[1])


def _results(unloads: Unloads) -> dict[str, Any]:
    """The results of one cycle, under all the names that a case may use."""
    return {
        **dict.fromkeys(("unload", "reference_result"), unloads),
        "unload_count": {broker: len(names) for broker, names in unloads.items()},
        **dict.fromkeys(("unload_count_total", "unload_total"), sum(map(len, unloads.values()))),
        "unload_bundles": _names(unloads),
        "unload_keys": list(unloads),
        "unload_nonempty": bool(unloads),
    }


def _names(unloads: Unloads) -> list[str]:
    return [name for held in unloads.values() for name in held]


def _longest(knobs: PulsarKnobs) -> int:
    low = knobs.load_balancer_avg_shedder_hit_count_low_threshold
    return max(low, knobs.load_balancer_avg_shedder_hit_count_high_threshold, 1)


def _never_shed(name: str) -> bool:
    return is_sla_or_heartbeat(namespace_of_bundle_name(name))


def _short_term(row: Mapping[str, Any]) -> NamespaceBundleStats:
    """A bundle's short-term averages: as msgRateIn, under shortTerm or shortTermData, or as shortTermMsgRateIn."""
    inner = first(row, "shortTerm", "shortTermData", default=row)
    prefixed = {
        ours: float(inner[name])
        for name, ours in _PREFIXED.items()
        if inner.get(name) is not None and _plain(name) not in inner
    }
    return replace(stats_of(inner), **prefixed)  # type: ignore[arg-type]  # all of them are floats


def _plain(name: str) -> str:
    """The name without its prefix: shortTermMsgRateIn becomes msgRateIn."""
    bare = name.removeprefix("shortTerm")
    return bare[0].lower() + bare[1:]


_PREFIXED = {
    "shortTermMsgRateIn": "msg_rate_in",
    "shortTermMsgRateOut": "msg_rate_out",
    "shortTermMsgThroughputIn": "msg_throughput_in",
    "shortTermMsgThroughputOut": "msg_throughput_out",
}


def _floats(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(list(values), np.float64)


ADAPTERS: Adapters = {"shed": shed, "shed-sequence": shed_sequence, "shed-state": shed_state}
