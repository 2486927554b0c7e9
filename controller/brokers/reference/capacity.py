"""Enforces the broker's configured capacity: requests and deliveries are served no faster than it allows.

CPU is modelled: each message and each KiB costs CPU time, which one server works off at `cpu_pct` percent of one core.
Bandwidth in each direction and the message rate are limited likewise. Work that cannot be served yet waits in a queue
per direction, fair between topics; when both directions wait, they share the CPU equally (start-time fair queueing,
Goyal et al. 1996). Beyond capacity, queueing time grows and throughput stays at the limit.
Invariants: order within a topic and direction is kept; work whose client is gone (`alive` is False) costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from controller.brokers.reference.fair_queue import FairQueue, Job
from controller.brokers.reference.wire import MAX_BATCH_MESSAGES


@dataclass(frozen=True, slots=True)
class Capacity:
    """Limits of one reference broker. 0 or less means unlimited, and is reported as unknown."""

    cpu_pct: float = 200.0  # of one core
    bandwidth_in_bytes_per_s: float = 125e6
    bandwidth_out_bytes_per_s: float = 125e6
    msg_per_s: float = 0.0  # both directions together
    memory_bytes: float = 512 << 20
    disk_bytes_per_s: float = 200e6
    cpu_us_per_message: float = 100.0
    cpu_us_per_kib: float = 10.0
    burst_ms: float = 20.0  # how far serving may run ahead of the rate


class Timer(Protocol):
    """What `loop.call_at` returns."""

    def cancel(self) -> None:
        """Cancel the call."""


@dataclass(slots=True)
class Lane:
    """One direction: its queue, its byte clock, and the work served since the last sample."""

    rate_bytes_per_s: float
    jobs: FairQueue = field(default_factory=FairQueue)
    free_at_s: float = 0.0
    queued_bytes: int = 0
    served_bytes: int = 0
    virtual_s: float = 0.0  # virtual clock of the work served, which an idle lane does not fall behind


@dataclass(frozen=True, slots=True)
class Served:
    """The work served since the previous sample."""

    cpu_s: float
    messages: float
    bytes_in: int
    bytes_out: int
    mean_queue_ms: float
    queued_bytes: int


class Throttle:
    """Serves work at the configured capacity. `now_s` and `call_at` are the event loop's."""

    def __init__(
        self,
        capacity: Capacity,
        now_s: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self.capacity = capacity
        self.turn_messages = _turn_messages(capacity)
        self._now_s = now_s
        self._call_at = call_at
        self._inward = Lane(capacity.bandwidth_in_bytes_per_s)
        self._outward = Lane(capacity.bandwidth_out_bytes_per_s)
        self._cpu_free_at_s = 0.0
        self._messages_free_at_s = 0.0
        self._cpu_s = 0.0
        self._messages = 0.0
        self._waits = 0
        self._waited_s = 0.0
        self._served_from_s = 0.0  # a lane's virtual clock when what is being served began
        self._timer: Timer | None = None
        self._draining = False

    def inward(
        self, topic: str, messages: float, size: int, alive: Callable[[], bool], run: Callable[[], None]
    ) -> None:
        """Serve a request: call `run` now or when its turn comes, unless `alive` is False by then."""
        self._submit(self._inward, Job(topic, self._now_s(), messages, size, alive, run))

    def outward(
        self, topic: str, messages: float, size: int, alive: Callable[[], bool], run: Callable[[], None]
    ) -> None:
        """Serve a delivery, as `inward`."""
        self._submit(self._outward, Job(topic, self._now_s(), messages, size, alive, run))

    def charge(self, messages: float) -> None:
        """Account for work too small to queue, such as an acknowledgement; it delays the work after it."""
        self._account(self._inward, self._now_s(), messages, 0)

    def sample(self) -> Served:
        """The work served since the previous call; queued work contributes its waiting time so far."""
        now = self._now_s()
        waiting = [now - job.arrived_s for lane in (self._inward, self._outward) for job in lane.jobs]
        waits, waited = self._waits + len(waiting), self._waited_s + sum(waiting)
        served = Served(
            self._cpu_s,
            self._messages,
            self._inward.served_bytes,
            self._outward.served_bytes,
            1000.0 * waited / waits if waits else 0.0,
            self._inward.queued_bytes + self._outward.queued_bytes,
        )
        self._cpu_s = self._messages = self._waited_s = 0.0
        self._waits = self._inward.served_bytes = self._outward.served_bytes = 0
        return served

    def close(self) -> None:
        """Discard all queued work."""
        self._inward.jobs.clear()
        self._outward.jobs.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _submit(self, lane: Lane, job: Job) -> None:
        if not lane.jobs:
            lane.virtual_s = max(lane.virtual_s, self._served_from_s)
        lane.jobs.add(job)
        lane.queued_bytes += job.bytes
        if not self._draining:
            self._drain()

    def _drain(self) -> None:
        """Serve what may be served now, the lane with less served work first; set a timer for the rest."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._draining = True  # a job may submit more; it must not overtake
        try:
            while busy := self._busy():
                starts = {id(lane): self._earliest_s(lane) for lane in busy}
                now = self._now_s()
                ready = [lane for lane in busy if starts[id(lane)] <= now]
                if not ready:
                    self._timer = self._call_at(min(starts.values()), self._drain)
                    return
                self._serve_first(min(ready, key=lambda lane: lane.virtual_s), now)
        finally:
            self._draining = False

    def _busy(self) -> list[Lane]:
        return [lane for lane in (self._inward, self._outward) if lane.jobs]

    def _earliest_s(self, lane: Lane) -> float:
        """When the lane's first job may be served; at once when its client is gone."""
        if not lane.jobs.first().alive():
            return 0.0
        due_s = max(self._cpu_free_at_s, self._messages_free_at_s, lane.free_at_s)
        return due_s - self.capacity.burst_ms / 1000.0

    def _serve_first(self, lane: Lane, now: float) -> None:
        job = lane.jobs.first()
        alive = job.alive()
        if alive:
            self._served_from_s = lane.virtual_s
            self._account(lane, now, job.messages, job.bytes)
            self._waits += 1
            self._waited_s += now - job.arrived_s
        lane.jobs.drop_first()
        lane.queued_bytes -= job.bytes
        if alive:
            job.run()

    def _account(self, lane: Lane, now: float, messages: float, size: int) -> None:
        limits = self.capacity
        work_s = (messages * limits.cpu_us_per_message + size / 1024.0 * limits.cpu_us_per_kib) / 1e6
        self._cpu_s += work_s
        lane.virtual_s += work_s
        self._messages += messages
        lane.served_bytes += size
        if limits.cpu_pct > 0:
            self._cpu_free_at_s = max(now, self._cpu_free_at_s) + work_s * 100.0 / limits.cpu_pct
        if limits.msg_per_s > 0:
            self._messages_free_at_s = max(now, self._messages_free_at_s) + messages / limits.msg_per_s
        if lane.rate_bytes_per_s > 0:
            lane.free_at_s = max(now, lane.free_at_s) + size / lane.rate_bytes_per_s


def _turn_messages(limits: Capacity) -> int:
    """How many empty messages are served within one burst: larger deliveries would make others wait."""
    if limits.cpu_pct <= 0 or limits.cpu_us_per_message <= 0:
        return MAX_BATCH_MESSAGES
    worth = limits.burst_ms * 1000.0 * limits.cpu_pct / 100.0 / limits.cpu_us_per_message
    return max(1, min(MAX_BATCH_MESSAGES, int(worth)))
