"""The journal's answer to a command, as the command line prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from controller.cli.entry_text import print_entries
from controller.cli.send_command import print_outcome
from controller.config.load import load_settings
from controller.domain.entries import Entry, Kind
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.operator import Operator, Outcome
from tests.unit.control.observed_driver import BUNDLES, observed_driver
from tests.unit.control.step_driver import StepDriver

STAYS = "b:1 owns 1 of the 2 owned bundles of t/n already: what is there stays"


def test_an_accepted_command_says_what_it_left_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    print_outcome(Outcome("c1", True, STAYS, 7), "unload_namespace", as_json=False)
    assert capsys.readouterr().out == f"accepted: unload_namespace c1, journal seq 7; {STAYS}\n"
    print_outcome(Outcome("c1", True, STAYS, 7), "unload_namespace", as_json=True)
    assert json.loads(capsys.readouterr().out)["reason"] == STAYS
    print_outcome(Outcome("c1", True, "", 7), "unload_namespace", as_json=False)
    assert capsys.readouterr().out == "accepted: unload_namespace c1, journal seq 7\n"
    with pytest.raises(typer.Exit):
        print_outcome(Outcome("c1", False, "no", 7), "unload_namespace", as_json=False)
    assert capsys.readouterr().err == "ballast: rejected: no (command c1)\n"


def test_an_accepted_order_to_pulsar_says_where_to_look_for_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("split_bundle", "unload_bundle", "unload_namespace"):
        print_outcome(Outcome("c1", True, "", 7, observed=True), kind, as_json=False)
        accepted, hint = capsys.readouterr().out.splitlines()
        assert accepted == f"accepted: {kind} c1, journal seq 7"
        assert "`ballast explain c1` tells what became of it" in hint
    print_outcome(Outcome("c1", True, "", 7, observed=True), "mode", as_json=False)
    assert "explain" not in capsys.readouterr().out, "it is carried out at once"
    print_outcome(Outcome("c1", True, "", 7, observed=True), "split_bundle", as_json=True)
    assert json.loads(capsys.readouterr().out).keys() == {"command_id", "kind", "accepted", "reason", "seq"}


@pytest.mark.parametrize("observed", [True, False])
def test_the_answer_tells_whether_pulsar_decides(observed: bool, tmp_path: Path) -> None:
    root = TableRoot(tmp_path)
    root.create_all()
    driver = observed_driver() if observed else StepDriver()
    if not observed:
        driver.join("a:1")
    driver.command("split_bundle", bundle=str(BUNDLES[0]))
    answer = next(e for e in reversed(driver.journal) if e.kind.value.startswith("command_"))
    with Operator(load_settings(None, overrides=[f"tables.root={tmp_path}"])) as operator:
        Journal(root).commit([Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0), *driver.journal], "i", 0)
        assert operator.wait(answer.command_id or "", 5.0).observed is observed


def test_so_does_the_journal(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"kind": "unload_namespace", "args": {"namespace": "t/n", "to": "b:1"}, "who": "anna", "why": "rack move"}
    print_entries([Entry(7, Kind.COMMAND_ACCEPTED, "i", 1, 0, command_id="c1", reason=STAYS, data=data)])
    assert f"{STAYS} (wanted: rack move)" in capsys.readouterr().out
