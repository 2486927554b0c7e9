"""Tables that earlier versions have left behind, read and written by this one: the same cluster, the same rounds."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.config.load import load_settings
from controller.config.places import check_old_place
from controller.config.policy_values import policy_settings
from controller.config.settings import Settings
from controller.domain.apply import fold
from controller.domain.decision import FIRST_RULES
from controller.domain.entries import Entry, Kind
from controller.domain.errors import ConfigError
from controller.domain.state import ClusterState
from controller.ledger.evidence import read_joined
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.ledger.loads import loads_progress, read_panes
from controller.ledger.projections import Projections, broker_rows, override_rows, ownership_rows
from controller.ledger.snapshots import Snapshots, load_state
from controller.ledger.tables import TableRoot
from controller.policy.replay import Verdict, judge
from controller.policy.round import RoundInputs, run_with_challengers
from controller.service.rounds.process import Rounds
from controller.sim.ownership.invariants import check_fold, check_rings
from schemas.catalog import TABLES
from tests.stored_state import VERSIONS, folder_of
from tests.stored_state.archive import LIVE_RUN, unpack_live


@pytest.fixture(scope="module", params=VERSIONS)
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version's run. Read only."""
    return unpack_live(folder_of(request.param) / LIVE_RUN, tmp_path_factory.mktemp("left"))


@pytest.fixture(params=VERSIONS)
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A version's run, to be written on."""
    return unpack_live(folder_of(request.param) / LIVE_RUN, tmp_path / "run")


def settings_of(folder: Path, *more: str) -> Settings:
    places = [f"tables.root={folder}/tables", f"tables.checkpoints={folder}/checkpoints"]
    return load_settings(folder / "ballast.yaml", overrides=[*places, *more], env={})


def root_of(folder: Path) -> TableRoot:
    return TableRoot(folder / "tables")


def entries_of(folder: Path) -> list[Entry]:
    return Journal(root_of(folder)).read_since(0)


def test_a_start_beside_tables_of_0_1_0_with_another_place_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ballast.yaml").write_text("tables: {root: tables}")
    monkeypatch.chdir(unpack_live(folder_of("0_1_0") / LIVE_RUN, tmp_path / "old"))
    with pytest.raises(ConfigError, match=r"was .*/tables up to 0\.1\.0, where one is"):
        check_old_place(load_settings(tmp_path / "ballast.yaml", env={}))


def test_the_run_has_something_of_everything(left: Path) -> None:
    entries = entries_of(left)
    kinds = Counter(e.kind for e in entries)
    of_observed = {Kind.OBSERVED, Kind.RING, Kind.FACT, Kind.ORDER, Kind.ORDER_ENDED, Kind.ADOPTION}
    assert set(kinds) >= set(Kind) - {Kind.GUARD, Kind.ALARM, Kind.TOPIC_UNLOAD, Kind.PLAN} - of_observed
    ended = [e.reason for e in entries if e.kind is Kind.SESSION_ENDED]
    assert "lease" in ended
    assert {"owner_ended"} <= {e.reason for e in entries if e.kind is Kind.OWNERSHIP}
    by_rounds = [e for e in entries if e.kind is Kind.OWNERSHIP and e.state == "transferring" and e.decision_id]
    assert len(by_rounds) >= 3
    assert {e.data["override"]["kind"] for e in entries if "override" in e.data} == {"pin", "avoid", "freeze"}
    splits = [e for e in entries if e.kind is Kind.OWNERSHIP and e.state == "splitting"]
    assert {bool(e.command_id) for e in splits} == {True, False}, "one by command, one that an agent proposed"
    assert entries[-1].kind is Kind.CONTROLLER_STOPPED


def test_the_state_is_the_fold_of_the_journal(left: Path) -> None:
    entries = entries_of(left)
    state = fold(ClusterState(), entries)
    assert load_state(root_of(left)) == state
    check_fold(ClusterState(), entries, state)
    check_rings(state)
    base = Snapshots(root_of(left)).latest()
    assert base is not None
    assert fold(base, [e for e in entries if e.seq > base.seq]) == state
    follower = Follower(root_of(left))
    assert follower.bootstrap() == state


def test_the_projections_are_what_this_version_would_write(copy: Path) -> None:
    root = root_of(copy)
    state = load_state(root)
    expected = {"ownership": ownership_rows(state), "brokers": broker_rows(state), "overrides": override_rows(state)}

    def found(name: str) -> list[dict[str, object]]:
        rows = root.open(name).to_pyarrow_table().to_pylist()
        columns, key = expected[name][0], TABLES[name].names[0]
        return [_in_todays_words({k: row.get(k) for k in columns}) for row in sorted(rows, key=lambda row: row[key])]

    assert all(expected.values())
    assert {name: found(name) for name in expected} == expected
    Projections(root).write(state)
    assert {name: found(name) for name in expected} == expected
    assert Projections(root).write(state) == []


def _in_todays_words(row: dict[str, object]) -> dict[str, object]:
    """0.1.0 called a broker `ended` that is `gone`; the next write of the projection says it as today."""
    return row | {"state": "gone"} if row.get("state") == "ended" else row


def test_tables_gain_the_new_columns_when_the_journal_is_held(copy: Path) -> None:
    root = root_of(copy)
    new = [name for name in TABLES if not root.exists(name)]
    assert set(new) <= {"usage_model"}, "the tables that came after 0.1.0"
    before = {name: root.open(name).to_pyarrow_table().num_rows for name in TABLES if name not in new}
    assert root.create_all() == new
    root.gain_columns(TABLES)
    for name, record in TABLES.items():
        table = root.open(name)
        assert {f.name for f in table.schema().fields} == set(record.names)
        assert table.to_pyarrow_table().num_rows == before.get(name, 0)
    rules = root.open("rounds").to_pyarrow_table()["rules"]
    assert rules.null_count in (0, len(rules)), "a version has the column or has it not"


def test_every_round_of_the_run_comes_to_its_plan_or_was_decided_by_other_rules(left: Path) -> None:
    rows = read_joined(root_of(left), "rounds").to_pylist()
    assert len(rows) >= 6
    assert {row["challenger"] for row in rows} == {True, False}
    for row in rows:
        found = judge(json.loads(row["inputs_json"]), row["plan_hash"])
        assert found.verdict in (Verdict.EQUAL, Verdict.OTHER_RULES), found.text
        assert found.rules == (row["rules"] or FIRST_RULES)


def test_the_load_tables_give_the_round_that_was_decided_on_them(left: Path) -> None:
    """The last round of the run, read anew from the tables: the frame is the stored one."""
    entries = entries_of(left)
    (row, *_) = [
        r
        for r in sorted(read_joined(root_of(left), "rounds").to_pylist(), key=lambda r: -r["at_ms"])
        if not r["challenger"]
    ]
    stored = json.loads(row["inputs_json"])
    (ran_with,) = root_of(left).open("config_history").to_pyarrow_table()["config_json"].to_pylist()
    horizon_s = json.loads(ran_with)["loads.short_horizon_s"]["value"]  # the profile of today may say otherwise
    panes = read_panes(root_of(left), row["at_ms"], horizon_s * 1000)
    inputs = RoundInputs(
        round_id=row["round_id"],
        at_ms=row["at_ms"],
        state=fold(ClusterState(), [e for e in entries if e.seq <= row["state_seq"]]),
        brokers=panes.brokers,
        bundles=panes.bundles,
        settings=policy_settings(settings_of(left)),
    )
    result = run_with_challengers(inputs)[0]
    again = json.loads(json.dumps(result.inputs))["frame"]
    assert {k: again[k] for k in ("brokers", "at_ms", "mode", "overrides")} == {
        k: stored["frame"][k] for k in ("brokers", "at_ms", "mode", "overrides")
    }


def test_the_round_worker_goes_on_with_a_commanded_round(copy: Path) -> None:
    root = root_of(copy)
    state = load_state(root)
    progress = loads_progress(root)
    assert progress is not None
    wish = replace(entries_of(copy)[-1], seq=state.seq + 1, kind=Kind.COMMAND_ACCEPTED, instance="new", batch=0,
                   command_id="c", data={"kind": "round_now", "args": {}, "who": "t"})  # fmt: skip
    Journal(root).commit([wish], "new", 0)
    done = Rounds(settings_of(copy), every_round=False).advance()
    assert done is not None
    (result, challenger) = done.results
    assert result.at_ms >= state.round_at_ms
    assert challenger.strategy == "threshold", "as the command in the journal says"
    assert len(result.scores) >= len(state.live_brokers())
    assert judge(json.loads(json.dumps(result.inputs)), result.plan_hash).verdict is Verdict.EQUAL


@pytest.mark.parametrize(
    "command",
    ["status --offline", "brokers", "bundles", "rounds", "replay", "decisions --skips", "journal", "override list"],
)
def test_commands_read_the_tables_before_anything_was_added(
    left: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--json", "--set", f"tables.root={left}/tables"])
    told = capsys.readouterr()
    assert ended.value.code == (1 if command.startswith("status") else 0), told.err  # the controller has stopped
    assert json.loads(told.out)
