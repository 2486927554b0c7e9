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
from controller.backtest.report.knobs import KnobNames
from controller.backtest.report.report import CAUSES, CONF, PARETO, REPORT, TIMELINE, write_report
from controller.backtest.report.view import MOST_DRAWN, View, thin_out
from controller.config.load import load_settings
from controller.config.policy_values import policy_settings
from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies import STRATEGIES
from tests.sim.backtest.test_backtest_recommend import GRID, point

BASE = PolicySettings()
ABOUT = {
    "reports": "loads.jsonl", "configuration": "defaults", "reports_read": 144_000, "refused": {"not_json": 2},
    "steps": 2_880, "step_ms": 30_000, "first_ms": 1_790_000_030_000, "last_ms": 1_790_086_400_000, "brokers": 50,
    "bundles": 2_000, "round_interval_ms": 60_000, "missed_steps": 3, "gap_ms": 1_000, "recording": "ab12",
}  # fmt: skip
START_MS, STEP_MS = 1_790_000_000_000, 30_000
HOUR = 3_600_000 // STEP_MS  # steps
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
        self.styles: list[str] = []
        self.named: dict[str, str] = {}  # text by the id or class of the innermost element that has one
        self._inside: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "wbr", "br"):
            found = dict(attrs)
            self._inside.append((tag, found.get("id") or found.get("class") or ""))

    def handle_data(self, data: str) -> None:
        tag = self._inside[-1][0] if self._inside else ""
        {"script": self.scripts, "style": self.styles}.get(tag, self.text).append(data)
        name = next((name for _, name in reversed(self._inside) if name), "")
        self.named[name] = self.named.get(name, "") + data

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self._inside.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def order(self, *texts: str) -> list[int]:
        """Where these texts begin in what is read."""
        return [next(at for at, part in enumerate(self.text) if text in part) for text in texts]

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
    assert "<br>tolerance = 0.02<br>" in steady["hovertext"][0]
    assert values(steady["y"]) == [result.max_best_mean for result in GRID]
    assert values(steady["x"])[0] == pytest.approx(GRID[0].moves_balance / GRID[0].bundles)  # a day
    view = View(RUNS, BASE)
    assert values(front["y"]) == [view.imbalance[at] for at in view.front[::-1]]
    assert view.recommended is not None
    assert values(star["y"]) == [view.imbalance[view.recommended]]


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
    runs = [run_of(result, HOUR) for result in (*steady, point("average"), point("threshold", 1.4, 3))]
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


def test_the_page_is_for_phones_and_for_light_and_dark(seen: Page) -> None:
    (viewport,) = (attrs for tag, attrs in seen.tags if tag == "meta" and attrs.get("name") == "viewport")
    assert "width=device-width" in str(viewport["content"])
    (style,) = seen.styles
    assert "prefers-color-scheme: dark" in style
    assert "max-width: 40rem" in style
    assert re.search(r"\.scroll \{ overflow-x: auto", style), "the table scrolls, not the page"
    assert not re.search(r"url\(|@import", style)
    assert "prefers-color-scheme: dark" in seen.scripts[-1], "plots take the page's colours"


def test_every_variable_of_the_style_has_a_colour_for_light_and_one_for_dark(seen: Page) -> None:
    (style,) = seen.styles
    light, dark = (set(re.findall(r"(--[a-z-]+):", part)) for part in re.findall(r":root \{(.*?)\}", style, re.DOTALL))
    assert set(re.findall(r"var\((--[a-z-]+)\)", style)) <= light == dark


def test_the_page_begins_with_what_was_recorded_and_what_to_do_and_ends_with_how_it_was_run(tmp_path: Path) -> None:
    write_report(tmp_path, RUNS, BASE, ABOUT)
    page = Page((tmp_path / REPORT).read_text())
    assert page.named["recorded"] == (
        "50 brokers and 2000 bundles for 24.0 hours, 2026-09-21 14:13:20 to 2026-09-22 14:13:20 UTC: "
        "144000 load reports (2 lines refused) of loads.jsonl"
    )
    assert page.named["do"].startswith("Use ")
    places = page.order(
        "24.0 hours, 2026", "Use ", "Low confidence", "tolerance: 0.05", "Why", "To know more",
        "Imbalance against moves", "Over time", "Moves by cause", "All points", "What the figures mean",
        "How it was run",
    )  # fmt: skip
    assert places == sorted(places)
    run = page.named["run"]
    assert "time between rounds1m 00s" in run
    assert "lines refusednot_json: 2" in run
    assert "time for which a bundle that moves is not served1.0 s" in run
    assert "_ms" not in "".join(page.text), "no names of fields, and no times in milliseconds"


def test_a_recording_of_minutes_recommends_nothing(tmp_path: Path) -> None:
    runs = [run_of(result, 12) for result in (*GRID, point("average", 1.3, 0))]
    write_report(tmp_path, runs, BASE, {"reports": "loads.jsonl"})
    page = Page((tmp_path / REPORT).read_text())
    assert page.named["do"] == "Change nothing"
    assert ("section", {"id": "verdict", "data-action": "nothing"}) in page.tags
    assert "pre" not in {tag for tag, _ in page.tags}
    assert not [attrs for tag, attrs in page.tags if tag == "tr" and "recommended" in str(attrs.get("class"))]
    assert "recommended" not in [trace.get("name") for trace in page.plot("pareto")]
    lines = (tmp_path / CONF).read_text().splitlines()
    assert "recommends nothing" in lines[0]
    found = policy_settings(load_settings(tmp_path / CONF, env={}))
    assert found == policy_settings(load_settings(None, env={})), "what it sets is as configured"


def test_where_the_configuration_was_run_the_page_shows_what_would_change(tmp_path: Path) -> None:
    now = replace(point(max_best=1.0665, moves=135), overload_minutes=12.5)
    now = replace(now, knobs={"steady.tolerance": BASE.steady.tolerance})
    better = replace(point(max_best=1.0708, moves=100), knobs={"steady.tolerance": 0.1})
    write_report(tmp_path, [run_of(now, HOUR), run_of(better, HOUR)], BASE, {})
    page = Page((tmp_path / REPORT).read_text())
    assert page.named["do"] == "Use steady with tolerance 0.1"
    assert page.named["effect"] == (
        "26 % fewer moves for 0.4 % more imbalance and 12m 30s less overload than now (steady with tolerance 0.06)."
    )
    assert "imbalance1.067 → 1.071" in page.named["tiles"]
    assert "overload12m 30s → none" in page.named["tiles"]
    assert [attrs["class"] for tag, attrs in page.tags if tag == "tr" and "class" in attrs] == [
        "front now", "front recommended",
    ]  # fmt: skip


def test_knobs_are_headed_by_name_and_unit_and_have_the_values_that_were_given(tmp_path: Path) -> None:
    knobs = {"shed.overloaded_threshold": 0.8, "shed.grace_period_ms": 90_000, "steady.tolerance": 0.05}
    run = run_of(replace(point(), knobs=knobs), HOUR)
    write_report(tmp_path, [run], BASE, {}, KnobNames({}, {("steady.tolerance", 0.05): "0.050"}))
    page = Page((tmp_path / REPORT).read_text())
    titles = {attrs["title"] for tag, attrs in page.tags if tag == "th" and "title" in attrs}
    assert titles >= {"shedding.overloaded_threshold_pct", "shedding.grace_period_minutes", "steady.tolerance"}
    heads = page.text[page.text.index("strategy") :]
    shown = "|".join(heads[: heads.index("Imbalance (max/best)")])
    assert shown == "strategy|shedding: grace period |minutes|shedding: overloaded threshold |%|tolerance"
    cells = [attrs["data-value"] for tag, attrs in page.tags if tag == "td" and "data-value" in attrs]
    assert cells[:3] == ["90000", "0.8", "0.05"], "sorted by value"
    assert [text for text in heads if text in ("1.5", "80", "0.050")] == ["1.5", "80", "0.050"]


def test_page_and_configuration_say_how_sure_the_recommendation_is(written: Path, seen: Page) -> None:
    sure = "Low confidence (24.0 hours, 10 rounds: too few for what waits for several of them)"
    assert sure in "".join(seen.text)
    assert f"# {sure}." in (written / CONF).read_text().splitlines()


def test_moves_are_split_by_cause(seen: Page) -> None:
    bars = {trace["name"]: values(trace["y"]) for trace in seen.plot("causes")}
    assert bars == {"to new or empty brokers": [1, 1, 1], "from lost brokers": [2, 2, 2], "for balance": [100, 300, 0]}


def test_the_scoreboard_has_a_row_a_point_and_marks_front_and_choice(seen: Page) -> None:
    rows = [attrs.get("class") for tag, attrs in seen.tags if tag == "tr" and "class" in attrs]
    assert len(rows) == len(RUNS)
    view = View(RUNS, BASE)
    assert [at for at, marks in enumerate(rows) if marks and "front" in marks] == sorted(view.front)
    assert [at for at, marks in enumerate(rows) if marks and "recommended" in marks] == [view.recommended]
    cells = [attrs["data-value"] for tag, attrs in seen.tags if tag in ("td", "th") and "data-value" in attrs]
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
    assert not [tag for tag, _ in page.tags if tag == "img"]
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
    assert len(page.plot("pareto")) == 2


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
