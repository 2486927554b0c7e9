"""The Prometheus registry of a process and its text form. Metrics are defined next to what they count."""

from __future__ import annotations

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

CONTENT_TYPE = CONTENT_TYPE_LATEST


def new_registry(process: bool = True) -> CollectorRegistry:
    """A registry, with metrics of the process's memory, CPU and files unless `process` is False."""
    registry = CollectorRegistry()
    if process:
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    """All metrics in the text format that Prometheus scrapes."""
    return generate_latest(registry)
