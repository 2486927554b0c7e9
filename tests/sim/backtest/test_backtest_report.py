"""The report's files: complete in themselves, the same every time, true to the points, safe against hostile names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from controller.backtest.point.result import PointResult, PointRun, Timeline
from controller.backtest.report.report import CAUSES, CONF, PARETO, REPORT, TIMELINE, write_report
from controller.backtest.report.view import MOST_DRAWN, View, thin_out
from controller.config.load import load_settings
from controller.config.policy_values import policy_settings
from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies import STRATEGIES
from tests.sim.backtest.test_backtest_recommend import GRID, point

BASE = PolicySettings()
START_MS, STEP_MS = 1_790_000_000_000, 30_000
PNG = b"\x89PNG\r\n\x1a\n"


def run_of(result: PointResult, steps: int = 2_880) -> PointRun:
    """A run that becomes more even from step to step and moves something every hundredth."""
    at = range(1, steps + 1)
    return PointRun(
        result,
        Timeline(
            tuple(START_MS + n * STEP_MS for n in at),
            tuple(round(1 + result.max_best_mean / n, 6) for n in at),
            tuple(round(1 / n, 6) for n in at),
            tuple(int(n % 100 == 0) for n in at),
        ),
    )


RUNS = [*map(run_of, GRID), run_of(point("threshold", 1.4, 300)), run_of(point("average", 1.3, 0))]


class Page(HTMLParser):
    """What a browser would see: text by tag, scripts, attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self._inside == "script" else self.text).append(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def plot(self, name: str) -> list[dict[str, Any]]:
        """The traces of a plot, as its script hands them to the library."""
        (script,) = (s for s in self.scripts if re.search(rf'Plotly\.newPlot\(\s*"{name}"', s))
        start = script.index("[", script.index(f'"{name}"'))
        return json.JSONDecoder().raw_decode(script[start:])[0]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "out"
    write_report(out, RUNS, BASE, {"reports": "loads.jsonl"})
    return out


@pytest.fixture(scope="module")
def seen(written: Path) -> Page:
    return Page((written / REPORT).read_text())


def test_the_page_needs_no_network_and_brings_the_library_once(seen: Page) -> None:
    fetching = [(tag, attrs) for tag, attrs in seen.tags if {"src", "href"} & set(attrs) or tag in ("link", "iframe")]
    assert fetching == []
    libraries = [script for script in seen.scripts if len(script) > 1_000_000]
    assert len(libraries) == 1
    assert "plotly.js v" in libraries[0][:300]


def test_the_pareto_plot_shows_every_point_with_its_knobs(seen: Page) -> None:
    front, *strategies, _, star = seen.plot("pareto")
    assert [trace["name"] for trace in strategies] == ["steady", "threshold", "average"]
    steady = strategies[0]
    assert len(steady["hovertext"]) == len(GRID)
    assert "steady.tolerance = 0.02" in steady["hovertext"][0]
    assert values(steady["y"]) == [result.max_best_mean for result in GRID]
    assert values(steady["x"])[0] == pytest.approx(GRID[0].moves_balance / GRID[0].bundles)  # a day
    view = View(RUNS, BASE)
    assert values(front["y"]) == [view.imbalance[at] for at in view.front[::-1]]
    assert view.recommendation.overall is not None
    assert values(star["y"]) == [view.imbalance[view.recommendation.overall.chosen]]


def values(listed: Any) -> list[float]:
    """Numbers of a trace: plotly writes a list, or base64 of an array."""
    if isinstance(listed, list):
        return listed
    import base64

    import numpy as np

    return np.frombuffer(base64.b64decode(listed["bdata"]), listed["dtype"]).tolist()


def test_the_timeline_has_the_chosen_point_of_each_strategy(seen: Page) -> None:
    traces = seen.plot("timeline")
    assert [trace["name"] for trace in traces[::2]] == [
        "steady with budget 1, churn 0.02, tolerance 0.05", "threshold", "average",
    ]  # fmt: skip
    for trace in traces:
        assert len(trace["x"]) <= MOST_DRAWN
    assert max(values(traces[0]["y"])) == max(run_of(GRID[16]).timeline.max_best)
    assert sum(values(traces[1]["y"])) == 28
    assert traces[0]["x"][-1] == "2026-09-22 14:13:20"


def test_no_plot_shows_marks_of_the_text(seen: Page) -> None:
    for plot in ("pareto", "timeline", "causes"):
        assert not [trace["name"] for trace in seen.plot(plot) if "`" in trace.get("name", "")]
    assert not [text for trace in seen.plot("pareto") for text in trace.get("hovertext", ()) if "`" in text]


def test_points_at_one_place_are_all_seen_and_counted(tmp_path: Path) -> None:
    """Two strategies tie, one of them with three points: a larger marker below a smaller one, and a number."""
    steady = [replace(point(), knobs={"steady.budget": budget}) for budget in (0.5, 1.0, 2.0)]
    runs = [run_of(result, 10) for result in (*steady, point("average"), point("threshold", 1.4, 3))]
    write_report(tmp_path, runs, BASE, {})
    _, first, second, alone, count, _ = Page((tmp_path / REPORT).read_text()).plot("pareto")
    assert values(first["x"])[0] == values(second["x"])[0]
    assert min(values(first["marker"]["size"])) >= values(second["marker"]["size"])[0] + 5
    assert {trace["marker"]["opacity"] for trace in (first, second)} == {1}
    assert [text.strip() for text in count["text"]] == ["×4"]
    assert (values(count["x"]), values(count["y"])) == (values(second["x"]), values(second["y"]))
    for text in (*first["hovertext"], *second["hovertext"]):
        assert text.startswith("<b>4 points here</b>")
        assert "average" in text
    assert "points here" not in alone["hovertext"][0]


def test_lines_that_go_the_same_way_are_all_seen(tmp_path: Path) -> None:
    runs = [run_of(point(name), 10) for name in ("steady", "average")] + [run_of(point("threshold", 1.4), 10)]
    write_report(tmp_path, runs, BASE, {})
    balance = Page((tmp_path / REPORT).read_text()).plot("timeline")[::2]
    widths = {trace["name"]: trace["line"]["width"] for trace in balance}
    assert widths["steady"] > widths["average"] == widths["threshold"]


def test_a_box_names_a_dozen_of_many_points(tmp_path: Path) -> None:
    runs = [run_of(replace(point(), knobs={"steady.budget": float(at)}), 4) for at in range(1, 28)]
    write_report(tmp_path, runs, BASE, {})
    text = Page((tmp_path / REPORT).read_text()).plot("pareto")[1]["hovertext"][0]
    assert "27 points here" in text
    assert "and 15 more" in text


def test_headings_of_the_scoreboard_may_break_so_that_it_fits(seen: Page, written: Path) -> None:
    assert ("wbr", {}) in seen.tags
    style = re.search(r"<style>(.*?)</style>", (written / REPORT).read_text(), re.DOTALL)
    assert style is not None
    assert re.search(r"#scoreboard th \{ white-space: normal", style[1])


def test_page_and_configuration_say_how_sure_the_recommendation_is(written: Path, seen: Page) -> None:
    sure = "Low confidence (24.0 hours, 10 rounds: too few for what waits for several of them)"
    assert sure in "".join(seen.text)
    assert f"# {sure}." in (written / CONF).read_text().splitlines()


def test_moves_are_split_by_cause(seen: Page) -> None:
    bars = {trace["name"]: values(trace["y"]) for trace in seen.plot("causes")}
    assert bars == {"addition": [1, 1, 1], "removal": [2, 2, 2], "balance": [100, 300, 0]}


def test_the_scoreboard_has_a_row_a_point_and_marks_front_and_choice(seen: Page) -> None:
    rows = [attrs.get("class") for tag, attrs in seen.tags if tag == "tr" and "class" in attrs]
    assert len(rows) == len(RUNS)
    view = View(RUNS, BASE)
    assert [at for at, marks in enumerate(rows) if marks and "front" in marks] == sorted(view.front)
    assert [at for at, marks in enumerate(rows) if marks and "recommended" in marks] == [
        view.recommendation.overall and view.recommendation.overall.chosen
    ]
    cells = [attrs.get("data-value") for tag, attrs in seen.tags if tag == "td" and "data-value" in attrs]
    assert cells[: len(cells) // len(RUNS)][:5] == ["steady", "0.5", "0.005", "0.02", "1.265"]


@pytest.mark.covers("backtest")
def test_the_recommendation_is_in_the_page_and_loads_as_a_configuration(written: Path, seen: Page) -> None:
    assert "tolerance: 0.05" in " ".join(seen.text)
    assert "A tolerance as tight as 0.02 would cost 180 moves more" in " ".join(seen.text)
    found = policy_settings(load_settings(written / CONF, env={}))
    assert found.strategy == "steady"
    assert (found.steady.tolerance, found.steady.churn, found.steady.budget) == (0.05, 0.02, 1.0)
    assert "loads.jsonl" in (written / CONF).read_text().splitlines()[0]


def test_pictures_are_drawn_and_everything_is_the_same_the_second_time(written: Path, tmp_path: Path) -> None:
    write_report(tmp_path, RUNS, BASE, {"reports": "loads.jsonl"})
    for name in (REPORT, PARETO, TIMELINE, CAUSES, CONF):
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes(), name
    for name in (PARETO, TIMELINE, CAUSES):
        content = (written / name).read_bytes()
        assert content.startswith(PNG)
        assert len(content) > 10_000


def test_runs_that_were_stored_and_read_back_give_the_same_files(written: Path, tmp_path: Path) -> None:
    stored = [PointRun.from_json(json.loads(json.dumps(run.to_json(), sort_keys=True))) for run in RUNS]
    write_report(tmp_path, stored, BASE, {"reports": "loads.jsonl"})
    for name in (REPORT, PARETO, TIMELINE, CAUSES, CONF):
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes(), name


HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<b>"


def test_names_from_input_stay_text(tmp_path: Path) -> None:
    result = replace(point(HOSTILE), knobs={HOSTILE: 0.5})
    write_report(tmp_path, [run_of(result, 4), run_of(GRID[0], 4)], BASE, {"reports": HOSTILE, HOSTILE: HOSTILE})
    text = (tmp_path / REPORT).read_text()
    page = Page(text)
    assert not [tag for tag, _ in page.tags if tag in ("img", "b")]
    assert text.count("</script>") == sum(tag == "script" for tag, _ in page.tags)
    assert HOSTILE in "".join(page.text)
    legend = page.plot("pareto")[1]
    assert "<" not in legend["name"]
    assert "<img" not in legend["hovertext"][0]
    load_settings(tmp_path / CONF, env={})


def test_sections_without_data_say_so(tmp_path: Path) -> None:
    write_report(tmp_path, [], BASE, {"reports": "none.jsonl"})
    text = (tmp_path / REPORT).read_text()
    for sentence in ("there is nothing to recommend", "No point has finished.", "nothing to plot", "Nothing was moved"):
        assert sentence in text
    assert not re.search(r"Plotly\.newPlot\(\s*\"", text)
    assert all((tmp_path / name).read_bytes().startswith(PNG) for name in (PARETO, TIMELINE, CAUSES))
    assert policy_settings(load_settings(tmp_path / CONF, env={})) == policy_settings(load_settings(None, env={}))


def test_points_without_steps_or_moves_are_told_but_not_drawn(tmp_path: Path) -> None:
    still = replace(point("average", 1.0, 0), moves_addition=0, moves_removal=0)
    write_report(tmp_path, [run_of(still, 0)], BASE, {})
    page = Page((tmp_path / REPORT).read_text())
    assert "No point has a step: nothing to plot." in page.text
    assert "Nothing was moved at any chosen point." in page.text
    assert len(page.plot("pareto")) == 3


def test_every_strategy_has_a_colour_of_its_own() -> None:
    names = list(STRATEGIES)
    view = View([run_of(point(name), 1) for name in names], BASE)
    assert len(names) >= 9
    assert len({view.colour(name) for name in names}) == len(names)


def test_thinning_keeps_peaks_and_moves() -> None:
    line = run_of(GRID[0], 4_000).timeline
    thin = thin_out(line)
    assert len(thin.at_ms) <= MOST_DRAWN
    assert max(thin.max_best) == max(line.max_best)
    assert sum(thin.moves) == sum(line.moves)
    assert thin.at_ms[-1] == line.at_ms[-1]
    assert thin_out(run_of(GRID[0], 50).timeline) == run_of(GRID[0], 50).timeline
