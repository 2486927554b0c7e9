"""docs/metrics.md lists exactly the metrics that processes expose, and none has series without bound."""

from __future__ import annotations

import re

from benchmarks.pages.metrics import PAGE, PARTS, build_registries, describe, main
from controller.process.metrics import MOST_BROKERS

ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram|info|unknown) \|", re.MULTILINE)


def test_the_page_is_made_of_the_registries() -> None:
    assert main([]) == 0, "run `python -m benchmarks.pages.metrics --write`"


def test_the_page_lists_each_metric_once_and_no_other() -> None:
    listed = [name for name, _ in ROW.findall(PAGE.read_text(encoding="utf-8"))]
    exposed = [one.shown_as for registry in build_registries().values() for one in describe(registry)]
    assert sorted(listed) == sorted(exposed)
    assert len(listed) > 100


def test_every_metric_says_what_it_means() -> None:
    for part, registry in build_registries().items():
        assert [one.name for one in describe(registry) if not one.meaning] == [], part
    assert set(build_registries()) == set(PARTS)


def test_series_are_bounded_and_at_most_one_a_broker() -> None:
    for registry in build_registries().values():
        for one in describe(registry):
            if one.name.startswith(("process_", "python_")):
                continue
            assert one.series <= MOST_BROKERS, f"{one.name} has {one.series} series"
            assert "bundle" not in one.labels
