"""`ballast brokers|bundles|explain|journal` on the tables of a Pulsar cluster that is driven."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.cli.entry_text import end_words
from controller.cli.main import main
from controller.domain.entries import Entry, Kind
from controller.domain.events import UNLISTED
from controller.domain.state import METADATA
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from controller.process.paths import ROOT
from tests.component.ui.driven import drive
from tests.unit.control.observed_driver import BUNDLES
from tests.unit.control.step_driver import StepDriver

WHAT_IT_MEANS = "goodbye: Pulsar lists it no longer, or its agent stopped"
FIRST, SECOND, THIRD, FOURTH = map(str, BUNDLES)
Ballast = Callable[[str], tuple[int, str, str]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One bundle moved, one is on its way, one has lost its owner, one is claimed by two brokers; a broker is gone."""
    folder = tmp_path_factory.mktemp("observed")
    driver = drive()
    driver.tell("c:1", "observed", removed=[THIRD])
    driver.join("d:1", nonce="agent", authority=METADATA, runtime="pulsar", can_fence=False)
    driver.say(driver.sessions["d:1"], "goodbye", reason=UNLISTED)
    driver.tell("a:1", "observed", disputed=[FOURTH])
    root = TableRoot(folder)
    root.create_all()
    entries = [Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0), *driver.journal]
    Journal(root).commit([replace(entry, at_ms=wall_ms()) for entry in entries], "i", 0)
    return folder


@pytest.fixture
def ballast(tables: Path, capsys: pytest.CaptureFixture[str]) -> Ballast:
    """Runs a command; returns exit code, stdout and stderr."""

    def call(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), "--set", f"tables.root={tables}", "--set", "kafka.bootstrap_servers=127.0.0.1:1"])
        out = capsys.readouterr()
        return int(ended.value.code or 0), out.out, out.err

    return call


def document(ballast: Ballast, line: str) -> Any:
    code, out, err = ballast(f"{line} --json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_bundles_are_shown_and_chosen_by_their_observed_state(ballast: Ballast) -> None:
    rows = {row["bundle"]: row for row in document(ballast, "bundles")}
    states = {FIRST: "owned", SECOND: "ordered", THIRD: "unknown", FOURTH: "disputed"}
    assert {name: row["state"] for name, row in rows.items()} == states
    assert {name: (row["owner"], row["to"]) for name, row in rows.items()} == {
        FIRST: ("b:1", None), SECOND: ("b:1", "c:1"), THIRD: (None, None), FOURTH: ("a:1", None),
    }  # fmt: skip
    for name, state in states.items():
        assert [row["bundle"] for row in document(ballast, f"bundles --state {state}")] == [name]
    assert {row["bundle"] for row in document(ballast, "bundles --broker c:1")} == {SECOND}
    code, out, _ = ballast("bundles")
    assert code == 0
    assert "1 bundle without an owner: Pulsar assigns" in out
    code, _, err = ballast("bundles --state lost")
    assert code == 2
    assert "--state lost is none of" in err
    assert "ordered, disputed, unknown" in err


def test_brokers_hold_what_they_are_observed_to_own(ballast: Ballast) -> None:
    rows = {row["broker"]: row for row in document(ballast, "brokers")}
    assert {broker: row["bundles"] for broker, row in rows.items()} == {"a:1": 1, "b:1": 2, "c:1": 0, "d:1": 0}
    code, out, err = ballast("brokers")
    assert (code, err) == (0, "")
    assert all(broker in out for broker in rows)


def test_a_bundle_is_explained_by_its_orders(ballast: Ballast) -> None:
    told = document(ballast, f"explain {SECOND}")
    assert (told["about"], told["now"]["state"], told["now"]["to"]) == ("bundle", "ordered", "c:1")
    assert "order" in {row["kind"] for row in told["journal"]}
    code, out, err = ballast(f"explain {FIRST}")
    assert (code, err) == (0, "")
    assert "order_ended" in out
    assert "moved" in out


def test_the_journal_is_narrowed_to_orders(ballast: Ballast) -> None:
    rows = document(ballast, "journal --kind order_ended")
    assert [(row["bundle"], row["broker"]) for row in rows] == [(FIRST, "b:1")]


def test_the_end_of_a_session_is_no_goodbye_of_the_broker(tables: Path, ballast: Ballast) -> None:
    (row,) = document(ballast, "journal --kind session_ended")
    assert (row["broker"], row["reason"]) == ("d:1", "goodbye"), "what is stored"
    code, out, err = ballast("journal --kind session_ended")
    assert (code, err) == (0, "")
    assert WHAT_IT_MEANS in " ".join(out.split())
    argv = [sys.executable, "-m", "controller.cli.main", "journal", "--follow", "--kind", "session_ended"]
    argv += ["--limit", "1", "--set", f"tables.root={tables}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as follower:
        assert follower.stdout is not None
        assert WHAT_IT_MEANS in follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        assert follower.wait(60) == 0


def test_where_brokers_follow_the_journal_a_goodbye_is_one() -> None:
    driver = StepDriver()
    driver.join("a:1")
    assert end_words(driver.state) == {}
