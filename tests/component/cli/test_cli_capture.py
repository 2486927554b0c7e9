"""`ballast capture`: a slice is a cluster's tables to every reader, and its rounds come to the same plans."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow.compute as pc
import pytest

from controller.backtest.recording.input import read_input
from controller.cli.main import main
from controller.config.load import load_settings
from controller.config.policy_values import policy_settings
from controller.domain.apply import fold
from controller.domain.ids import Bundle
from controller.domain.settings.placement import IsolationPolicy
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.ledger.snapshots import Snapshots
from controller.ledger.store import room
from controller.ledger.tables import TableRoot
from controller.loads.recorded import Overrides
from controller.operations.capture import capture
from controller.operations.text import time_text
from controller.ui.page import Page
from controller.ui.security import Rules, hosts_of
from schemas.catalog import TABLES
from tests.component.cli.conftest import Ballast
from tests.short_run import OVERRIDES, START_MS, ShortRun

Ask = Callable[..., Any]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """The JSON document of a command on a slice."""

    def call(folder: Path, line: str, code: int | None = 0) -> Any:
        """`code`: None for any, as a finding may be this machine's."""
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), "--conf", str(folder / "ballast.yaml"), "--json"])
        told = capsys.readouterr()
        assert (code is None or (ended.value.code or 0) == code, told.err) == (True, "")
        return json.loads(told.out)

    return call


def captured(ballast: Ballast, folder: Path, *more: str, since: int = START_MS) -> dict[str, Any]:
    code, out, err = ballast("capture", str(folder), "--since", str(since), *more, "--json")
    assert (code, err) == (0, "")
    return dict(json.loads(out))


def test_a_full_disk_is_that_of_the_slice(ballast: Ballast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = tmp_path / "slice"
    to_do = f"; remove {folder}, and make room there or give a folder of another disk\n"
    monkeypatch.setattr(capture, "write_about", full)
    code, _, err = ballast("capture", str(folder), "--since", str(START_MS))
    assert (code, err) == (1, f"ballast: no room for the slice in {folder}: No space left on device{to_do}")
    shutil.rmtree(folder)
    monkeypatch.setattr(room, "_try_to_write", full)
    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: MagicMock(total=3 << 20, free=4096))
    code, _, err = ballast("capture", str(folder), "--since", str(START_MS))
    assert code == 1
    assert err.startswith(f"ballast: no room for table {folder}/tables/")
    assert err.endswith(f"(4 KiB of 3 MiB are free){to_do}")


def test_all_of_a_run_is_the_run_again(ballast: Ballast, ask: Ask, run: ShortRun, tmp_path: Path) -> None:
    about = captured(ballast, tmp_path / "all")
    root = TableRoot(tmp_path / "all" / "tables")
    assert Follower(root).bootstrap() == Follower(run.root).bootstrap()
    assert Journal(root).read_since(0) == Journal(run.root).read_since(0)
    for name in ("rounds", "decisions", "broker_scores"):
        attempts = {e.attempt_id for e in run.entries}
        theirs = run.root.open(name).to_pyarrow_table().to_pylist()
        expected = [row for row in theirs if row["attempt_id"] in attempts]
        assert about["rows"][name] == len(expected)
        assert name != "rounds" or len(expected) < len(theirs), "what no entry names stays behind"
    for name in ("broker_panes", "bundle_panes", "broker_load", "bundle_load", "quarantine", "config_history"):
        assert about["rows"][name] == run.root.open(name).to_pyarrow_table().num_rows, name
    replayed = ask(tmp_path / "all", "replay --all")
    assert replayed["equal"] == replayed["compared"] == about["rounds"] >= 6
    own = [part for given in OVERRIDES for part in ("--set", given)]
    there = json.loads(ballast("plan --json --profile demo", *own)[1])
    here = ask(tmp_path / "all", "plan")
    assert {**here, "loads_age_ms": 0, "tables": "", "cluster": "", "notes": here["notes"][1:]} == {
        **there, "loads_age_ms": 0, "tables": "", "cluster": "", "notes": there["notes"][1:]
    }  # fmt: skip


def test_a_part_of_a_run_begins_and_ends_where_it_says(
    ballast: Ballast, ask: Ask, run: ShortRun, tmp_path: Path
) -> None:
    rounds = run.root.open("rounds").to_pyarrow_table().sort_by("wall_ms").to_pylist()
    since, until = rounds[1]["wall_ms"] - 500, rounds[-2]["wall_ms"] + 500
    about = captured(ballast, tmp_path / "part", "--until", str(until), since=since)
    entries = Journal(run.root).read_since(0)
    within = [e for e in entries if since <= e.at_ms <= until]
    assert (about["first_seq"], about["last_seq"]) == (within[0].seq, within[-1].seq)
    assert 0 < about["rounds"] < len(rounds)
    root = TableRoot(tmp_path / "part" / "tables")
    state = Follower(root).bootstrap()
    assert state.seq == within[-1].seq
    base = root.open("control_state").to_pyarrow_table().sort_by("seq").to_pylist()
    assert [row["seq"] for row in base] == [within[0].seq - 1, within[-1].seq]
    before = fold(type(state)(), [e for e in entries if e.seq < within[0].seq])
    assert fold(before, within) == state == Snapshots(root).latest()
    panes = root.open("broker_panes").to_pyarrow_table()["pane_end_ms"]
    first = min(row["at_ms"] for row in root.open("rounds").to_pyarrow_table().to_pylist())
    window_ms = 1_000 * run.settings.loads.short_horizon_s
    theirs = run.root.open("broker_panes").to_pyarrow_table()["pane_end_ms"].to_pylist()
    assert pc.min(panes).as_py() <= min(end for end in theirs if end > first - window_ms), "the first round's window"
    assert pc.max(panes).as_py() <= until
    replayed = ask(tmp_path / "part", "replay --all")
    assert replayed["equal"] == replayed["compared"] == about["rounds"]


def test_readers_take_a_slice_for_a_cluster(ballast: Ballast, ask: Ask, run: ShortRun, tmp_path: Path) -> None:
    folder = tmp_path / "slice"
    captured(ballast, folder)
    assert ask(folder, "doctor --offline", code=1)["counts"]["severe"] >= 1, "loads of another year"
    brokers = {row["broker"]: row["bundles"] for row in ask(folder, "brokers")}
    assert brokers == {row["broker"]: row["bundles"] for row in json.loads(ballast("brokers --json")[1])}
    decision = ask(folder, "decisions")[0]
    assert ask(folder, f"explain {decision['decision_id']}")["decision"]["evidence"] == decision["evidence"]
    assert ask(folder, "quarantine list --since 2000-01-01")["total"] == 4
    recording = read_input(str(folder / "tables"), None, Overrides(), tmp_path / "refused").recording
    theirs = read_input(run.root.root, None, Overrides(), tmp_path / "refused").recording
    assert (recording.brokers, recording.bundles) == (theirs.brokers, theirs.bundles)
    page = Page(load_settings(folder / "ballast.yaml", env={}), Rules(hosts_of("127.0.0.1", ())), ask_kafka=False)
    page.cluster.poll()
    assert page.cluster.state().seq == run.state.seq


def test_the_doctor_judges_a_slice_as_of_its_end(ballast: Ballast, ask: Ask, run: ShortRun, tmp_path: Path) -> None:
    folder = tmp_path / "slice"
    captured(ballast, folder, "--until", str(run.now_ms))
    told = ask(folder, "doctor --offline", code=None)
    of = {row["check"]: row for row in told["findings"]}
    assert (of["loads"]["severity"], of["rounds"]["severity"]) == ("ok", "ok"), "loads of another year"
    assert of["slice"]["severity"] == "note"
    assert f"all below is as of its end, {time_text(run.now_ms)} UTC" in of["slice"]["text"]
    (folder / "capture.json").write_text("[]")
    of = {row["check"]: row for row in ask(folder, "doctor --offline", code=1)["findings"]}
    assert "slice" not in of
    assert of["loads"]["severity"] == "severe"


def test_nothing_is_to_be_started_for_a_slice(
    ballast: Ballast, ask: Ask, run: ShortRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "slice"
    captured(ballast, folder, "--until", str(run.now_ms))
    checks = [row["check"] for row in ask(folder, "doctor", code=None)["findings"]]
    assert "kafka" not in checks
    told = ask(folder, "status", code=None)
    assert told["slice_until_ms"] == run.now_ms
    assert told["last_round"]["age_ms"] < 60_000, "as of its end"
    assert not [problem for problem in told["problems"] if "Kafka" in problem or "ballast run" in problem]
    planned = ask(folder, "plan")
    assert planned["notes"][0] == "These tables are a captured slice: nobody carries this out."
    assert planned["loads_age_ms"] < 60_000, "as of its end"
    with pytest.raises(SystemExit):
        main(["repair", "--conf", str(folder / "ballast.yaml")])
    assert "a captured slice has no Kafka to ask" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["status", "--conf", str(folder / "ballast.yaml")])
    assert f"slice        captured, until {time_text(run.now_ms)} UTC" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["mode", "live", "--conf", str(folder / "ballast.yaml")])
    assert ended.value.code
    assert "nothing was sent: these tables are a captured slice" in capsys.readouterr().err


def test_status_reads_what_a_slice_says_of_itself_once(
    ballast: Ballast, ask: Ask, run: ShortRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opened = tmp_path / "slice", list[Path]()
    captured(ballast, folder, "--until", str(run.now_ms))
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path) or read_bytes(path))
    ask(folder, "status --offline", code=None)
    assert [path for path in opened if path.name == "capture.json"] == [folder / "capture.json"]


def test_hashed_names_leave_nothing_of_the_names_and_the_same_plans(
    ballast: Ballast, ask: Ask, run: ShortRun, tmp_path: Path
) -> None:
    folder = tmp_path / "hashed"
    about = captured(ballast, folder, "--hash-names")
    assert about["rounds_unlike"] == []
    replayed = ask(folder, "replay --all")
    assert replayed["equal"] == replayed["compared"] == about["rounds"] >= 6
    texts = [path.read_text() for path in folder.glob("*.*")]
    root = TableRoot(folder / "tables")
    texts += [json.dumps(root.open(name).to_pyarrow_table().to_pylist()) for name in TABLES]
    for name in ("b1:", "b2:", "shop", "/orders", "clicks", "paid", "anna", "short run", "nobody:1", ":8080", "acme"):
        assert [text[max(0, text.find(name) - 80) : text.find(name) + 40] for text in texts if name in text] == [], name
    state = Follower(root).bootstrap()
    owned = [(record.epoch, record.state) for record in sorted(state.bundles.values(), key=lambda r: r.bundle)]
    theirs = [(record.epoch, record.state) for record in sorted(run.state.bundles.values(), key=lambda r: r.bundle)]
    assert owned == theirs, "aliases are in the order of the names"
    entries = Journal(root).read_since(0)
    assert fold(type(state)(), entries) == state
    moved = [row for row in ask(folder, "decisions") if row["outcome"] == "executed" and row["kind"] == "transfer"]
    assert moved
    assert {row["source"].partition("-")[0] for row in moved} == {"broker"}
    stored = {row["attempt_id"]: row["plan_hash"] for row in root.open("rounds").to_pyarrow_table().to_pylist()}
    assert {e.attempt_id: e.data["plan_hash"] for e in entries if "plan_hash" in e.data} == stored


def test_the_command_that_replays_a_slice_can_be_typed(ballast: Ballast, tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    code, out, _ = ballast("capture", str(folder), "--since", str(START_MS))
    assert code == 0
    assert out.endswith(f"\nballast replay --all --conf '{folder}/ballast.yaml'\n")


def test_what_cannot_be_captured_is_one_line(ballast: Ballast, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for words, code, wrong in (
        ((str(tmp_path / "full"), "--since", "1h"), 2, "is not empty: give a folder that is new"),
        ((str(tmp_path / "a"), "--since", "1h"), 1, "the journal has no entry between"),
        ((str(tmp_path / "a"), "--since", "2026-01-02", "--until", "2026-01-01"), 2, "is not before --until"),
        ((str(tmp_path / "a"), "--since", "noon"), 2, "--since 'noon' is no time"),
    ):
        found, _, err = ballast("capture", *words)
        assert (found, wrong in err, err.count("\n")) == (code, True, 1), err
    assert not (tmp_path / "a").exists()


def test_a_cluster_with_rules_of_placement_keeps_its_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ShortRun(tmp_path / "tables")
    for broker in ("b1:8080", "b2:8080"):
        run.join(broker)
    rules = IsolationPolicy("own", namespaces=("shop/.*",), primary=("b1.*",))
    run.command("create_namespace", namespace="shop/orders", bundles=2)
    run.look_up(*map(Bundle.parse, run.state.bundles))
    run.load.rates = dict.fromkeys(run.state.bundles, 1_000.0)
    run.panes(3)
    policy = policy_settings(run.settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "tests.short_run.policy_settings",
            lambda settings: replace(policy, placement=replace(policy.placement, isolation=(rules,))),
        )
        run.round()
    sets = ("--set", f"tables.root={run.root.root}")
    with pytest.raises(SystemExit) as ended:
        main(["capture", str(tmp_path / "hashed"), "--since", str(START_MS), "--hash-names", *sets])
    err = capsys.readouterr().err
    assert (ended.value.code, err.count("\n")) == (2, 1)
    assert "--hash-names: rules of placement name brokers and namespaces by patterns" in err
    with pytest.raises(SystemExit) as ended:
        main(["capture", str(tmp_path / "plain"), "--since", str(START_MS), *sets])
    assert not ended.value.code


def test_the_number_of_rounds_and_the_tables_are_told_apart(ballast: Ballast, tmp_path: Path) -> None:
    code, out, err = ballast("capture", str(tmp_path / "slice"), "--since", str(START_MS))
    assert (code, err) == (0, "")
    names = [line.partition("  ")[0] for line in out.splitlines() if line and not line.startswith("ballast ")]
    assert len(names) == len(set(names))
    assert {"rounds", "table rounds", "journal", "table journal"} <= set(names)
