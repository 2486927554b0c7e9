"""Prometheus metrics of a process: the registry and its text form. Names of metrics live with what they count."""

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
    """A registry, with the process's own memory, CPU and file figures unless `process` is False."""
    registry = CollectorRegistry()
    if process:
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    """All metrics as the text that Prometheus scrapes."""
    return generate_latest(registry)
