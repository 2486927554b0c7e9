"""The Prometheus registry of a process and its text form. Metrics are defined next to what they count."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST
MOST_BROKERS = 1_000  # series of one `BrokerGauge`


class BrokerGauge(Collector):
    """A gauge with one series for each broker, all replaced at once: a broker that is gone is shown no longer.

    Of more than MOST_BROKERS brokers those with the largest values are shown. Any thread may call `show`.
    """

    def __init__(self, name: str, documentation: str, registry: CollectorRegistry) -> None:
        self._name, self._documentation = name, documentation
        self._values: Mapping[str, float] = {}
        registry.register(self)

    def show(self, values: Mapping[str, float]) -> None:
        """Show these values by broker from now on, and no others. The mapping must not change afterwards."""
        if len(values) > MOST_BROKERS:
            values = dict(heapq.nlargest(MOST_BROKERS, values.items(), key=lambda item: item[1]))
        self._values = values

    def describe(self) -> list[GaugeMetricFamily]:
        """The metric without series, as the registry wants it for names."""
        return [GaugeMetricFamily(self._name, self._documentation, labels=["broker"])]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The series of one scrape."""
        (family,) = self.describe()
        values = self._values
        for broker in sorted(values):
            family.add_metric([broker], values[broker])
        yield family


def new_registry(process: bool = True) -> CollectorRegistry:
    """A registry, with metrics of the process's memory, CPU and files unless `process` is False."""
    registry = CollectorRegistry()
    if process:
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
    return registry


def count_refusals(registry: CollectorRegistry) -> Callable[[str], None]:
    """A counter of the requests that a server's guard refuses; the result is called with the error of each."""
    refused = Counter("ballast_http_refused", "HTTP requests without what they must show", ["error"], registry=registry)
    return lambda error: refused.labels(error).inc()


def exposition(registry: CollectorRegistry) -> bytes:
    """All metrics in the text format that Prometheus scrapes."""
    return generate_latest(registry)
