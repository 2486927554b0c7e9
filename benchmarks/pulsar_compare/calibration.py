"""Measures once how much must be sent for brokers to be as busy as the plays want them; all plays then send the same.

It depends on the machine alone: Pulsar's balancer is off, Ballast does not run. A message costs less where there are
many, and less once the JVM has compiled more, so a line through a few rates is only where the search begins.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import psutil

from benchmarks.pulsar_compare.figures import usage_between
from benchmarks.pulsar_compare.load import GUESS, Layout, Volume
from benchmarks.pulsar_compare.play import Stage
from benchmarks.pulsar_compare.plays import BROKERS
from benchmarks.pulsar_compare.watch import Watch
from controller.testbed.pulsar.spec import PulsarFailed
from controller.testbed.pulsar.traffic.rates import heat

EVEN_PCT, HOT_PCT = 45.0, 85.0  # of the quota: of every broker at even load, and of the hot one
STEPS = (0.5, 1.0, 1.5)  # of the guess
SETTLE_S, MEASURE_S = 10.0, 40.0
ROUND_TO_PER_S = 50
TOLERANCE_PCT = 12.0
LEAST_IDLE_PCT = 30.0  # of the machine, when a broker is hot and Ballast does not run
CLOSE_PCT = 5.0  # of what is wanted: no further correction then
MOST_TRIALS = 6


class Step(NamedTuple):
    """What brokers use at an even rate."""

    total_per_s: float
    usage_pct: float


class Trial(NamedTuple):
    """What brokers use when one of them is hot."""

    volume: Volume
    hot_usage_pct: dict[str, float]
    idle_pct: float  # of the machine


def calibrate(stage: Stage, warm_up_s: float) -> dict[str, Any]:
    """Measure on a stage without Ballast; the figures, of which `volume` is what the plays need."""
    watch = Watch(stage.pulsar)
    with watch.running():
        stage.warm_up(warm_up_s)
        watch.begin()
        steps = []
        for step in STEPS:
            total_per_s = step * GUESS.even_per_s
            usage = _measure(stage, watch, stage.layout.even_rates(total_per_s))
            steps.append(Step(total_per_s, sum(usage.values()) / len(usage)))
        tried = _correct_until_close(stage, watch, find_volume(steps, stage.volume.broker_cores))
    best = tried[-1]
    if not is_reached(best.hot_usage_pct, TOLERANCE_PCT):
        raise PulsarFailed(
            f"wanted were {EVEN_PCT:g} % and {HOT_PCT:g} % of the quota, found were {best.hot_usage_pct}: is the"
            " machine busy with other things? Start it again when it is not"
        )
    if best.idle_pct < LEAST_IDLE_PCT:
        raise PulsarFailed(
            f"with a broker hot, the machine is {best.idle_pct:g} % idle, {LEAST_IDLE_PCT:g} % are wanted: clients and "
            "Ballast would take from the brokers. Give brokers less with --broker-cores"
        )
    return {
        "steps": [step._asdict() for step in steps],
        "volume": asdict(best.volume),
        "wanted_pct": {"even": EVEN_PCT, "hot": HOT_PCT},
        "tried": [{**asdict(trial.volume), "hot_usage_pct": trial.hot_usage_pct} for trial in tried],
        "hot_usage_pct": best.hot_usage_pct,
        "idle_pct": best.idle_pct,
    }


def _correct_until_close(stage: Stage, watch: Watch, volume: Volume) -> list[Trial]:
    """Every volume that was tried; the last one is close to what is wanted, if any was."""
    even = _measure(stage, watch, stage.layout.even_rates(volume.even_per_s))
    tried: list[Trial] = []
    while len(tried) < MOST_TRIALS:
        if tried:
            volume = correct(volume, even, tried[-1].hot_usage_pct)
        psutil.cpu_times_percent()  # it tells of the time since it was asked last
        usage = _measure(stage, watch, _hot_rates(stage.layout, volume))
        tried.append(Trial(volume, usage, psutil.cpu_times_percent().idle))
        if is_reached(tried[-1].hot_usage_pct, CLOSE_PCT):
            break
        even = others_of(tried[-1].hot_usage_pct)
    return tried


def find_volume(steps: Sequence[Step], broker_cores: float) -> Volume:
    """The volume from a line through the steps. Raises PulsarFailed where usage does not grow with the rate."""
    slope, base = np.polyfit([s.total_per_s / BROKERS for s in steps], [s.usage_pct for s in steps], 1)
    if slope <= 0 or base >= EVEN_PCT:
        raise PulsarFailed(f"usage does not grow with the rate ({list(steps)}): is the machine busy with other things?")
    return Volume(_rounded(BROKERS * (EVEN_PCT - base) / slope), _rounded((HOT_PCT - EVEN_PCT) / slope), broker_cores)


def correct(volume: Volume, even_pct: Mapping[str, float], hot_pct: Mapping[str, float]) -> Volume:
    """The volume after it was tried. `even_pct`: usage at even load."""
    even, hot = sum(even_pct.values()) / len(even_pct), max(hot_pct.values())
    share = min(2.0, max(0.5, (HOT_PCT - EVEN_PCT) / max(1.0, hot - even)))
    even_per_s, hot_per_s = volume.even_per_s * min(1.5, max(0.7, EVEN_PCT / even)), volume.hot_per_s * share
    return replace(volume, even_per_s=_rounded(even_per_s), hot_per_s=_rounded(hot_per_s))


def others_of(usage_pct: Mapping[str, float]) -> dict[str, float]:
    """Without the hot broker."""
    hot = max(usage_pct, key=lambda name: usage_pct[name])
    return {name: usage for name, usage in usage_pct.items() if name != hot}


def is_reached(usage_pct: Mapping[str, float], tolerance_pct: float) -> bool:
    """Whether the hot broker and the others, on average, are as busy as the plays want them."""
    others = others_of(usage_pct).values()
    off = (max(usage_pct.values()) - HOT_PCT, sum(others) / len(others) - EVEN_PCT)
    return max(map(abs, off)) <= tolerance_pct


def _measure(stage: Stage, watch: Watch, rates: Mapping[str, float]) -> dict[str, float]:
    """Usage by broker at these rates, once it has settled."""
    stage.traffic.set_rates(rates)
    time.sleep(SETTLE_S)
    from_s = watch.now_s
    time.sleep(MEASURE_S)
    usage = usage_between(watch.cpu, from_s, watch.now_s)
    stage.tell(f"{sum(rates.values()):.0f} messages/s: {usage} % of the quota")
    return usage


def _hot_rates(layout: Layout, volume: Volume) -> dict[str, float]:
    hot = {topic: bundle for topic, bundle in layout.bundle_of.items() if layout.start[bundle] == 0}
    return heat(layout.even_rates(volume.even_per_s), hot, volume.hot_per_s)


def _rounded(rate_per_s: float) -> float:
    return float(max(ROUND_TO_PER_S, round(rate_per_s / ROUND_TO_PER_S) * ROUND_TO_PER_S))
