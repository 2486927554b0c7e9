"""A state survives its own encoding, and folds on in the same way afterwards (I4 from a base snapshot)."""

from __future__ import annotations

from controller.domain import apply
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.events import BrokerEvent, Heartbeat
from controller.domain.ids import Bundle, Session
from controller.domain.state import ClusterState
from controller.domain.state_codec import decode, encode
from tests.unit.step_driver import StepDriver


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
    driver.run(Heartbeat(Session("p:1", 1, "n9", 1), 0, {"runtime": "pulsar"}))
    pulsar = Session("p:1", 1, "n9", 1)
    driver.run(BrokerEvent("observed", pulsar, 1, serving={"t/x/0x00000000_0xffffffff": 1}))
    driver.command("strategy", strategy="headroom", challengers=["headroom", "threshold"])
    driver.command("override", override="pin", bundle=str(bundles[0]), broker="a:1", until_ms=5_000_000)
    driver.command("override", override="exclude_namespace", namespace="t/n")
    assert (len(driver.state.overrides), driver.state.challengers) == (2, ("threshold",))
    assert decode(encode(driver.state)) == driver.state
    assert encode(decode(encode(driver.state))) == encode(driver.state)
    assert b in driver.state.sessions


def test_the_oldest_commands_are_forgotten_first_also_after_a_snapshot(monkeypatch) -> None:
    monkeypatch.setattr(apply, "COMMANDS_KEPT", 3)
    entries = [Entry(i, Kind.COMMAND_ACCEPTED, "i", 0, 0, command_id=f"c{9 - i}") for i in range(1, 7)]
    whole = fold(ClusterState(), entries)
    resumed = fold(decode(encode(fold(ClusterState(), entries[:3]))), entries[3:])
    assert list(resumed.commands) == list(whole.commands) == ["c5", "c4", "c3"]


def test_ownership_entries_say_all_that_the_record_holds() -> None:
    driver = StepDriver()
    a = driver.join("a:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, Bundle("t/n", 0, 0xFFFFFFFF))
    for entry in driver.journal:
        again = Entry.from_row(entry.to_row())
        assert again == entry
