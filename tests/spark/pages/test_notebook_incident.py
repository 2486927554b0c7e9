"""notebooks/05_incident.py on a slice of a short run that `ballast capture` wrote: a lost broker, and what followed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from controller.cli.main import main
from controller.domain.entries import Entry, Kind
from tests.component.questions.told import broker_of, list_episodes
from tests.short_run import ShortRun
from tests.spark.pages.notebooks import FOLDER, Ran, check_plots, check_source_format, run_notebook

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
NOTEBOOK = FOLDER / "05_incident.py"
BEGIN_MS, END_MS = 81_000, 130_000  # after the start: the first moves, splits, a drain, a kill
ROUTINE = {Kind.OWNERSHIP, Kind.OFFSETS, Kind.ROUND}


def captured(run: ShortRun, folder: Path, *more: str) -> Path:
    """A slice of the run, written by the command."""
    with pytest.raises(SystemExit) as ended:
        main(["capture", str(folder), *more, "--set", f"tables.root={run.root.root}"])
    assert not ended.value.code
    return folder


@pytest.fixture(scope="module")
def slice_folder(short_run: ShortRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    since, until = short_run.start_ms + BEGIN_MS, short_run.start_ms + END_MS
    folder = tmp_path_factory.mktemp("incident") / "slice"
    return captured(short_run, folder, "--since", str(since), "--until", str(until))


@pytest.fixture(scope="module")
def within(short_run: ShortRun) -> list[Entry]:
    """The entries of the slice."""
    begin, end = short_run.start_ms + BEGIN_MS, short_run.start_ms + END_MS
    return [e for e in short_run.entries if begin <= e.at_ms <= end]


@pytest.fixture(scope="module")
def ran(spark: Any, slice_folder: Path) -> Ran:
    return run_notebook(NOTEBOOK, spark, slice=slice_folder)


def test_the_source_format_is_databricks_own() -> None:
    check_source_format(NOTEBOOK, more_cells_than=18)


def test_the_slice_says_what_it_is(ran: Ran, within: list[Entry]) -> None:
    about = {row["what"]: row["value"] for row in ran.shown["captured"]}
    assert (about["first_seq"], about["last_seq"]) == (str(within[0].seq), str(within[-1].seq))
    assert about["rows of journal"] == str(len(within))
    assert about["names_hashed"] == "False"


def test_events_are_all_but_routine(ran: Ran, within: list[Entry]) -> None:
    rows = ran.shown["Events"]
    deciding = [e for e in within if e.kind is Kind.ROUND and set(e.data["counts"]) - {"skip"}]
    expected = sorted([*(e for e in within if e.kind not in ROUTINE), *deciding], key=lambda e: e.seq)
    assert [(row["seq"], row["kind"]) for row in rows] == [(e.seq, e.kind.value) for e in expected]
    ended = next(row for row in rows if row["kind"] == "session_ended")
    assert (ended["what"], ended["reason"]) == ("b3:8080", "lease")
    drained = next(row for row in rows if row["kind"] == "command_accepted" and row["what"].startswith("drain"))
    assert (drained["what"], drained["who"], drained["why"]) == ('drain {"broker":"b2:8080"}', "anna@ops", "short run")
    told = {row["what"] for row in rows if row["kind"] == "round"}
    assert "2 moves, 0 splits decided, mode live" in told
    assert not any(what.startswith("1 moves") or " 1 splits" in what for what in told)


def test_bundles_without_an_owner_batch_by_batch(ran: Ran, within: list[Entry]) -> None:
    waiting: dict[str, bool] = {}
    expected = {}
    for entry in within:
        if entry.kind is Kind.OWNERSHIP:
            let_go = entry.state == "releasing" and bool(entry.data.get("released"))
            waiting[str(entry.bundle)] = entry.state in ("free", "assigning") or let_go
            expected[entry.at_ms] = sum(waiting.values())
    rows = ran.shown["Without an owner"]
    assert [row["without_owner"] for row in rows] == list(expected.values())
    assert max(expected.values()) == 6, "those of the broker that was killed, or of the drained one"
    assert rows[-1]["without_owner"] == 0


def test_the_lost_broker(ran: Ran, within: list[Entry]) -> None:
    (row,) = ran.shown["Lost brokers"]
    freed = [e for e in within if e.reason == "owner_ended"]
    times = [
        next(e.at_ms for e in within if e.seq > gone.seq and e.bundle == gone.bundle and e.state == "owned")
        - gone.at_ms
        for gone in freed
    ]
    assert (row["broker"], row["reason"], row["bundles"], row["waiting"]) == ("b3:8080", "lease", len(freed), 0)
    assert (row["p50_ms"], row["longest_ms"]) == (median(times), max(times))


def test_the_longest_handovers(ran: Ran, within: list[Entry]) -> None:
    rows = ran.shown["Longest handovers"]
    took = sorted((e[-1].at_ms - e[0].at_ms for e in list_episodes(within)), reverse=True)
    assert [row["took_ms"] for row in rows] == took[:15]
    moved = {(e[0].bundle, broker_of(e[0].by), broker_of(e[-1].by)) for e in list_episodes(within)}
    assert {(row["bundle"], row["source"], row["target"]) for row in rows} <= moved


def test_rounds_and_bad_records(ran: Ran, within: list[Entry]) -> None:
    rounds = [e for e in within if e.kind is Kind.ROUND]
    assert [row["mode"] for row in ran.shown["Rounds"]] == [e.data["mode"] for e in rounds] == ["live", "live"]
    assert [(row["moves"], row["splits"], row["carried_out"]) for row in ran.shown["Rounds"]] == [(2, 0, 2), (0, 1, 1)]
    assert ran.shown["Quarantined"] == [], "they came in later"
    check_plots(ran, 2)


def test_what_was_left_of_it(ran: Ran, slice_folder: Path, spark: Any) -> None:
    owned = spark.read.format("delta").load(f"{slice_folder}/tables/ownership")
    assert ran.shown["Not served at the end"] == []
    assert owned.where("state = 'owned'").count() > 0


def test_a_slice_with_hashed_names(short_run: ShortRun, spark: Any, tmp_path: Path) -> None:
    """To the end of the run, with a bundle in flight and bad records."""
    folder = captured(short_run, tmp_path / "hashed", "--since", str(short_run.start_ms), "--hash-names")
    whole = run_notebook(NOTEBOOK, spark, slice=folder)
    assert {row["broker"].partition("-")[0] for row in whole.shown["Lost brokers"]} == {"broker"}
    assert len(whole.shown["Rounds"]) == 6
    assert Counter(row["rule"] for row in whole.shown["Quarantined"] for _ in range(row["records"])) == {
        "not_json": 2, "version": 1, "event_kind": 1
    }  # fmt: skip
    assert whole.shown["Not served at the end"] == [], "the bundle in flight is still served by its owner"
