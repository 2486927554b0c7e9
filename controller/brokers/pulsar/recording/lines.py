"""What a poll of a broker looks like as a line of a recording (`controller.loads.recorded` reads it)."""

from __future__ import annotations

from typing import Any

from controller.brokers.pulsar.numbers import UNKNOWN
from controller.brokers.pulsar.policies import Policies
from controller.brokers.pulsar.poll import Polled


def line_of(polled: Polled) -> dict[str, Any]:
    """`ts`, `broker` and `report`; or `gap`, the outcome, in place of the report."""
    line: dict[str, Any] = {"ts": polled.at_ms / 1000, "broker": polled.broker}
    if polled.failure is not None or polled.reported is None:
        failure = polled.failure
        return {**line, "gap": failure.outcome.value if failure else "", "detail": str(failure or "")[:500]}
    line |= {"took_ms": polled.took_ms, "manager": polled.manager.value if polled.manager else None}
    line |= {"report": polled.reported.report, "process_cpu": polled.cpu or UNKNOWN}
    if any(polled.reported.excluded.values()):
        line["excluded"] = polled.reported.excluded
    return line


def policies_line(at_ms: int, policies: Policies) -> dict[str, Any]:
    """The cluster's rules of placement as a line."""
    return {"ts": at_ms / 1000, "policies": policies}
