"""The journal's answer to a command, as the command line prints it."""

from __future__ import annotations

import json

import pytest
import typer

from controller.cli.look.journal import print_entries
from controller.cli.send_command import print_outcome
from controller.domain.entries import Entry, Kind
from controller.operations.operator import Outcome

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


def test_so_does_the_journal(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"kind": "unload_namespace", "args": {"namespace": "t/n", "to": "b:1"}, "who": "anna", "why": "rack move"}
    print_entries([Entry(7, Kind.COMMAND_ACCEPTED, "i", 1, 0, command_id="c1", reason=STAYS, data=data)])
    assert f"{STAYS} (wanted: rack move)" in capsys.readouterr().out
