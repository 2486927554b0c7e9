"""What `ballast status` says when somebody of another journal uses the same topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.look.status import _facts
from controller.config.sections.platform import Tables
from controller.config.settings import Settings
from controller.domain.entries import Entry, Kind
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.liveness import Heard
from controller.operations.overview import status
from controller.operations.reading import Reader

NOW_MS = 1_700_000_000_000


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """A journal `ours` that has alarmed of three strays."""
    settings = Settings(tables=Tables(root=str(tmp_path / "tables")))
    root = TableRoot(settings.tables.root)
    root.create_all()
    alarms = [
        ("stray_controller", None, {"journal_id": "other", "instance": "c9"}),
        ("stray_agent", "b:1", {"journal_id": "third", "session": "b:1#1.n.1"}),
        ("stray_agent", "d:1", {"journal_id": "", "session": "d:1#1.n.1"}),
        ("stray_command", None, {"journal_id": "fourth", "who": "ann@h", "kind": "mode", "command_id": "c0"}),
    ]
    entries = [Entry(1, Kind.CONTROLLER_STARTED, "c1", 0, NOW_MS - 9_000, data={"journal_id": "ours"})]
    for seq, (reason, broker, data) in enumerate(alarms, 2):
        entries.append(Entry(seq, Kind.ALARM, "c1", 0, NOW_MS - 5_000, reason=reason, broker=broker, data=data))
    Journal(root).commit(entries, "c1", 0)
    return Reader(settings)


def test_strays_are_problems_and_the_journal_is_named(reader: Reader) -> None:
    found = status(reader, NOW_MS, Heard("c1", NOW_MS - 100, "ours"), None)
    assert found["controller"]["alive"] is True
    assert [text.split(" spoke")[0] for text in found["problems"]] == [
        "stray controller: c9 of journal other",
        "stray agent: b:1#1.n.1 of journal third",
        "stray agent: d:1#1.n.1 whose tables hold no journal",
        "stray command: ann@h sent mode for journal fourth to these topics, which are this journal's, ours: "
        "it was ignored (docs/recovery.md)",
    ]
    assert "id ours" in dict(_facts({"cluster": "c", "tables": "t", **found}))["journal"]


def test_another_journals_controller_is_not_taken_for_this_ones(reader: Reader) -> None:
    found = status(reader, NOW_MS, Heard("c9", NOW_MS - 100, "other"), None)
    assert found["controller"]["alive"] is False
    assert any("used by controller c9 of journal other" in text for text in found["problems"])
    older = status(reader, NOW_MS, Heard("c1", NOW_MS - 100), None)
    assert older["controller"]["alive"] is True, "an older version does not name its journal"


def test_what_the_controller_runs_on_is_shown_while_it_lives(reader: Reader) -> None:
    engine = {"spark": "4.0.0", "master": "spark://m:7077", "executors": 2, "cores": 8}
    found = status(reader, NOW_MS, Heard("c1", NOW_MS - 100, "ours", engine), None)
    assert found["controller"]["engine"] == engine
    line = dict(_facts({"cluster": "c", "tables": "t", **found}))["controller"]
    assert line.endswith("; Spark 4.0.0 at spark://m:7077, 2 executors, 8 cores")
    local = {**engine, "master": "local[2]", "executors": 0, "cores": 2}
    found = status(reader, NOW_MS, Heard("c1", NOW_MS - 100, "ours", local), None)
    line = dict(_facts({"cluster": "c", "tables": "t", **found}))["controller"]
    assert line.endswith("; Spark 4.0.0 at local[2], 2 cores")
    silent = status(reader, NOW_MS, Heard("c1", NOW_MS - 60_000, "ours", engine), None)
    assert silent["controller"]["engine"] is None, "nobody knows what it runs on now"
    older = status(reader, NOW_MS, Heard("c1", NOW_MS - 100, "ours"), None)
    assert "Spark" not in dict(_facts({"cluster": "c", "tables": "t", **older}))["controller"]
