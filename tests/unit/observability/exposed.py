"""What Prometheus has of Ballast: the series of all processes, with their labels, and those that it makes itself."""

from __future__ import annotations

from functools import cache

from benchmarks.pages.metrics import build_registries, describe
from controller.process.paths import CONF
from tests.unit.observability.promql import names_in

FOLDER = CONF / "observability"
OF_TARGETS = frozenset({"job", "instance", "cluster", "pod"})  # given by scrape jobs
OF_PROMETHEUS = {"up": frozenset[str](), "ALERTS": frozenset({"alertname", "alertstate", "severity"})}


@cache
def series() -> dict[str, frozenset[str]]:
    """Name of a series -> its labels, without those of its target."""
    found = dict(OF_PROMETHEUS)
    for registry in build_registries().values():
        for one in describe(registry):
            for name in one.exposed:
                found[name] = frozenset(one.labels) | ({"le"} if name.endswith("_bucket") else set())
    return found


@cache
def names_of(part: str) -> frozenset[str]:
    """Names of the series that one kind of process exposes, by part of the page of metrics."""
    return frozenset(name for one in describe(build_registries()[part]) for name in one.exposed)


def faults(expression: str) -> list[str]:
    """What an expression names that does not exist."""
    names, known = names_in(expression), series()
    missing = [f"no metric {name}" for name in names.metrics if name not in known]
    present = {name: known[name] | OF_TARGETS for name in names.metrics if name in known}
    missing += [f"{name} has no label {label}" for name in present for label in names.metrics[name] - present[name]]
    all_labels = OF_TARGETS.union(*present.values())
    return missing + [f"no label {label} to group by" for label in sorted(names.grouping - all_labels)]
