"""The Prometheus metrics of a cluster's agent, beside those that every agent has: polls, observations, orders."""

from __future__ import annotations

from collections.abc import Callable, Collection

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.brokers.pulsar.outcomes import Outcome
from controller.brokers.pulsar.poll import Polled
from controller.domain.observed import ORDER_BUCKETS_S, OrderOutcome


class ClusterMetrics:
    """`now_s`: a clock that never goes back. The age of observations counts from the start until the first one."""

    def __init__(self, registry: CollectorRegistry, now_s: Callable[[], float]) -> None:
        r = registry
        self._now_s, self._complete_s = now_s, now_s()
        self._answered: set[str] = set()
        self.listed = Gauge("ballast_agent_listed_brokers", "Brokers that the cluster lists", registry=r)
        self.suspects = Gauge("ballast_agent_suspect_brokers", "Listed brokers that do not answer", registry=r)
        self.polls_failed = Counter(
            "ballast_agent_polls_failed", "Polls of a broker that gave no load", ["outcome"], registry=r
        )
        self.topics_reads = Counter(
            "ballast_agent_topics_reads",
            "Readings of a broker's statistics of topics; without `ok` the loads of its bundles get old",
            ["outcome"],
            registry=r,
        )
        self.observation_age_seconds = Gauge(
            "ballast_agent_observation_age_seconds", "Since all listed brokers told what they own", registry=r
        )
        self.observation_age_seconds.set_function(lambda: self._now_s() - self._complete_s)
        self.orders_open = Gauge("ballast_agent_orders_open", "Orders being carried out", registry=r)
        self.orders_ended = Counter("ballast_agent_orders_ended", "Orders carried out", ["outcome"], registry=r)
        self.order_seconds = Histogram(
            "ballast_agent_order_seconds", "From hearing an order to its outcome", buckets=ORDER_BUCKETS_S, registry=r
        )

    def note_polled(self, polled: Polled) -> None:
        """A broker answered a poll, or did not."""
        if polled.owned is not None:
            self._answered.add(polled.broker)
        if polled.failure is not None:
            self.polls_failed.labels(polled.failure.outcome.value).inc()

    def note_topics_read(self, outcome: Outcome) -> None:
        """A broker's statistics of topics were read, were left out as too large, or could not be had."""
        self.topics_reads.labels(outcome.value).inc()

    def note_poll_ended(self, listed: Collection[str], suspects: Collection[str]) -> None:
        """A poll of all brokers is over. Answers that came after its end count for the next one."""
        self.listed.set(len(listed))
        self.suspects.set(len(suspects))
        if listed and self._answered >= set(listed):
            self._complete_s = self._now_s()
        self._answered.clear()

    def note_order(self, outcome: OrderOutcome, took_ms: int) -> None:
        """An order was carried out."""
        self.orders_ended.labels(outcome.value).inc()
        self.order_seconds.observe(took_ms / 1000)
