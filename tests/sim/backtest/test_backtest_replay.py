"""What a replay makes of a recording: lost reports, brokers and bundles that come and go, costs that follow bundles."""

from __future__ import annotations

import numpy as np
import pytest

from controller.backtest.point.run_point import play
from controller.backtest.recording.idle_usage import idle_usage
from controller.backtest.recording.prepared import Replay, bridge_silences, prepare, round_ends
from controller.backtest.recording.recording import from_reports
from controller.domain.errors import BadRecord
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.settings.placement import IsolationPolicy, PlacementSettings
from controller.domain.settings.policy import PolicySettings
from controller.policy.view.snapshot import NO_SCORE
from tests.sim.backtest.backtest_recordings import STEP_MS, A, B, C, D, Script, move, played, prepared_of, report

CPU, RATE = RESOURCES.index("cpu"), BUNDLE_FIELDS.index("msg_rate_in")
UPPER_A = "t/n/0x20000000_0x40000000"


def test_who_reports_seldom_is_silent_only_when_it_misses_several_of_its_own_reports() -> None:
    """Pulsar's idle brokers report every fifteen minutes, the busy ones every five seconds."""
    heard = np.zeros((200, 3), bool)
    heard[:, 0] = True
    heard[0:120:12, 1] = True  # ten reports, then none
    heard[[0, 100], 2] = True  # two say nothing of how often
    stands = bridge_silences(heard, 3)
    assert stands[:109, 1].tolist() == [at // 12 * 12 for at in range(109)]
    assert stands[109:, 1].tolist() == [-1] * 91
    assert bridge_silences(heard[:130], 3)[109:, 1].tolist() == [108] * 21, "less than three of its reports"
    assert (stands[50, 2], stands[150, 2]) == (-1, -1)


def test_short_silences_are_bridged_and_long_ones_are_absences() -> None:
    """Three missed steps are an absence, two are not; the same before the first and after the last report."""
    heard = np.array([[0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0]], bool).T
    stands = bridge_silences(heard, 3)
    assert stands[:, 0].tolist() == [2, 2, 2, 2, 2, 5, -1, -1, -1, 9, 9, 9]
    assert stands[:, 1].tolist() == [-1, -1, -1, 3, 4, 5, 6, 7, 8, -1, -1, -1]
    assert bridge_silences(heard, 1)[:, 0].tolist() == [-1, -1, 2, -1, -1, 5, -1, -1, -1, 9, -1, -1]


def test_rounds_are_due_where_an_interval_ends() -> None:
    at_ms = np.array([30, 60, 90, 120, 150]) * 1000
    assert round_ends(at_ms, 60_000).tolist() == [1, 3], "the last interval is not full"
    assert round_ends(at_ms, 30_000).tolist() == [0, 1, 2, 3, 4]
    assert round_ends(np.array([30, 210, 240]) * 1000, 60_000).tolist() == [0, 2], "a gap makes one round"


def test_a_lost_report_changes_neither_owners_nor_loads() -> None:
    whole = [r for at in range(6) for r in (report("b1", at, {A: 30.0, B: 20.0}), report("b2", at, {D: 20.0}))]
    lost = [r for r in whole if (r["broker"], r["sequence"]) != ("b1", 3)]
    (run, world, _), (other, bridged_world, script) = played(whole, {}), played(lost, {})
    assert run.point == other.point
    assert run.timeline == other.timeline
    assert not world.moves
    assert not bridged_world.moves
    assert script.seen[1].score.tolist() == [5_000, 2_000]


def test_a_window_without_a_report_leaves_the_broker_out_of_the_round() -> None:
    reports = [report("b2", at, {D: 20.0}) for at in range(8)]
    reports += [report("b1", at, {A: 30.0}) for at in range(8) if at not in (2, 3)]
    _, world, script = played(reports, {}, Replay(60_000, missed_steps=3))
    silent = script.seen[1]
    assert silent.score.tolist() == [NO_SCORE, 2_000]
    assert silent.bundles == (D,)
    assert silent.eligible.tolist() == [False, True]
    assert script.seen[2].score.tolist() == [3_000, 2_000]
    assert not world.moves


def test_a_broker_that_returns_is_another_process_and_empty() -> None:
    reports = [report("b2", at, {D: 20.0} if at < 2 or at > 6 else {D: 20.0, A: 30.0}) for at in range(10)]
    reports += [report("b1", at, {A: 30.0}) for at in range(10) if at < 2 or at > 6]
    run, _, script = played(reports, {4: [move(A, "b2", "b1")]})
    assert [s.brokers for s in script.seen] == [("b1", "b2"), ("b2",), ("b2",), ("b1", "b2"), ("b1", "b2")]
    assert [int(s.incarnation[0]) for s in script.seen] == [1, 1, 1, 2, 2]
    assert script.seen[3].owner.tolist() == [1, 1], "what it had stays with who took it over"
    assert (run.point.moves_removal, run.point.moves_addition) == (1, 1)


def test_a_bundle_that_vanishes_is_remembered_where_the_replay_had_it() -> None:
    reports = [report("b1", at, {B: 20.0} if at in (3, 4) else {A: 30.0, B: 20.0}) for at in range(8)]
    reports += [report("b2", at, {D: 20.0}) for at in range(8)]
    run, _, script = played(reports, {0: [move(A, "b1", "b2")]})
    assert script.seen[1].bundles == (B, D), "it is not there at the end of the window"
    assert script.seen[2].owner.tolist() == script.seen[3].owner.tolist() == [1, 0, 1]
    assert run.point.moves == 1


def test_children_of_a_recorded_split_stay_with_the_owner_of_their_parent() -> None:
    lower = "t/n/0x00000000_0x20000000"
    reports = [
        report("b1", at, {A: 30.0, B: 20.0} if at < 3 else {lower: 10.0, UPPER_A: 20.0, B: 20.0}) for at in range(6)
    ]
    reports += [report("b2", at, {D: 20.0}) for at in range(6)]
    run, _, script = played(reports, {0: [move(A, "b1", "b2")]})
    last = script.seen[-1]
    assert {name: int(owner) for name, owner in zip(last.bundles, last.owner, strict=True)} == {
        lower: 1, UPPER_A: 1, B: 0, D: 1,
    }  # fmt: skip
    assert run.point.moves == 1


def test_a_new_bundle_is_placed_as_the_controller_does() -> None:
    """C appears on b1; b2 has fewer bundles of the namespace, so it goes there, and that is no move."""
    reports = [report("b1", at, {A: 30.0, B: 20.0} | ({C: 5.0} if at > 2 else {})) for at in range(6)]
    reports += [report("b2", at, {D: 20.0}) for at in range(6)]
    run, _, script = played(reports, {})
    last = script.seen[-1]
    assert last.owner[last.bundles.index(C)] == 1
    assert run.point.moves == 0


def test_what_no_report_lists_stays_with_its_broker() -> None:
    """b1 carries 20 messages/s of bundles that are not listed: when A goes, they stay."""
    reports = [report("b1", at, {A: 30.0}, unlisted=20.0) for at in range(4)]
    reports += [report("b2", at, {D: 20.0}) for at in range(4)]
    _, _, script = played(reports, {0: [move(A, "b1", "b2")]})
    assert script.seen[0].score.tolist() == [5_000, 2_000]
    assert script.seen[1].score.tolist() == [2_000, 5_000]
    assert script.seen[1].totals[:, RATE].tolist() == [20.0, 50.0]


def test_a_bundle_costs_what_it_cost_where_it_was_recorded() -> None:
    """On b1 a message costs two percent, on b2 one: A takes its 60 along."""
    reports = [report("b1", at, {A: 30.0, B: 10.0}, cpu=80.0) for at in range(4)]
    reports += [report("b2", at, {D: 20.0}) for at in range(4)]
    _, _, script = played(reports, {0: [move(A, "b1", "b2")]})
    assert script.seen[1].score.tolist() == [2_000, 8_000]


def test_idle_usage_is_what_a_broker_used_without_traffic() -> None:
    """b1 was idle at 7 once; b2 never was and its usage follows nothing: it is taken to be like b1, twice as large."""
    reports = [report("b1", at, {A: 0.0 if at == 2 else 30.0}, cpu=7.0 if at == 2 else 40.0) for at in range(4)]
    reports += [report("b2", at, {D: 20.0}, cpu=50.0, limit=200.0) for at in range(4)]
    recording = from_reports(reports, STEP_MS)
    assert idle_usage(recording)[:, CPU].tolist() == pytest.approx([7.0, 14.0])
    prepared = prepare(recording, PolicySettings().weights.in_order(), Replay(60_000))
    assert prepared.base[0, 0].tolist() == pytest.approx([7.0, 14.0])
    assert prepared.cost[0, 0].tolist() == pytest.approx([33.0, 36.0])


def test_idle_usage_from_a_line_through_steps() -> None:
    """Usage is 12 + the messages: at no traffic 12 are left. The other broker's is noise: nothing is known of it."""
    rates = [10.0, 20.0, 30.0, 40.0, 50.0, 40.0, 30.0, 20.0, 10.0]
    noise = [50.0, 40.0, 55.0, 45.0, 52.0, 48.0, 51.0, 44.0, 56.0]
    reports = [report("b1", at, {A: rate}, cpu=12.0 + rate) for at, rate in enumerate(rates)]
    reports += [report("b2", at, {D: rate}, cpu=cpu) for at, (rate, cpu) in enumerate(zip(rates, noise, strict=True))]
    assert idle_usage(from_reports(reports, STEP_MS))[:, CPU].tolist() == pytest.approx([12.0, 0.0])


def test_an_unknown_resource_is_left_out() -> None:
    prepared = prepared_of([report("b1", at, {A: 30.0}) for at in range(4)])
    bandwidth = list(prepared.counted).index(RESOURCES.index("bandwidth_in"))
    assert np.isnan(prepared.limit[bandwidth]).all()
    assert prepared.best.tolist() == pytest.approx([0.3] * 4)


def test_bad_replays_are_refused() -> None:
    with pytest.raises(BadRecord, match="above 0"):
        Replay(round_interval_ms=0)
    with pytest.raises(BadRecord, match="weight"):
        prepare(from_reports([report("b1", 0, {A: 1.0})], STEP_MS), (0.0,) * len(RESOURCES), Replay())


def test_a_recording_that_knows_no_load_is_refused() -> None:
    """All would be as good as the best: no figure says that nothing was known."""
    unlimited = [report("b1", step, {A: 1.0}, limit=-1.0) for step in range(4)]
    with pytest.raises(BadRecord, match="no report knows usage and limit of cpu, bandwidth_in, bandwidth_out, disk_io"):
        prepared_of(unlimited)
    assert prepared_of([*unlimited, report("b2", 3, {B: 1.0})]).counted.tolist()


def test_orphans_go_where_isolation_allows() -> None:
    """b1 leaves; its namespace may use b3 only, although b2 has no bundle of it."""
    reports = [r for at in range(8) for r in (report("b2", at, {}), report("b3", at, {D: 20.0}))]
    reports += [report("b1", at, {A: 30.0, B: 20.0}) for at in range(3)]
    reports += [report("b2", at, {A: 30.0, B: 20.0}) | {"sequence": 9} for at in range(3, 8)]
    only = IsolationPolicy("apart", namespaces=("t/n",), primary=("b3",))
    settings = PolicySettings(placement=PlacementSettings(isolation=(only,)))
    for given, targets in ((settings, {2}), (PolicySettings(), {1})):
        world, _ = play(prepared_of(reports), Script({}), given)
        assert {m.target for m in world.moves} == targets
        assert len(world.moves) == 2


def test_latencies_are_the_brokers_own_and_averaged() -> None:
    reports = [report("b1", at, {A: 30.0}) | {"rpc_queue_ms": 1.0 + at, "metadata_latency_ms": 7.0} for at in range(4)]
    reports += [report("b2", at, {D: 20.0}) for at in range(2)]
    _, _, script = played(reports, {0: [move(A, "b1", "b2")]})
    assert [s.frame.latencies.tolist() for s in script.seen if s.frame.latencies is not None] == [
        [[1_500, 7_000], [0, 0]],
        [[3_500, 7_000], [-1, -1]],
    ]
