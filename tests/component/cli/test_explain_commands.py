"""Who sent a command, why, and what became of it: in the journal, and where a bundle, a broker or the command is
explained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import main
from controller.domain.decision import Reason
from controller.domain.entries import Kind
from controller.domain.events import BrokerEvent
from controller.operations.evidence_view import EvidenceView
from controller.operations.reading import Reader
from controller.operations.why.commanded import commands_about, drains_behind
from controller.ui.cluster import LiveCluster
from controller.ui.loads import NewestLoads
from controller.ui.views.broker import broker as broker_view
from controller.ui.views.bundle import bundle as bundle_view
from tests.short_run import begin_skewed
from tests.waiting_plans import Waiting, play_approved

Tell = Callable[..., str]
SAID = "anna@ops: short run"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Waiting:
    """An operator moves a bundle, asks for what cannot be, and drains a broker."""
    played = play_approved(tmp_path_factory.mktemp("commanded") / "tables")
    played.run.command("unload_bundle", bundle=played.bundle_of(0), to="nobody:1")
    played.run.command("drain", broker="b3:8080")
    played.run.project()
    return played


@pytest.fixture
def tell(story: Waiting, capsys: pytest.CaptureFixture[str]) -> Tell:
    def call(*line: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*line, "--set", f"tables.root={story.run.root.root}"])
        assert not ended.value.code
        return capsys.readouterr().out

    return call


def answer(story: Waiting, kind: str, of: Kind = Kind.COMMAND_ACCEPTED) -> Any:
    return next(e for e in story.run.entries if e.kind is of and e.data["kind"] == kind)


def test_the_journal_gives_the_reason_of_a_command(tell: Tell) -> None:
    out = tell("journal", "--kind", "command_accepted")
    line = next(line for line in out.splitlines() if "drain" in line)
    assert " by anna@ops " in line
    assert " short run " in line
    refused = tell("journal", "--kind", "command_rejected")
    assert "'nobody:1' is no living broker" in refused
    assert "(wanted: short run)" in refused


def test_a_bundle_names_who_moved_it_and_why(story: Waiting, tell: Tell) -> None:
    text = tell("explain", story.bundle_of(0))
    assert "commands about it" in text
    assert f"commanded by {SAID}" in text
    done = [
        (row["kind"], row["outcome"]) for row in json.loads(tell("explain", story.bundle_of(0), "--json"))["commands"]
    ]
    assert done[:3] == [("drain", "accepted"), ("unload_bundle", "rejected"), ("unload_bundle", "accepted")]


def test_a_broker_names_who_drained_it_and_why(story: Waiting, tell: Tell) -> None:
    newest = json.loads(tell("explain", "b3:8080", "--json"))["commands"][0]
    assert (newest["kind"], newest["who"], newest["why"]) == ("drain", "anna@ops", "short run")
    assert "commands about it" in tell("explain", "b3:8080")


def test_a_bundle_of_a_drained_broker_names_who_drained_it_and_why(story: Waiting, tell: Tell) -> None:
    name = story.bundle_of(0)
    document = json.loads(tell("explain", name, "--json"))
    moved = next(row for row in document["decisions"] if row["reason"] == Reason.DRAINED.value)
    assert (moved["source"], moved["commanded"]) == ("b3:8080", f"commanded by {SAID}")
    assert {row["commanded"] for row in document["decisions"] if row["reason"] != Reason.DRAINED.value} == {None}
    assert document["commands"][0]["kind"] == "drain"
    words = f"the broker that has it is being emptied, commanded by {SAID}"
    assert words in tell("explain", name)
    assert words in tell("explain", moved["decision_id"])


def test_a_broker_that_leaves_after_a_drain_has_ended_was_drained_by_nobody(tmp_path: Path) -> None:
    run = begin_skewed(tmp_path, brokers=2, bundles=4, hot=0)
    drained = run.owned_by("b1:8080")[0]
    run.command("drain", broker="b1:8080")
    run.command("undrain", broker="b1:8080")
    run.command("unload_bundle", bundle=drained, to="b1:8080")
    run.batch(BrokerEvent("leaving", run.sessions["b1:8080"], run.state.seq))
    run.settle()
    reader = Reader(run.settings)
    decided = [row for row in EvidenceView(reader).decisions(bundle=drained) if row["reason"] == Reason.DRAINED.value]
    behind = drains_behind(reader, decided)
    who_drained = next(e.command_id for e in run.entries if e.kind is Kind.DRAIN)
    assert [behind.get(row["decision_id"]) for row in decided] == [None, who_drained]  # the newest first


def test_a_command_is_explained_by_its_id(story: Waiting, tell: Tell) -> None:
    entry = answer(story, "unload_bundle")
    document = json.loads(tell("explain", entry.command_id, "--json"))
    command = document["command"]
    assert (document["about"], command["seq"], command["outcome"]) == ("command", entry.seq, "accepted")
    assert (command["who"], command["why"], command["args"]["to"]) == ("anna@ops", "short run", "b3:8080")
    states = [row["state"] for row in document["journal"]]
    assert (states[0], states[-1]) == ("transferring", "owned")
    text = tell("explain", entry.command_id)
    assert "by        anna@ops" in text
    assert f"commanded by {SAID}" in text
    refused = answer(story, "unload_bundle", Kind.COMMAND_REJECTED)
    assert "rejected: 'nobody:1' is no living broker" in tell("explain", refused.command_id)


def test_a_command_is_found_by_what_it_caused_however_long_ago(story: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.operations.why.commanded.TAIL", 0)
    entry = answer(story, "unload_bundle")
    (found,) = commands_about(Reader(story.run.settings), {story.bundle_of(0)}, {entry.command_id})
    assert (found["command_id"], found["who"]) == (entry.command_id, "anna@ops")


def test_the_page_has_the_same(story: Waiting) -> None:
    cluster = LiveCluster(story.run.settings)
    cluster.poll()
    shown = bundle_view(cluster, story.bundle_of(0), story.run.now_ms)
    assert [row["who"] for row in shown["commands"][:3]] == ["anna@ops"] * 3
    assert f"commanded by {SAID}" in [row["reason"] for row in shown["entries"]]
    assert any(f"was being emptied, commanded by {SAID}" in row["sentences"][0] for row in shown["decisions"])
    drained = broker_view(cluster, NewestLoads(), "b3:8080", story.run.now_ms)
    assert drained["commands"][0]["why"] == "short run"
