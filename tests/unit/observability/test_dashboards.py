"""The dashboards: panels with titles, units and words on what they show, on metrics and labels that exist."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.unit.observability.exposed import FOLDER, OF_TARGETS, faults, series
from tests.unit.observability.promql import names_in
from tests.unit.observability.test_alerts import RULES

FILES = sorted((FOLDER / "dashboards").glob("*.json"))
LEGEND = re.compile(r"{{(\w+)}}")
LABEL_VALUES = re.compile(r"label_values\((?P<series>.*), (?P<label>\w+)\)")
WIDTH = 24
NOT_SHOWN = {"python_info"}  # of the client library


def dashboard(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def panels(file: Path) -> list[dict[str, Any]]:
    """All but the headings of rows."""
    return [panel for panel in dashboard(file)["panels"] if panel["type"] != "row"]


def test_there_is_one_for_each_question() -> None:
    assert {file.stem for file in FILES} == {"overview", "broker", "controller", "agents", "pulsar"}
    found = [dashboard(file) for file in FILES]
    assert [one["uid"] for one in found] == [f"ballast-{file.stem}" for file in FILES]
    assert len({one["title"] for one in found}) == len(FILES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_panel_says_what_it_shows(file: Path) -> None:
    for panel in panels(file):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]), panel["title"]
    assert max(Counter(panel["title"] for panel in panels(file)).values()) == 1


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_panels_show_metrics_and_labels_that_exist(file: Path) -> None:
    for panel in panels(file):
        for target in panel["targets"]:
            assert faults(target["expr"]) == [], panel["title"]
            names = names_in(target["expr"])
            labels = OF_TARGETS.union(*(series()[name] for name in names.metrics))
            assert set(LEGEND.findall(target["legendFormat"])) <= labels, panel["title"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_panels_are_of_the_chosen_data_source_and_cluster(file: Path) -> None:
    variables = {one["name"]: one for one in dashboard(file)["templating"]["list"]}
    assert {"datasource", "cluster"} <= set(variables)
    for panel in panels(file):
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert {source["uid"] for source in sources} == {"${datasource}"}, panel["title"]
        for target in panel["targets"]:
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
            assert used <= set(variables), panel["title"]
            chosen = {name for name, labels in names_in(target["expr"]).metrics.items() if "cluster" in labels}
            assert chosen == set(names_in(target["expr"]).metrics) - {"ALERTS"}, panel["title"]
    for variable in variables.values():
        if variable["type"] == "query":
            found = LABEL_VALUES.fullmatch(variable["definition"])
            assert found is not None, variable
            (name,) = names_in(found["series"]).metrics
            assert faults(found["series"]) == []
            assert found["label"] in series()[name] | OF_TARGETS


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_panels_do_not_cover_each_other(file: Path) -> None:
    every = dashboard(file)["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    taken: set[tuple[int, int]] = set()
    for panel in every:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert place["x"] + place["w"] <= WIDTH
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_metric_is_on_a_dashboard_or_in_an_alert() -> None:
    shown = {name for file in FILES for panel in panels(file) for target in panel["targets"]
             for name in names_in(target["expr"]).metrics}  # fmt: skip
    shown |= {name for rule in RULES.values() for name in names_in(rule["expr"]).metrics}
    parts = re.compile(r"_(bucket|sum|count)$")
    wanted = {parts.sub("", name) for name in series() if not name.endswith("_created")}
    unseen = wanted - {parts.sub("", name) for name in shown} - NOT_SHOWN
    assert {name for name in unseen if not name.startswith("process_")} == set()
