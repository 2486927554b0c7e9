"""The endpoints of a process that may be left open: what probes and scrapers ask, which often have no token."""

from __future__ import annotations

HEALTH, METRICS = "health", "metrics"
PATHS = {HEALTH: "/healthz", METRICS: "/metrics"}
OPENABLE = tuple(PATHS)
