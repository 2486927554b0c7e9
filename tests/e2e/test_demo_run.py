"""The demo as a newcomer runs it, small and short, from the installed wheel in an empty folder.

It must move, split, fail over, and lose nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from controller.config.load import load_settings
from controller.domain.entries import Kind
from controller.ledger.evidence import read_joined
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.operations.reading import Reader
from controller.process.paths import ROOT
from controller.testbed.demo.figures import rounds_of
from controller.testbed.demo.screen.events import swaps_in
from controller.testbed.demo.screen.summary import choose_questions
from tests.e2e.programs import BALLAST, ballast
from tests.e2e.waiting import wait_until
from tests.installed import Installed

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(1_800)]
INTERRUPTED = 130
SAID = "said.txt"  # beside the run's folder: what it printed while it ran


@pytest.fixture(scope="module")
def demo(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The last line of `ballast demo --json`, and the run's folder."""
    folder = tmp_path_factory.mktemp("demo") / "run"
    # minutes are limits of its steps, not waited for: on a slow machine the split comes later, and it must come
    words = ("demo", "--headless", "--json", "--minutes", "8", "--brokers", "2", "--dir", str(folder))
    done = installed.ballast(*words, timeout_s=1_500)
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]
    print(done.stderr)
    (folder.parent / SAID).write_text(done.stderr)
    return json.loads(done.stdout.splitlines()[-1]), folder


def test_the_address_of_its_page_comes_first_and_pictures_of_it_stay(demo: tuple[dict[str, Any], Path]) -> None:
    figures, folder = demo
    said = (folder.parent / SAID).read_text()
    assert 0 < said.index("watch it in a browser: http://127.0.0.1:") < said.index("Kafka starts")
    if figures["pictures"]:
        assert [Path(file).read_bytes()[:4] for file in figures["pictures"]] == 3 * [b"\x89PNG"]
    else:  # of a machine without a browser, and of the wheel alone
        assert "no pictures of the page: " in said


@pytest.mark.covers("keeps-messages", "keeps-order", "keeps-deduplication")
def test_nothing_is_lost_doubled_or_reordered(demo: tuple[dict[str, Any], Path]) -> None:
    figures, _ = demo
    assert figures["messages_written"] > 1000
    assert figures["messages_read"] >= figures["messages_written"]
    broken = {name: figures[f"messages_{name}"] for name in ("lost", "duplicated", "reordered")}
    assert broken == {"lost": 0, "duplicated": 0, "reordered": 0}
    assert figures["invariants"] == "ok"


@pytest.mark.covers("hot-broker-relieved", "short-blip")
def test_it_moves_splits_and_fails_over(demo: tuple[dict[str, Any], Path]) -> None:
    figures, _ = demo
    assert figures["transfers"] >= 1
    assert figures["splits"] >= 1
    assert figures["rounds"] >= 4
    assert figures["failover_s"] is not None
    assert figures["skew_spread_after"] < figures["skew_spread_before"]
    assert figures["skew_to_relief_s"] > 0


def test_hand_overs_are_measured_against_the_senders_own_interval(demo: tuple[dict[str, Any], Path]) -> None:
    figures, _ = demo
    assert figures["handovers_measured"] > 0
    assert figures["handover_gap_p50_ms"] <= figures["handover_gap_p99_ms"]
    assert figures["sending_interval_p50_ms"] > 0
    assert 0 <= figures["handover_beyond_interval_p50_ms"] <= figures["handover_beyond_interval_max_ms"]


def test_it_ends_as_its_figures_say(demo: tuple[dict[str, Any], Path]) -> None:
    """The scores that it ends with are those of the journal's last round, of living brokers: clients stop later."""
    figures, _ = demo
    rounds = rounds_of(Journal(figures["tables"]).read_since(0))
    assert figures["scores_after"] == {b: round(s, 3) for b, s in sorted(rounds[-1].scores.items())}
    assert len(figures["scores_after"]) == 2, "two began, one joined, one was killed"
    ends = figures["scores_after"].values()
    assert figures["spread_after"] == pytest.approx(max(ends) - min(ends), abs=0.002)
    assert figures["spread_after"] < figures["spread_before"]
    assert figures["calm"] is (figures["calm_after_s"] is not None)
    assert figures["calm"] is not bool(figures["not_calm"]), "either at rest, or it says why not"


def test_its_end_says_what_to_look_at(demo: tuple[dict[str, Any], Path]) -> None:
    """`explain` finds what the end of a run suggests, and `status` knows that the run is over."""
    figures, folder = demo
    entries = Journal(figures["tables"]).read_since(0)
    asked = choose_questions(entries, "", "", swaps_in(lambda: Reader(load_settings(folder / "ballast.yaml"))))
    assert asked
    for name, _ in asked:
        told = ballast("explain", name, "--conf", str(folder / "ballast.yaml"))
        assert told.returncode == 0, told.stderr
        assert name in told.stdout
    status = ballast("status", "--conf", str(folder / "ballast.yaml"))
    assert "this demo is over" in status.stdout


def test_its_tables_stay_and_can_be_read(demo: tuple[dict[str, Any], Path]) -> None:
    figures, folder = demo
    assert load_settings(folder / "ballast.yaml", env={}).tables.root == figures["tables"]
    follower = Follower(figures["tables"])
    follower.bootstrap()
    assert not follower.state.controller_running, "the controller said that it stopped"
    rounds = {e.data["round_id"] for e in Journal(figures["tables"]).read_since(0) if e.kind is Kind.ROUND}
    assert len(rounds) == figures["rounds"], "as `ballast rounds` counts them"
    assert set(read_joined(figures["tables"], "rounds")["round_id"].to_pylist()) == rounds


def test_a_terminated_demo_leaves_no_process_behind(tmp_path: Path) -> None:
    with (tmp_path / SAID).open("wb") as said:
        demo = subprocess.Popen(
            [*BALLAST, "demo", "--headless", "--brokers", "2", "--dir", str(tmp_path / "run")],
            stdout=said, stderr=said, cwd=ROOT, env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )  # fmt: skip
    started: set[psutil.Process] = set()

    def agents_run() -> bool:
        started.update(psutil.Process(demo.pid).children(recursive=True))
        return (tmp_path / "run" / "logs" / "broker-2.log").exists()

    try:
        wait_until(agents_run, timeout_s=200)
        demo.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            demo.wait(120)
        if demo.poll() is None:
            demo.send_signal(signal.SIGABRT)  # it tells where it hangs
            demo.wait(10)
        assert demo.returncode == INTERRUPTED, (tmp_path / SAID).read_text()
        left = [p for p in started if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
        assert not left
    finally:
        for process in [*started, demo]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
