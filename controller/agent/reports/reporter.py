"""Sends a load report every interval and proposes splits of bundles that stay too big.

Figures that no controller takes are left out, with one warning for each. A report that cannot be sent is counted and
dropped, because the next one is newer. Sequence numbers grow with every report of the process, sent or not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from controller.agent.connections import Sender
from controller.agent.metrics import AgentMetrics
from controller.agent.reports.figures import keep_reportable
from controller.agent.reports.report import build_report, with_bandwidth
from controller.agent.reports.split_boundary import weigh_halves
from controller.agent.reports.split_proposals import Proposal, SplitWatch
from controller.brokers.runtime import BrokerRuntime, LoadSample
from controller.domain.ids import Bundle, Session

log = logging.getLogger(__name__)

SOON_MS = 1_000


class Host(Protocol):
    """Figures of the host that a broker runs on (`HostLoad`)."""

    def sample(self) -> dict[str, tuple[float, float]]:
        """(usage, limit) by resource."""


class Reporter:
    """Reports of one agent. `host` is given where the broker stands for the whole machine; its figures then count."""

    def __init__(
        self,
        runtime: BrokerRuntime,
        sender: Sender,
        topic: str,
        *,
        top_k: int,
        wall_ms: Callable[[], int],
        metrics: AgentMetrics,
        host: Host | None = None,
        throughput_as_bandwidth: bool = False,
        nic_bytes_per_s: float | None = None,
        splits: SplitWatch | None = None,
        propose: Callable[[Proposal], None] = lambda proposal: None,
    ) -> None:
        """`nic_bytes_per_s` overrides the limit of both bandwidths; `propose` is called with splits to propose."""
        self._runtime = runtime
        self._sender = sender
        self._topic = topic
        self._top_k = top_k
        self._wall_ms = wall_ms
        self._metrics = metrics
        self._host = host
        self._throughput_as_bandwidth = throughput_as_bandwidth
        self._nic = nic_bytes_per_s
        self._splits = splits
        self._propose = propose
        self._sequence = 0
        self._newest: LoadSample | None = None
        self._warned: set[str] = set()  # names of figures that could not be reported

    async def run(self, interval_ms: int, session: Callable[[], Session | None], soon: asyncio.Event) -> None:
        """Report every interval, and one second after `soon` was set because a bundle was taken or given away, so that
        the new load of both brokers is known early. `session`: whose reports they are; None: send none."""
        while True:
            current = session()
            if current is not None:
                try:
                    await self.report(current)
                except Exception:
                    log.exception("a load report failed")
                    self._metrics.reports_failed.inc()
            soon.clear()
            try:
                await asyncio.wait_for(soon.wait(), interval_ms / 1000)
                await asyncio.sleep(min(SOON_MS, interval_ms) / 1000)
            except asyncio.TimeoutError:
                continue

    async def report(self, session: Session) -> None:
        """Sample the runtime, send the report, look for bundles to split."""
        host: Mapping[str, tuple[float, float]] = {}
        if self._host is not None:
            host = await asyncio.get_running_loop().run_in_executor(None, self._host.sample)
        sample = self._newest = self._take_sample()
        resources = with_bandwidth({**sample.resources, **host}, sample, self._throughput_as_bandwidth, self._nic)
        self._sequence += 1
        record = build_report(session, self._sequence, self._wall_ms(), sample, resources, self._top_k)
        loop = asyncio.get_running_loop()
        sent = self._sender.send(self._topic, record, key=session.broker)
        sent.add_done_callback(
            lambda done: None if loop.is_closed() else loop.call_soon_threadsafe(self._on_sent, done.exception())
        )
        for proposal in self._splits.observe(sample.bundles, self._topic_loads()) if self._splits else ():
            self._metrics.split_proposals.inc()
            self._propose(proposal)

    def _take_sample(self) -> LoadSample:
        """What can be reported of the runtime's sample; the first time that a figure cannot, the log says so."""
        sample, troubles = keep_reportable(self._runtime.sample())
        for name, trouble in troubles.items():
            if name not in self._warned:
                log.warning("left out of the load reports: %s", trouble)
        self._warned |= troubles.keys()
        return sample

    def halves(self, bundle: Bundle, boundary: int) -> dict[str, float]:
        """The load below and above a split boundary, messages/s in and out, for `split_done`."""
        stats = self._newest.bundles.get(bundle) if self._newest else None
        total = stats.msg_rate_in + stats.msg_rate_out if stats else 0.0
        loads = self._topic_loads()
        return weigh_halves(bundle, boundary, total, loads(bundle) if loads else None)

    def _topic_loads(self) -> Callable[[Bundle], Mapping[str, float]] | None:
        found = getattr(self._runtime, "topic_loads", None)
        return found if callable(found) else None

    def _on_sent(self, error: BaseException | None) -> None:
        (self._metrics.reports if error is None else self._metrics.reports_failed).inc()
