"""V01-V33: inputs that other balancers got wrong in public, each with what a good balancer makes of it.

`test_published_cases` asserts all of them for `steady`; the table in docs/strategies.md is made of the same words.
"""

from __future__ import annotations

from benchmarks.published import changing_clusters, misleading_reports, splits, uneven_loads
from benchmarks.published.case import Case

CASES: tuple[Case, ...] = (
    *uneven_loads.CASES,
    *misleading_reports.CASES,
    *splits.CASES,
    *changing_clusters.CASES,
)
