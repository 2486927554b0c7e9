"""Simulated brokers say what real agents would: records that parse, answers that the journal accepts, true totals."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from benchmarks.measure.loads.fleet import Fleet
from benchmarks.measure.loads.owned import write_owned
from controller.domain.entries import Entry, Kind
from controller.domain.events import parse_assign_request, parse_broker_event, parse_heartbeat
from controller.domain.ownership import State
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from schemas.json_schema import json_schema
from schemas.wire import LOAD_REPORT

NOW_MS = 1_700_000_000_000


def _raw(record: object) -> bytes:
    return json.dumps(record).encode()


def _entry(state: State, **fields: object) -> Entry:
    return Entry(9, Kind.OWNERSHIP, "i", 1, NOW_MS, state=state.value, epoch=4, **fields)  # type: ignore[arg-type]


def test_reports_fit_the_schema_and_grow_in_sequence() -> None:
    broker = next(iter(Fleet(2, 5).brokers.values()))
    reports = [json.loads(broker.report(NOW_MS + i)) for i in range(4)]
    for report in reports:
        jsonschema.validate(report, json_schema(LOAD_REPORT))
    assert [r["sequence"] for r in reports] == [1, 2, 3, 4]
    assert [r["sent_ms"] for r in reports] == [NOW_MS, NOW_MS + 1, NOW_MS + 2, NOW_MS + 3]
    assert reports[0]["resources"]["cpu"] != reports[1]["resources"]["cpu"], "variants differ"


def test_bundles_and_tail_give_the_totals() -> None:
    report = json.loads(next(iter(Fleet(1, 7).brokers.values())).report(NOW_MS))
    assert len(report["bundles"]) == report["totals"]["bundles"] == 7
    assert abs(sum(b["msg_rate_in"] for b in report["bundles"]) - report["totals"]["msg_rate_in"]) < 1e-6


def test_what_a_report_does_not_list_is_its_tail() -> None:
    report = json.loads(next(iter(Fleet(1, 7, listed=3).brokers.values())).report(NOW_MS))
    jsonschema.validate(report, json_schema(LOAD_REPORT))
    assert (len(report["bundles"]), report["tail"]["bundles"], report["totals"]["bundles"]) == (3, 4, 7)


def test_a_fleet_that_owns_its_bundles_goes_on_where_the_tables_say(tmp_path: Path) -> None:
    root, fleet = TableRoot(tmp_path), Fleet(2, 3)
    root.create_all()
    write_owned(root, fleet)
    follower = Follower(root)
    state = follower.bootstrap()
    assert not state.controller_running
    assert sorted(state.bundles) == sorted(str(bundle) for b in fleet.brokers.values() for bundle in b.bundles)
    assert Journal(root).last_seq == state.seq, "a controller continues it"
    fleet.take_over(state.bundles.values())
    for broker in fleet.brokers.values():
        assert state.alive(broker.session)
        assert broker.inventory(9, NOW_MS)["serving"] == {str(bundle): 1 for bundle in broker.bundles}
        assert state.holdings.total(broker.session.broker) == 3
    other = Fleet(2, 3, nonce="other")
    other.take_over(state.bundles.values())
    assert not any(broker.serving for broker in other.brokers.values()), "sessions of others"


def test_control_records_parse() -> None:
    fleet = Fleet(2, 3)
    broker = fleet.brokers["sim-0001"]
    assert parse_heartbeat(_raw(broker.heartbeat(5, NOW_MS))).session == broker.session  # type: ignore[union-attr]
    assert parse_broker_event(_raw(broker.inventory(5, NOW_MS))).kind == "inventory"
    requests = [parse_assign_request(_raw(r)) for r in fleet.assign_requests(NOW_MS)]
    assert len({r.bundle for r in requests}) == 6


def test_a_grant_is_answered_once_and_shows_in_the_inventory() -> None:
    fleet = Fleet(2, 3)
    broker = fleet.brokers["sim-0002"]
    bundle = broker.bundles[0]
    grant = _entry(State.ASSIGNING, bundle=str(bundle), to=str(broker.session))
    ((name, record),) = fleet.answers([grant], NOW_MS)
    said = parse_broker_event(_raw(record))
    assert (name, said.kind, said.bundle, said.epoch) == ("sim-0002", "serving", bundle, 4)
    assert broker.inventory(9, NOW_MS)["serving"] == {str(bundle): 4}
    assert fleet.answers([_entry(State.OWNED, bundle=str(bundle), by=str(broker.session))], NOW_MS) == []


def test_a_transfer_between_ours_is_accepted_released_and_served() -> None:
    fleet = Fleet(2, 3)
    one, two = fleet.brokers.values()
    bundle = one.bundles[0]
    one.serving[bundle] = 3
    ends = {"bundle": str(bundle), "by": str(one.session), "to": str(two.session)}
    entries = [
        _entry(State.TRANSFERRING, **ends),
        _entry(State.RELEASING, **ends),
        _entry(State.RELEASING, **ends, data={"released": True}),
    ]
    said = [(broker, record["kind"]) for broker, record in fleet.answers(entries, NOW_MS)]
    assert said == [("sim-0002", "accepted"), ("sim-0001", "released"), ("sim-0002", "serving")]
    assert bundle not in one.serving
    assert two.serving[bundle] == 4


def test_sessions_of_others_are_left_alone() -> None:
    fleet, other = Fleet(1, 1), Fleet(1, 1, nonce="other")
    stranger = other.brokers["sim-0001"]
    grant = _entry(State.ASSIGNING, bundle=str(stranger.bundles[0]), to=str(stranger.session))
    assert fleet.answers([grant], NOW_MS) == []
