"""Whoever may speak says anything: living sessions about bundles and facts, operators in the arguments of commands.

The step refuses it or journals it. What is journaled can be applied, stored in every table and sent on the feed, and
the controller goes on: it answers the honest command that follows, and a round finds its rules of placement.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.bus.producer import to_json
from controller.domain import facts
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BadRecord
from controller.domain.events import (
    Heartbeat,
    parse_broker_event,
    parse_command,
    parse_heartbeat,
)
from controller.domain.ids import Bundle, Session
from controller.domain.pulsar_policies import find_placement
from controller.domain.settings.placement import PlacementSettings
from controller.domain.state_codec import decode, encode
from controller.ledger.projections import broker_rows, override_rows, ownership_rows
from schemas.arrow import arrow_table
from schemas.control_tables import BROKERS, OVERRIDES, OWNERSHIP
from schemas.journal import JOURNAL
from tests.fuzz.hostile import HOSTILE, change, write
from tests.fuzz.limits import bounded, check_error, fuzzing
from tests.unit.control.observed_driver import BUNDLES, RING, ObservedDriver, observed_driver
from tests.unit.control.step_driver import StepDriver, with_settings

WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)
NAME, FIRST = str(WHOLE), str(BUNDLES[0])
FACTS: list[dict[str, Any]] = [
    {"key": "broker:a:1", "value": {"manager": "modular", "version": "4.0.8", "load_balancer": True, "shedding": False,
                                    "auto_split": False, "failure_domains": True, "excluded_namespaces": ["t/n"],
                                    "syncer": "None", "unload_timeout_ms": 60_000, "stats_period_ms": 5_000}},
    {"key": "leader", "value": {"broker": "a:1"}},
    {"key": "suspect:b:1", "value": {"why": "it does not answer"}},
    {"key": "denied", "value": {"why": "401"}},
    {"key": "isolation:p", "value": {"namespaces": ["t/.*"], "primary": ["a.*"], "secondary": ["b"],
                                     "auto_failover_policy": {"policy_type": "min_available",
                                                              "parameters": {"min_limit": "1",
                                                              "usage_threshold": "80"}}}},
    {"key": "failure_domain:d", "value": {"brokers": ["a:1"], "enabled": True}},
    {"key": "anti_affinity:t/n", "value": {"group": "g"}},
    {"key": "non_persistent:t/n", "value": {"ranges": ["0x00000000_0x40000000"]}},
]  # fmt: skip
OBSERVED: list[dict[str, Any]] = [
    *({"kind": "fact", "data": fact} for fact in FACTS),
    *({"kind": "fact", "data": {"key": fact["key"], "value": None}} for fact in FACTS[:2]),
    {"kind": "observed", "data": {"added": [str(BUNDLES[1])], "removed": [FIRST], "confirmed": [FIRST],
                                  "disputed": [FIRST], "agreed": [str(BUNDLES[3])], "requested_seq": 3}},
    {"kind": "observed", "serving": {FIRST: 0, str(BUNDLES[2]): 0}},
    {"kind": "ring", "data": {"namespace": "t/n", "boundaries": list(RING)}},
    {"kind": "ring", "data": {"namespace": "t/n", "boundaries": []}},
    {"kind": "order_ended", "bundle": FIRST, "epoch": 0,
     "data": {"id": "c2:0x00000000_0x40000000", "outcome": "moved", "owner": "b:1", "ended_at_ms": 5, "took_ms": 9,
              "detail": "", "sent": True}},
    {"kind": "goodbye", "reason": "unlisted"}, {"kind": "leaving"}, {"kind": "inventory", "serving": {}},
]  # fmt: skip
OWNING: list[dict[str, Any]] = [
    *({"kind": kind, "bundle": NAME, "epoch": 1, "reason": "r"} for kind in ("accepted", "serving", "released",
    "fenced")),
    {"kind": "split_proposed", "bundle": NAME, "epoch": 1, "boundary": 2**31, "reason": "topics",
    "data": {"topics": 9}},
    {"kind": "split_done", "bundle": NAME, "epoch": 2,
     "data": {"lower_load": 1, "upper_load": 2.5, "best_boundary": 2**30, "best_lower_load": 1, "best_upper_load": 1}},
    {"kind": "inventory", "serving": {NAME: 1}}, {"kind": "observed", "serving": {NAME: 1}},
    {"kind": "leaving"}, {"kind": "goodbye", "reason": "x"}, {"kind": "fact", "data": FACTS[0]},
]  # fmt: skip
INFO = {"runtime": "reference", "authority": "journal", "can_fence": True, "version": "4.0.8-rc.1", "pid": 3,
        "lookup_url": "http://a:2", "data_address": "a:3", "capacity": {"cpu_pct": 200.0}}  # fmt: skip
COMMANDS: list[tuple[str, dict[str, Any]]] = [
    ("create_namespace", {"namespace": "t/m", "bundles": 4}), ("create_topic", {"topic": "persistent://t/n/x",
    "partitions": 2}),
    ("unload_bundle", {"bundle": NAME, "to": "b:1"}), ("unload_namespace", {"namespace": "t/n", "to": "b:1"}),
    ("unload_topic", {"topic": "persistent://t/n/x"}), ("split_bundle", {"bundle": NAME, "boundary": 2**31,
    "unload": True}),
    ("split_bundle", {"bundle": FIRST, "boundary": 2**20}), ("drain", {"broker": "a:1"}), ("undrain",
    {"broker": "a:1"}),
    ("mode", {"mode": "paused"}), ("strategy", {"strategy": "steady", "challengers": ["headroom"]}),
    ("override", {"override": "pin", "bundle": NAME, "broker": "a:1", "until_ms": 2_000_000_000_000}),
    ("override", {"override": "exclude_namespace", "namespace": "t/n"}), ("end_override", {"id": "c1"}),
    ("approve", {"round": "r1"}), ("decline", {"round": "r1"}), ("round_now", {}), ("thaw", {}), ("release", {}),
    ("adopt", {"before": {"loadBalancerSheddingEnabled": "true", "loadBalancerAutoBundleSplitEnabled": None}}),
    ("end_release", {}),
]  # fmt: skip


def owning_driver() -> StepDriver:
    """Two brokers that follow the journal, one bundle, and rules that ask for versions."""
    driver = StepDriver(with_settings(placement=PlacementSettings(prefer_later_versions=True)))
    a = driver.join("a:1", version="4.0.8")
    driver.join("b:1", version="4.0.8-rc.1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    return driver


def ordering_driver() -> ObservedDriver:
    """A Pulsar cluster with an open order."""
    driver = observed_driver()
    driver.command("unload_bundle", bundle=FIRST, to="b:1")
    return driver


@st.composite
def said(draw: st.DrawFn, valid: list[dict[str, Any]], broker: str, nonce: str) -> list[bytes]:
    """Records of a living session."""
    who = {"v": 1, "broker": broker, "incarnation": 1, "nonce": nonce, "session": 1, "applied_seq": 3}
    found = (change(draw, valid, HOSTILE) for _ in range(draw(st.integers(1, 3))))
    return [write({**who, **one}).encode("utf-8", "surrogatepass") for one in found if isinstance(one, dict)]


@st.composite
def ordered(draw: st.DrawFn) -> list[bytes]:
    """Records of the commands topic."""
    found = []
    for number in range(draw(st.integers(1, 3))):
        kind, args = COMMANDS[draw(st.integers(0, len(COMMANDS) - 1))]
        command = {
            "v": 1,
            "id": f"h{number}",
            "kind": kind,
            "args": change(draw, [args], HOSTILE),
            "who": "m",
            "why": "w",
        }
        found.append(write(command).encode("utf-8", "surrogatepass"))
    return found


def parsed(raws: list[bytes], parse: Any) -> list[Any]:
    """The events of the records that pass the parser."""
    events = []
    for raw in raws:
        try:
            events.append(parse(raw))
        except BadRecord:
            continue
    return events


def check_goes_on(driver: StepDriver, events: list[Any], size: int) -> None:
    """A batch of these, then time that passes, then an honest command."""
    with bounded(size):
        entries = driver.run(*events)
    entries += driver.wait(40_000, step_ms=20_000)
    told = driver.command("mode", mode="shadow")
    assert Kind.COMMAND_ACCEPTED in {entry.kind for entry in told}
    check_written(driver, entries + told)
    check_round(driver)


def check_written(driver: StepDriver, entries: list[Entry]) -> None:
    """Journal, feed, snapshot and projections take it."""
    rows = [entry.to_row() for entry in entries]
    arrow_table(JOURNAL, rows)
    to_json({"entries": rows})
    assert [Entry.from_row(row) for row in rows] == entries
    assert encode(decode(encode(driver.state))) == encode(driver.state)
    for record, rows_of in ((OWNERSHIP, ownership_rows), (BROKERS, broker_rows), (OVERRIDES, override_rows)):
        arrow_table(record, [{**row, "seq": driver.state.seq} for row in rows_of(driver.state)])
    for entry in entries:
        if entry.kind is Kind.COMMAND_REJECTED:
            check_error(str(entry.reason))


def check_round(driver: StepDriver) -> None:
    """What a round, an agent and the page ask of the facts."""
    known = driver.state.observed.facts
    _, problem = find_placement(known, PlacementSettings())
    if problem is not None:
        check_error(problem)
    for broker in (*driver.state.brokers, "unknown:1"):
        assert facts.order_allowance_ms(known, broker, facts.is_modular(known, driver.state.brokers)) > 0
        assert facts.stats_period_ms(known, broker) >= 0
    facts.find_other_balancer(known, driver.state.brokers)
    assert all(isinstance(name, str) for name in facts.lossy_bundles(known))
    assert all(isinstance(name, str) for name in facts.excluded_namespaces(known, driver.state.brokers))


@fuzzing(10, 6_000)
@given(said(OBSERVED, "a:1", "agent"))
def test_an_observing_session_may_say_anything(raws: list[bytes]) -> None:
    check_goes_on(ordering_driver(), parsed(raws, parse_broker_event), sum(map(len, raws)))


@fuzzing(10, 6_000)
@given(said(OWNING, "a:1", "n1"))
def test_an_owning_session_may_say_anything(raws: list[bytes]) -> None:
    check_goes_on(owning_driver(), parsed(raws, parse_broker_event), sum(map(len, raws)))


@fuzzing(10, 6_000)
@given(said([{"info": INFO}, {"info": {**INFO, "authority": "metadata"}}], "new:1", "n9"), st.booleans())
def test_a_broker_may_register_with_anything(raws: list[bytes], observed: bool) -> None:
    driver = ordering_driver() if observed else owning_driver()
    check_goes_on(driver, parsed(raws, parse_heartbeat), sum(map(len, raws)))


@fuzzing(10, 6_000)
@given(ordered(), st.booleans())
def test_an_operator_may_ask_for_anything(raws: list[bytes], observed: bool) -> None:
    driver = ordering_driver() if observed else owning_driver()
    commands = parsed(raws, parse_command)
    driver.run(*commands)
    assert all(command.id in driver.state.commands for command in commands)
    check_goes_on(driver, [], sum(map(len, raws)))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("broker:a:1", {"unload_timeout_ms": "soon"}),
        ("broker:a:1", {"unload_timeout_ms": "\u00b2"}),
        ("broker:a:1", {"stats_period_ms": [1]}),
        ("broker:a:1", {"manager": ["modular"]}),
        ("broker:a:1", {"excluded_namespaces": [["t/n"]]}),
        ("non_persistent:t/n", {"ranges": 5}),
        ("non_persistent:t/n", {"ranges": [["0x00000000_0x40000000"]]}),
        ("denied\x1b", {"why": "x"}),
    ],
)
def test_a_fact_of_wrong_types_is_refused(key: str, value: Any) -> None:
    """Once it was in the journal, every controller stopped at it."""
    driver = ordering_driver()
    assert driver.tell("a:1", "fact", key=key, value=value) == []
    assert driver.watch.refused["fact_invalid"] == 1
    check_goes_on(driver, [], 0)


@pytest.mark.parametrize("version", ["4.0.\u00b2", "4.\u0663.0", "4.0." + "9" * 5_000, "4.0.8-" + "9" * 5_000])
def test_a_version_of_odd_digits_is_none(version: str) -> None:
    driver = ordering_driver()
    driver.configure("b:1", version=version)
    driver.command("unload_bundle", bundle=str(BUNDLES[3]), to="c:1")
    check_goes_on(driver, [], 0)
    owning = owning_driver()
    owning.run(Heartbeat(Session("new:1", 1, "n9", 1), 0, {"version": version}))
    owning.command("create_namespace", namespace="t/m", bundles=1)
    owning.lookup(Bundle("t/m", 0, 0xFFFFFFFF))
    assert owning.of("t/m/0x00000000_0xffffffff").to is not None


@pytest.mark.parametrize(
    "policy",
    [
        {"auto_failover_policy": {"parameters": "x"}},
        {"auto_failover_policy": {"parameters": {"min_limit": "\u00b2"}}},
        {"auto_failover_policy": {"parameters": {"min_limit": "9" * 5_000}}},
        {"primary": ["a{99999999999999999999}"]},
        {"primary": ["(" * 5_000]},
        {"primary": ["[" + "x" * 5_000]},
    ],
)
def test_an_isolation_policy_that_cannot_be_applied_is_told(policy: Any) -> None:
    """The controller stopped at these, at each start again."""
    driver = ordering_driver()
    driver.tell("a:1", "fact", key="isolation:p", value={**FACTS[4]["value"], **policy})
    _, problem = find_placement(driver.state.observed.facts, PlacementSettings())
    if "parameters" not in policy.get("auto_failover_policy", {}) or problem is not None:
        check_error(str(problem))
    check_goes_on(driver, [], 0)


@pytest.mark.parametrize("given", [5, True, "ab", 1.5])
def test_lists_of_names_that_are_no_lists_name_nothing(given: Any) -> None:
    driver = ordering_driver()
    assert driver.tell("a:1", "observed", added=given, disputed=given, confirmed=given, requested_seq=1) == []


@pytest.mark.parametrize("until_ms", [2**53, 2**63, 10**300])
def test_an_override_ends_at_a_time_that_tables_can_hold(until_ms: int) -> None:
    """The journal took it and the table `overrides` did not, at each write again."""
    driver = owning_driver()
    entries = driver.command("override", override="freeze", bundle=NAME, until_ms=until_ms)
    assert [entry.kind for entry in entries] == [Kind.COMMAND_REJECTED]
    check_goes_on(driver, [], 0)
