"""What it costs the agent of a Pulsar cluster to observe 300 brokers with 300 bundles each.

A stand-in in a process of its own answers as recorded brokers did, 5 ms after each request. A fresh process polls it
with the code of the agent and counts its own CPU time (user and system, its worker's included), which a busy machine
changes less than wall time. Polls of owners and loads come first; then polls with statistics of topics, 20 topics a
bundle: the first reads them all, as happens once in Pulsar's statistics period of 60 s, the others only carry them.
The worker that parses them is started before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measure.figures import percentile
from benchmarks.measure.pulsar import stand_in
from benchmarks.measure.result import NotMeasured, Result, Target
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.poll import ClusterPoll, Polled
from controller.brokers.pulsar.topics import TopicReader
from controller.config.sections.pulsar_cluster import PulsarCluster
from controller.domain.ids import Session
from controller.loads.recorded import Overrides, Recorded, to_load_report
from controller.process.paths import ROOT

SIZE, QUICK_SIZE = (300, 300, 20), (20, 50, 20)  # brokers, bundles of each, topics of a bundle
POLLS, TOPIC_POLLS = 3, 3
STATS_PERIOD_S, POLL_S = 60.0, 5.0
MIB = 1024 * 1024
TIMEOUT_S = 500.0


def run(folder: Path, quick: bool) -> Result:
    """Start the stand-in, and measure in a fresh process."""
    brokers, bundles, topics = QUICK_SIZE if quick else SIZE
    program, size = [sys.executable, "-m"], [f"--brokers={brokers}", f"--bundles={bundles}", f"--topics={topics}"]
    with _serving([*program, stand_in.__name__, *size]) as url:
        done = subprocess.run(
            [*program, __name__, url], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False
        )
    if done.returncode:
        raise NotMeasured(f"the polling process ended with exit code {done.returncode}")
    found = json.loads(done.stdout)
    broken = found.pop("broken")
    wrong = [f"{name}: {found[name]} instead of {want}" for name, want in (
        ("brokers", brokers), ("bundles", brokers * bundles), ("topics", brokers * bundles * topics)
    ) if found[name] != want]  # fmt: skip
    targets = [
        Target("poll.cpu_s.max", 5, "s"),
        Target("poll.wall_s.max", 5, "s"),
        Target("statistics_of_topics.cpu_pct_of_a_core", 25, "%"),
        Target("resident_mib", 600, "MiB"),
    ]
    figures = {
        **found,
        "latency_ms": 1000 * stand_in.LATENCY_S,
        "stats_period_s": STATS_PERIOD_S,
        "poll_every_s": POLL_S,
    }
    return Result("pulsar_poll", figures, targets, broken + wrong)


@contextmanager
def _serving(command: list[str]) -> Iterator[str]:
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            if not url:
                raise NotMeasured("the stand-in did not start")
            yield url
        finally:
            server.stdin.close()
            server.wait(30)


class Meter:
    """Costs of this process and its workers, step by step."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.cpu_s, self.wall_s = list[float](), list[float]()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Count what happens meanwhile."""
        cpu_s, began = self._cpu_s(), time.monotonic()
        yield
        self.wall_s.append(time.monotonic() - began)
        self.cpu_s.append(self._cpu_s() - cpu_s)

    def summary(self) -> dict[str, dict[str, float]]:
        """Median and worst step."""
        each = {"cpu_s": self.cpu_s, "wall_s": self.wall_s}
        return {
            name: {"p50": round(percentile(found, 50), 2), "max": round(max(found), 2)} for name, found in each.items()
        }

    def _cpu_s(self) -> float:
        everybody = [self._process, *self._process.children(recursive=True)]
        return sum(found.user + found.system for found in (process.cpu_times() for process in everybody))

    def peak_mib(self) -> float:
        """The peak of this process and the peaks of its workers: at least what they had at once."""
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return own + sum(_peak_mib(child.pid) for child in self._process.children(recursive=True))


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024


async def measure(url: str) -> dict[str, Any]:
    """All figures of one cluster."""
    async with PulsarAdmin(PulsarCluster(service_urls=(url,))) as admin, TopicReader(admin) as topics:
        poll = ClusterPoll(admin, topics)
        await poll.start()
        plain, plain_polled = await _poll(poll, POLLS + 1)
        without_topics_mib = plain.peak_mib()
        plain.cpu_s, plain.wall_s = plain.cpu_s[1:], plain.wall_s[1:]  # the first one connects
        await topics.read(next(iter(poll.members.addresses.values())))  # starts the worker, which then stays
        poll.with_topics = True
        reading, polled = await _poll(poll, TOPIC_POLLS)
        conversion = _convert(polled)
        resident = reading.peak_mib()
        await poll.stop()
    plain_s = percentile(plain.cpu_s, 50)
    read_s, carried_s = reading.cpu_s[0] - plain_s, max(0.0, percentile(reading.cpu_s[1:], 50) - plain_s)
    a_period_s = read_s + carried_s * (STATS_PERIOD_S / POLL_S - 1)
    stats = [row for p in polled if p.reported for row in p.reported.report["lastStats"].values()]
    failures = [str(p.failure or p.topics_failure) for p in (*plain_polled, *polled) if p.failure or p.topics_failure]
    return {
        "brokers": len(polled),
        "bundles": len(stats),
        "topics": int(sum(row["partitions"] for row in stats if "partitions" in row)),
        "split_boundaries": sum("splitBoundary" in row for row in stats),
        "poll": plain.summary(),
        "reports_v1": {"cpu_s": round(conversion, 2)},
        "statistics_of_topics": {
            "read_cpu_s": round(read_s, 2),
            "read_wall_s": round(reading.wall_s[0], 2),
            "carried_cpu_s_a_poll": round(carried_s, 2),
            "cpu_pct_of_a_core": round(100 * a_period_s / STATS_PERIOD_S, 1),
        },
        "resident_mib": round(resident, 1),
        "resident_mib_without_topics": round(without_topics_mib, 1),
        "broken": failures[:5],
    }


async def _poll(poll: ClusterPoll, times: int) -> tuple[Meter, list[Polled]]:
    """Costs of each poll, and what the last one found."""
    meter, found = Meter(), list[Polled]()
    for _ in range(times):
        found = []
        with meter.step():
            await poll.poll(TIMEOUT_S, found.append)
    return meter, found


def _convert(polled: list[Polled]) -> float:
    """CPU seconds to turn what a poll found into the load reports that the agent sends."""
    began = time.process_time()
    for at, p in enumerate(polled):
        if p.reported is not None:
            line = Recorded(p.at_ms, "", p.broker, p.reported.report, p.cpu, p.reported.excluded)
            to_load_report(line, Session(p.broker, 1, "bench", 1), at, Overrides())
    return time.process_time() - began


def main() -> None:
    """Poll the cluster at an address, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    print(json.dumps(asyncio.run(measure(parser.parse_args().url))))


if __name__ == "__main__":
    main()
