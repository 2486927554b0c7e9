"""A state survives its own encoding, and folds on in the same way afterwards (I4 from a base snapshot)."""

from __future__ import annotations

import json

import pytest

from controller.domain import apply
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import InvariantBroken
from controller.domain.ids import Bundle
from controller.domain.state import ClusterState
from controller.domain.state_codec import decode, encode
from tests.unit.control.observed_driver import BUNDLES, observed_driver
from tests.unit.control.step_driver import StepDriver


def test_a_busy_state_comes_back_equal() -> None:
    driver = StepDriver()
    a, b = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=4)
    bundles = driver.state.namespaces["t/n"]
    driver.own(a, bundles[0])
    driver.command("unload_bundle", bundle=str(bundles[0]), to="b:1")
    driver.command("drain", broker="b:1")
    driver.own(a, bundles[1])
    driver.command("split_bundle", bundle=str(bundles[1]), unload=True)
    driver.command("strategy", strategy="headroom", challengers=["headroom", "threshold"])
    driver.command("override", override="pin", bundle=str(bundles[0]), broker="a:1", until_ms=5_000_000)
    driver.command("override", override="exclude_namespace", namespace="t/n")
    assert (len(driver.state.overrides), driver.state.challengers) == (2, ("threshold",))
    assert decode(encode(driver.state)) == driver.state
    assert encode(decode(encode(driver.state))) == encode(driver.state)
    assert b in driver.state.sessions


def test_an_observed_cluster_comes_back_equal() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="b:1")
    driver.command("unload_bundle", bundle=str(BUNDLES[1]), to="a:1")
    driver.end_order(BUNDLES[1], "stayed", owner="b:1")
    driver.command("split_bundle", bundle=str(BUNDLES[2]))
    driver.end_order(BUNDLES[2], "failed")
    state = driver.state
    assert (len(state.observed.orders), len(state.observed.blocks)) == (1, 2)
    assert state.observed.range_blocks
    assert decode(encode(state)) == state
    assert encode(decode(encode(state))) == encode(state)


def test_an_adoption_comes_back_and_older_snapshots_have_none() -> None:
    driver = observed_driver()
    older = json.loads(encode(driver.state))
    del older["observed_cluster"]["adoption"]
    assert decode(json.dumps(older)) == driver.state
    assert driver.state.observed.adoption is None
    driver.command("adopt", before={"loadBalancerSheddingEnabled": "true", "loadBalancerAutoBundleSplitEnabled": None})
    driver.command("release")
    assert decode(encode(driver.state)) == driver.state
    newer = json.loads(encode(driver.state))
    newer["observed_cluster"]["adoption"]["tide"] = "high"
    assert decode(json.dumps(newer)) == driver.state
    del newer["observed_cluster"]["adoption"]["cluster"]
    assert decode(json.dumps(newer)) == driver.state, "older versions did not keep the cluster's name"


def test_a_journal_and_its_snapshots_of_an_older_version_have_no_id() -> None:
    older = [Entry(1, Kind.CONTROLLER_STARTED, "i", -1, 0, data={"version": "0.1.0"})]
    before = fold(ClusterState(), older)
    assert (before.journal_id, before.epoch_floor) == (None, 0)
    document = json.loads(encode(before))
    del document["journal_id"], document["epoch_floor"]
    assert decode(json.dumps(document)) == before
    named = fold(before, [Entry(2, Kind.CONTROLLER_STARTED, "k", -1, 0, data={"journal_id": "j", "epoch_floor": 7})])
    assert (named.journal_id, named.epoch_floor) == ("j", 7)
    assert decode(encode(named)) == named
    later = fold(named, [Entry(3, Kind.CONTROLLER_STARTED, "l", -1, 0, data={"version": "0.1.0"})])
    assert (later.journal_id, later.epoch_floor) == ("j", 7), "an older version in between takes nothing away"
    with pytest.raises(InvariantBroken, match="entry 4 is of journal other"):
        fold(later, [Entry(4, Kind.CONTROLLER_STARTED, "m", -1, 0, data={"journal_id": "other"})])


def test_new_bundles_begin_above_what_another_journal_granted() -> None:
    names = {"namespace": "t/n", "bundles": ["t/n/0x00000000_0xffffffff"]}
    begun = Entry(1, Kind.CONTROLLER_STARTED, "i", -1, 0, data={"journal_id": "j", "epoch_floor": 41})
    state = fold(ClusterState(), [begun, Entry(2, Kind.NAMESPACE_CREATED, "i", 0, 0, data=names)])
    assert [record.epoch for record in state.bundles.values()] == [41], "the first grant burns the next one"


def test_the_oldest_commands_are_forgotten_first_also_after_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dictionaries compare equal in any order; but a command that is forgotten too early is carried out again when
    Kafka delivers it again, and two agents with different orders forget different ones."""
    monkeypatch.setattr(apply, "COMMANDS_KEPT", 3)
    names = ["c", "b", "a", "d"]
    entries = [Entry(i, Kind.COMMAND_ACCEPTED, "i", 0, 0, command_id=name) for i, name in enumerate(names, 1)]
    resumed = decode(encode(fold(ClusterState(), entries[:3])))
    assert list(resumed.commands) == ["c", "b", "a"]
    assert list(fold(resumed, entries[3:]).commands) == list(fold(ClusterState(), entries).commands) == ["b", "a", "d"]


def test_ownership_entries_say_all_that_the_record_holds() -> None:
    driver = StepDriver()
    a = driver.join("a:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, Bundle("t/n", 0, 0xFFFFFFFF))
    for entry in driver.journal:
        again = Entry.from_row(entry.to_row())
        assert again == entry
