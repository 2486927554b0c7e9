"""Resource usage of the host or container that a broker runs on, from psutil and cgroup v2.

For brokers that stand for a whole machine; otherwise the reference broker reports its own modelled capacity. Rates are
per second since the previous sample and 0 in the first one. A limit of -1 means unknown.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")
NET_CLASS = Path("/sys/class/net")
GBIT_BYTES = 1e9 / 8
MBIT_BYTES = 1e6 / 8


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals so far: CPU seconds, bytes received, bytes sent, bytes read plus written."""

    at_s: float
    cpu_s: float
    received: int
    sent: int
    disk: int


def cpu_limit_pct(cores: int, cpu_max: str | None) -> float:
    """The CPU limit in percent of one core; `cpu_max` is cgroup's `quota period` in µs, or `max …`."""
    if cpu_max:
        quota, _, period = cpu_max.strip().partition(" ")
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            return min(100.0 * cores, 100.0 * int(quota) / int(period))
    return 100.0 * cores


def nic_limit_bytes_per_s(speeds_mbit: list[int], override_gbps: float | None) -> float:
    """The summed speed of the network cards, -1 when unknown. The override is the speed of each card, as in Pulsar."""
    if override_gbps is not None:
        return override_gbps * GBIT_BYTES * max(len(speeds_mbit), 1)
    return sum(speeds_mbit) * MBIT_BYTES if speeds_mbit and all(s > 0 for s in speeds_mbit) else -1.0


class HostLoad:
    """Samples this host. A sample reads a few files (about 1 ms), so keep it off the event loop."""

    def __init__(self, override_nic_gbps: float | None = None, cgroup: Path = CGROUP) -> None:
        self._override = override_nic_gbps
        self._cgroup = cgroup
        self._last = self._counters()

    def sample(self) -> dict[str, tuple[float, float]]:
        """(usage, limit) of cpu, memory, bandwidth_in, bandwidth_out and disk_io."""
        before, now = self._last, self._counters()
        self._last = now
        span = max(now.at_s - before.at_s, 1e-3)
        nic = nic_limit_bytes_per_s([speed for _, speed in self._cards()], self._override)
        cores = psutil.cpu_count() or 1
        return {
            "cpu": (100.0 * (now.cpu_s - before.cpu_s) / span, cpu_limit_pct(cores, self._read("cpu.max"))),
            "memory": self._memory(),
            "bandwidth_in": ((now.received - before.received) / span, nic),
            "bandwidth_out": ((now.sent - before.sent) / span, nic),
            "disk_io": ((now.disk - before.disk) / span, -1.0),
        }

    def _counters(self) -> Counters:
        network = psutil.net_io_counters(pernic=True)
        cards = [network[name] for name, _ in self._cards() if name in network]
        disk = psutil.disk_io_counters()
        return Counters(
            time.monotonic(),
            self._cpu_s(),
            sum(c.bytes_recv for c in cards),
            sum(c.bytes_sent for c in cards),
            disk.read_bytes + disk.write_bytes if disk else 0,
        )

    def _cards(self) -> list[tuple[str, int]]:
        """The cards that are up, with Mbit/s (0: unknown); virtual cards only when there is no physical one."""
        up = {n: s.speed for n, s in psutil.net_if_stats().items() if s.isup and n != "lo"}
        physical = {n: speed for n, speed in up.items() if (NET_CLASS / n / "device").exists()}
        return sorted((physical or up).items())

    def _cpu_s(self) -> float:
        """CPU seconds used by this container, or by the host where no CPU limit is set."""
        limited = (self._read("cpu.max") or "max").split()[0] != "max"
        stat = dict(line.split() for line in (self._read("cpu.stat") or "").splitlines() if len(line.split()) == 2)
        if limited and "usage_usec" in stat:
            return int(stat["usage_usec"]) / 1e6
        times = psutil.cpu_times()
        return float(times.user + times.system + getattr(times, "nice", 0.0) + getattr(times, "irq", 0.0))

    def _memory(self) -> tuple[float, float]:
        limit, used = self._read("memory.max"), self._read("memory.current")
        if limit and used and limit.strip().isdigit():
            return float(used), float(limit)
        memory = psutil.virtual_memory()
        return float(memory.total - memory.available), float(memory.total)

    def _read(self, name: str) -> str | None:
        try:
            return (self._cgroup / name).read_text()
        except OSError:
            return None
