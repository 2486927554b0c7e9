"""The tables of docs/metrics.md, from the registries of all processes. `python -m benchmarks.pages.metrics [--write]`

The registries are built here as the processes build them, but nothing is started.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from benchmarks.pages.generated import table, with_parts, write_or_check
from controller.agent.cluster.metrics import ClusterMetrics
from controller.agent.metrics import AgentMetrics
from controller.brokers.pulsar.outcomes import Outcome
from controller.bus.topics import TopicNames
from controller.domain.decision import Reason
from controller.domain.entries import Kind
from controller.domain.observed import OrderOutcome
from controller.domain.ownership import IN_FLIGHT
from controller.domain.state import MODES
from controller.loads.metrics import LoadsMetrics
from controller.process.metrics import MOST_BROKERS, count_refusals, new_registry
from controller.process.paths import ROOT
from controller.pulsar.reasons import SplitReason, UnloadReason
from controller.service.metrics import ControlMetrics
from schemas.catalog import TABLES

PAGE = ROOT / "docs" / "metrics.md"
PARTS = ("every", "job", "agent", "pulsar_agent")
RULES = 100  # ids of the rules that records may break; all of them are in the code

# The most values of a label. A metric's own entry goes before that of the label alone.
VALUES: Mapping[tuple[str, str], int] = {
    ("", "broker"): MOST_BROKERS,
    ("", "rule"): RULES,
    ("", "topic"): len(TopicNames().control),
    ("", "table"): len(TABLES),
    ("", "mode"): len(MODES),
    ("", "reason"): len(Reason),
    ("", "outcome"): len(OrderOutcome),
    ("", "metric"): 1,
    ("", "feature"): 1,
    ("", "stat"): 2,
    ("", "journal"): 2,
    ("", "why"): 3,
    ("", "error"): 3,
    ("", "cause"): 3,
    ("", "stage"): 10,
    ("", "action"): 8,
    ("ballast_control_refused", "reason"): len(Reason) + 30,  # and events that mean nothing any more, by a word
    ("ballast_journal_entries", "kind"): len(Kind),
    ("ballast_agent_answers", "kind"): 10,
    ("ballast_bundles", "state"): len(IN_FLIGHT),
    ("ballast_sessions_ended", "reason"): 3,
    ("ballast_alarms", "reason"): 10,
    ("ballast_moves_judged", "result"): 5,
    ("ballast_round_refused", "outcome"): len(Reason),
    ("ballast_agent_work", "outcome"): 5,
    ("ballast_agent_lookups", "outcome"): 8,
    ("ballast_agent_catch_ups", "outcome"): 2,
    ("ballast_agent_polls_failed", "outcome"): len(Outcome),
    ("ballast_agent_topics_reads", "outcome"): len(Outcome),
    ("pulsar_lb_unload_broker_breakdown", "reason"): len(UnloadReason),
    ("pulsar_lb_unload_broker_breakdown", "result"): 1,
    ("pulsar_lb_bundles_split_breakdown", "reason"): len(SplitReason),
    ("pulsar_lb_bundles_split_breakdown", "result"): 1,
}


@dataclass(frozen=True, slots=True)
class Described:
    """A metric as a registry has it. `buckets`: of a histogram, the infinite one included."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str
    buckets: int = 0

    @property
    def shown_as(self) -> str:
        """The name that a query of its value has; of a histogram the one before `_bucket`, `_sum` and `_count`."""
        return f"{self.name}_total" if self.kind == "counter" else self.name

    @property
    def exposed(self) -> tuple[str, ...]:
        """The names of its series."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count", "created"))
        return (self.shown_as, f"{self.name}_created") if self.kind == "counter" else (self.name,)

    @property
    def series(self) -> int:
        """The most series that one process exposes, `_created` left out. Raises KeyError for a label without bound."""
        values = math.prod(VALUES.get((self.name, label)) or VALUES["", label] for label in self.labels)
        return values * (self.buckets + 2 if self.kind == "histogram" else 1)


def build_registries() -> dict[str, CollectorRegistry]:
    """The registry of each kind of process, by part of the page; `every` has what all of them have."""
    found = {part: CollectorRegistry() for part in PARTS}
    found["every"] = new_registry()
    count_refusals(found["every"])
    ControlMetrics(found["job"])
    LoadsMetrics(found["job"])
    AgentMetrics(found["agent"])
    ClusterMetrics(found["pulsar_agent"], lambda: 0.0)
    return found


def describe(registry: CollectorRegistry) -> Iterator[Described]:
    """The metrics of a registry. The client library has no public names for labels and buckets."""
    for collector in registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            (family,) = collector.describe()
            buckets = len(getattr(collector, "_upper_bounds", ()))
            yield Described(family.name, family.type, tuple(collector._labelnames), family.documentation, buckets)
            continue
        for family in collector.describe() if hasattr(collector, "describe") else collector.collect():
            labels = tuple(getattr(family, "_labelnames", ()))
            yield Described(family.name, family.type, labels, family.documentation)


def render(page: str) -> str:
    """Replace the table of every kind of process. Raises KeyError for an unknown part."""
    return with_parts(page, {part: partial(_table_of, found) for part, found in build_registries().items()})


def _table_of(registry: CollectorRegistry) -> str:
    rows = [
        [f"`{one.shown_as}`", one.kind, ", ".join(f"`{label}`" for label in one.labels), one.meaning, _series_text(one)]
        for one in sorted(describe(registry), key=lambda one: one.shown_as)
    ]
    return table(["metric", "type", "labels", "meaning", "series at most"], rows)


def _series_text(one: Described) -> str:
    return "1" if one.name.startswith(("process_", "python_")) else f"{one.series:,}"


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the page. Returns 1 if it is not up to date."""
    return write_or_check(
        argv,
        PAGE,
        render,
        "The tables of docs/metrics.md.",
        "does not list the metrics that processes expose: run `python -m benchmarks.pages.metrics --write`",
    )


if __name__ == "__main__":
    sys.exit(main())
