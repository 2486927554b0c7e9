"""The reader of names finds each name where it stands, and nothing in texts, durations and variables."""

from __future__ import annotations

import pytest

from tests.unit.observability.exposed import faults
from tests.unit.observability.promql import names_in


@pytest.mark.parametrize(
    ("expression", "metrics", "grouping"),
    [
        ("a", {"a": set()}, set()),
        ("rate(a_total[5m])", {"a_total": set()}, set()),
        ('a{b="c", d=~"e.*"} > 0.5 * f{g!="h"}', {"a": {"b", "d"}, "f": {"g"}}, set()),
        ("sum by (b, c) (rate(a[$__rate_interval]))", {"a": set()}, {"b", "c"}),
        ("sum without (b) (a) / on (c) group_left (d) e", {"a": set(), "e": set()}, {"b", "c", "d"}),
        ('a{b="sum(c) or d", e="\\"f"} offset 1h', {"a": {"b", "e"}}, set()),
        ("a == bool 1 and b unless c or d", {"a": set(), "b": set(), "c": set(), "d": set()}, set()),
        ("histogram_quantile(0.99, sum by (le) (rate(a_bucket[1m]))) > 1e3", {"a_bucket": set()}, {"le"}),
        ("a * on (b) group_left c", {"a": set(), "c": set()}, {"b"}),
        ("a{}\n  # of b\n  > 1", {"a": set()}, set()),
        ('a{b=~"$cluster"}[30m:1m]', {"a": {"b"}}, set()),
    ],
)
def test_names(expression: str, metrics: dict[str, set[str]], grouping: set[str]) -> None:
    found = names_in(expression)
    assert (found.metrics, found.grouping) == (metrics, grouping)


@pytest.mark.parametrize("expression", ["rat(a[5m])", "sum(a", "a)", 'a{b="c"', "a{b='c')", "a ? b", 'a{b="c}'])
def test_what_is_no_promql_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"PromQL|function|brackets"):
        names_in(expression)


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("ballast_rounds > 0", []),
        ("rate(ballast_rounds_total[5m])", ["no metric ballast_rounds_total"]),
        ("rate(ballast_journal_entries[5m])", ["no metric ballast_journal_entries"]),
        ('ballast_bundles{bundle="x"}', ["ballast_bundles has no label bundle"]),
        ("sum by (broker) (ballast_bundles)", ["no label broker to group by"]),
        ("histogram_quantile(0.9, sum by (le) (ballast_order_seconds_sum))", ["no label le to group by"]),
        ("histogram_quantile(0.9, sum by (le) (rate(ballast_order_seconds_bucket[5m])))", []),
    ],
)
def test_what_does_not_exist_is_named(expression: str, fault: list[str]) -> None:
    assert faults(expression) == fault
