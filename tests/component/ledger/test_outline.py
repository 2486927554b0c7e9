"""The outline says what the whole state says: of the bundles that it has, and by counts of the others."""

from __future__ import annotations

import random
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import controller.ledger.partial.outline as outline_module
from controller.domain.apply import fold
from controller.domain.entries import Entry
from controller.domain.ids import Bundle
from controller.domain.ownership import IN_FLIGHT
from controller.domain.state import ClusterState
from controller.domain.state_codec import encode
from controller.ledger.append import append_rows
from controller.ledger.journal_commit import Journal
from controller.ledger.partial.outline import Outline, load_outline, outline_of
from controller.ledger.snapshots import Snapshots, load_state
from controller.ledger.tables import TableRoot
from controller.operations.bundles import count_bundles, ownership_row
from tests.component.ledger.ledger_history import History
from tests.examples import examples
from tests.unit.control.observed_driver import BUNDLES, observed_driver
from tests.unit.control.step_driver import StepDriver

HISTORY = History()
LAST = len(HISTORY.entries)
PARTIAL = ("bundles", "holdings", "namespaces")


def check(outline: Outline, whole: ClusterState, names: tuple[str, ...] = ()) -> None:
    """Compare an outline with the state that it is of."""
    part = outline.state
    for one in fields(ClusterState):
        if one.name not in PARTIAL:
            assert getattr(part, one.name) == getattr(whole, one.name), one.name
    assert part.bundles == {name: whole.bundles[name] for name in part.bundles}
    assert not part.bundles.keys() & outline.rest.keys()
    assert part.bundles.keys() | outline.rest.keys() == whole.bundles.keys()
    assert set(names) & whole.bundles.keys() <= part.bundles.keys()
    assert {n for n, r in whole.bundles.items() if r.state in IN_FLIGHT} <= part.bundles.keys()
    for name, row in outline.rest.items():
        record = whole.bundles[name]
        own = ownership_row(record)
        assert (row.state.value, row.epoch, row.seq) == (own["state"], own["epoch"], own["entry_seq"])
        assert (row.by, row.to) == tuple(str(one) if one else None for one in (record.by, record.to))
    assert outline.namespaces == len(whole.namespaces)
    assert all(whole.namespaces[name] == ring for name, ring in part.namespaces.items())
    assert count_bundles(outline) == count_bundles(Outline.of_state(whole))


@pytest.mark.parametrize("cut", range(LAST + 1))
def test_from_every_snapshot_of_a_history_with_moves_a_split_and_a_lost_session(cut: int) -> None:
    base = fold(ClusterState(), HISTORY.entries[:cut])
    outline = outline_of(encode(base), HISTORY.entries[cut:])
    check(outline, fold(base, HISTORY.entries[cut:]))


def random_history(seed: int) -> list[Entry]:
    """What a controller journals while clients, operators and brokers do this and that."""
    dice, driver = random.Random(seed), StepDriver()
    for broker in ("a:1", "b:1", "c:1"):
        driver.join(broker)
    driver.command("create_namespace", namespace="t/n", bundles=8)
    for number in range(25):
        bundles = sorted(driver.state.bundles)
        bundle, session = dice.choice(bundles), driver.sessions[dice.choice(sorted(driver.sessions))]
        match dice.randrange(6):
            case 0:
                driver.say(session, dice.choice(["serving", "released", "split_done"]), Bundle.parse(bundle))
            case 1:
                driver.command("unload_bundle", bundle=bundle, to=session.broker)
            case 2:
                driver.command("split_bundle", bundle=bundle)
            case 3:
                driver.command("create_namespace", namespace=f"t/n{number}", bundles=2)
            case 4:
                driver.command("drain" if dice.random() < 0.5 else "undrain", broker=session.broker)
            case 5:
                driver.wait(1_000)
    return [HISTORY.entries[0], *driver.journal]


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1_000), share=st.floats(0, 1), picks=st.lists(st.integers(0, 7), max_size=2))
def test_on_random_journals(seed: int, share: float, picks: list[int]) -> None:
    entries = random_history(seed)
    cut = int(share * len(entries))
    base = fold(ClusterState(), entries[:cut])
    whole = fold(base, entries[cut:])
    names = tuple(sorted(whole.bundles)[pick % len(whole.bundles)] for pick in picks)
    check(outline_of(encode(base), entries[cut:], names), whole, names)


def test_an_observed_cluster_is_there_as_a_whole() -> None:
    driver = observed_driver()
    base = driver.state
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="b:1")
    entries = [entry for entry in driver.journal if entry.seq > base.seq]
    outline = outline_of(encode(base), entries)
    assert entries
    assert outline.state.observed == driver.state.observed
    assert outline.state.holdings == driver.state.holdings
    check(outline, driver.state)


def test_a_newer_version_may_have_written_more() -> None:
    base = fold(ClusterState(), HISTORY.entries)
    text = encode(base).replace('"epoch":', '"tide":"high","epoch":')
    check(outline_of(text, []), base)


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    tables = TableRoot(tmp_path / "tables")
    tables.create_all()
    HISTORY.commit(Journal(tables))
    return tables


def test_it_is_read_from_the_newest_snapshot_and_the_entries_after_it(root: TableRoot) -> None:
    whole = load_state(root)
    for seq in (8, 20):
        Snapshots(root).save(fold(ClusterState(), HISTORY.entries[:seq]), at_ms=1)
    name = sorted(whole.bundles)[0]
    outline = load_outline(root, (name,))
    check(outline, whole, (name,))
    Snapshots(root).save(whole, at_ms=2)
    outline = load_outline(root, (name,))
    check(outline, whole, (name,))
    assert name not in outline.rest
    assert outline.rest, "nothing else needs a record"


@pytest.mark.parametrize("text", ["no JSON", "{}", '{"bundles": {"t/n/0x00000000_0xffffffff": {"state": "adrift"}}}'])
def test_what_cannot_be_read_is_left_to_the_whole_state(
    root: TableRoot, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, asked = load_state(root), []
    monkeypatch.setattr(outline_module, "load_state", lambda tables: asked.append(tables) or load_state(tables))
    check(load_outline(root), whole)
    assert len(asked) == 1, "there is no snapshot"
    append_rows(root, "control_state", [{"seq": 9, "instance": "i", "at_ms": 1, "state_json": text}])
    check(load_outline(root), whole)
    assert len(asked) == 2


def test_without_tables_it_is_of_an_empty_state(tmp_path: Path) -> None:
    assert load_outline(tmp_path / "nowhere") == Outline.of_state(ClusterState())
