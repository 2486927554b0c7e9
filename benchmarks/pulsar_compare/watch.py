"""What happens during a play, seen from outside and in the same way for every balancer.

CPU is read from the brokers' cgroups, owners from their `ownedNamespaces`, and what brokers report from Pulsar. Threads
read until `stop`; a broker that does not answer leaves a gap.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from benchmarks.pulsar_compare.load import NAMESPACE
from benchmarks.pulsar_compare.reported import ReportedCpu, make_reported_cpu
from benchmarks.pulsar_compare.samples import CpuSample, Owners, Reported
from controller.testbed.pulsar.cluster import PulsarCluster

CPU_EVERY_S, OWNERS_EVERY_S, REPORTED_EVERY_S = 5.0, 2.0, 30.0
FRESH_S = 120.0  # a broker starts without a quota, and Pulsar reads quota and usage once a minute


class Watch:
    """Times are seconds since `begin`; what was seen before has negative ones."""

    def __init__(self, cluster: PulsarCluster) -> None:
        self.cluster = cluster
        self.cpu: list[CpuSample] = []
        self.owners: list[Owners] = []
        self.reported: list[Reported] = []
        self.failures: list[str] = []
        self._zero = time.monotonic()
        self._quota_cores = cluster.spec.broker_cores or 1.0
        self._serving = dict.fromkeys(cluster.spec.broker_names, -math.inf)  # and since when
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    @contextmanager
    def running(self) -> Iterator[Watch]:
        """Read in the background until the block ends."""
        with make_reported_cpu(self.cluster) as reported:
            for look, every_s in (
                (self._cpu_reader(), CPU_EVERY_S),
                (self._read_owners, OWNERS_EVERY_S),
                (lambda: self._read_reported(reported), REPORTED_EVERY_S),
            ):
                thread = threading.Thread(target=self._repeat, args=(look, every_s), daemon=True)
                self._threads.append(thread)
                thread.start()
            try:
                yield self
            finally:
                self._stop.set()
                for thread in self._threads:
                    thread.join(10)

    def begin(self) -> None:
        """The time is 0 now; what was seen before is forgotten."""
        self._zero = time.monotonic()
        self.cpu.clear()
        self.owners.clear()
        self.reported.clear()

    @property
    def now_s(self) -> float:
        """Seconds since the begin."""
        return time.monotonic() - self._zero

    def leave_out(self, name: str) -> None:
        """The broker does not serve from now on."""
        self._serving.pop(name, None)

    def take_in(self, name: str) -> None:
        """The broker serves again."""
        self._serving[name] = self.now_s

    # ------------------------------------------------------------ inside

    def _repeat(self, look: Callable[[], None], every_s: float) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                look()
            except Exception as error:  # a play is not lost for a look
                self.failures.append(f"at {self.now_s:.0f} s: {error!r}")
            due = max(due + every_s, time.monotonic())
            self._stop.wait(due - time.monotonic())

    def _cpu_reader(self) -> Callable[[], None]:
        """Usage since the last look, of those brokers that served all the time."""
        last: dict[str, tuple[float, float]] = {}

        def look() -> None:
            nonlocal last
            now: dict[str, tuple[float, float]] = {}
            for name in sorted(self._serving):
                group = self.cluster.servers.cpu_group(name)
                if group is not None:
                    with contextlib.suppress(OSError):
                        now[name] = (time.monotonic(), group.used_s())
            usage = {
                name: round(100 * (used - last[name][1]) / (at - last[name][0]) / self._quota_cores, 2)
                for name, (at, used) in now.items()
                if name in last
            }
            last = now
            if usage:
                self.cpu.append(CpuSample(round(self.now_s, 2), usage))

        return look

    def _read_owners(self) -> None:
        at_s = self.now_s
        found = {}
        for name in self.cluster.servers.running():
            if name not in self.cluster.spec.broker_names:
                continue
            owned = self.cluster.admin.owned_bundles(name)
            if owned is not None:
                found[name] = [bundle for bundle in owned if bundle.startswith(f"{NAMESPACE}/")]
        self.owners.append(Owners(round(at_s, 2), found))

    def _read_reported(self, reported: ReportedCpu) -> None:
        with contextlib.suppress(httpx.HTTPError):
            at_s = self.now_s
            found = reported.read([name for name, since_s in self._serving.items() if at_s - since_s >= FRESH_S])
            if found:
                self.reported.append(Reported(round(self.now_s, 2), found))
