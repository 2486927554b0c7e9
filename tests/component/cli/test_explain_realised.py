"""`ballast explain` says what executed moves were predicted to do and what they did, on the tables of a short run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.cli.look.realised_text import interval_text, realised_text
from controller.cli.main import main
from controller.policy.usage.judged import FULL_END, NOT_YET
from tests.short_run import ShortRun, begin_skewed

Call = Callable[..., str]
TO_JUDGE = 3 + 4  # rounds: a window of three panes and the pane of the move pass, then three are read


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[ShortRun, str]:
    """A cluster with a hot broker that is relieved and watched until the moves can be judged; the moving round."""
    run = begin_skewed(tmp_path_factory.mktemp("relieved") / "tables", brokers=3, bundles=12, hot=3)
    for _ in range(6):
        result = run.round()
        run.panes(1)
        if any(decision.kind.value == "transfer" for decision in result.decisions):
            break
    else:
        raise AssertionError("the hot broker gave nothing away")
    return run, result.round_id


@pytest.fixture
def explain(run: tuple[ShortRun, str], capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*words: str) -> str:
        root = f"tables.root={run[0].root.root}"
        keys = [
            f"--set={root}",
            "--set=loads.short_horizon_s=30",
            "--set=loads.pane_s=10",
            "--set=rounds.round_interval_s=10",
        ]
        with pytest.raises(SystemExit) as ended:
            main(["explain", *words, "--profile", "demo", *keys])
        assert not ended.value.code
        return capsys.readouterr().out

    return call


def test_an_interval_wider_than_the_broker_is_no_figure() -> None:
    assert interval_text({"half_width": 0.2234}) == "±22.3 %"
    assert interval_text({"half_width": 6_698.2}) == "unknown"


def test_moves_are_judged_once_three_rounds_have_been_read(run: tuple[ShortRun, str], explain: Call) -> None:
    cluster, round_id = run
    told = realised_of(explain(round_id, "--json"))
    assert told
    assert all(row["why_not"] == NOT_YET and row["rounds_to_go"] == 3 for row in told)
    assert "not judged yet: it takes 3 more rounds" in explain(round_id)

    for _ in range(TO_JUDGE):
        cluster.round()
        cluster.panes(1)
    told = realised_of(explain(round_id, "--json"))
    source = next(row for row in told if row["broker"] == "b1:8080")
    assert source["predicted"] < 0
    assert source["realised"] == pytest.approx(source["predicted"], abs=0.05)
    assert source["inside"]
    text = explain(round_id)
    assert f"{realised_text(source)}" in text
    decision = source["decisions"][0]
    assert json.loads(explain(decision, "--json"))["realised"]
    bundle = json.loads(explain(decision, "--json"))["decision"]["bundle"]
    assert source in json.loads(explain(bundle, "--json"))["realised"]
    assert realised_text(source) in explain(bundle)


def realised_of(document: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(document)["rounds"][0]["realised"]
    return found


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"realised": -0.058, "inside": True}, "predicted −6.1 %, realised −5.8 %"),
        (
            {"realised": -0.058, "inside": True, "by_prior": True},
            "predicted −6.1 % (cost assumed), realised −5.8 %",
        ),
        ({"realised": 0.02, "inside": False}, "predicted −6.1 %, realised +2.0 %, outside the interval"),
        ({"why_not": FULL_END}, "predicted −6.1 %, not judged: the broker was at its limit"),
        ({"why_not": NOT_YET, "rounds_to_go": 1}, "predicted −6.1 %, not judged yet: it takes 1 more round"),
    ],
)
def test_words(row: dict[str, Any], text: str) -> None:
    whole = {"predicted": -0.061, "realised": None, "why_not": None, "by_prior": False, **row}
    assert realised_text(whole) == text
