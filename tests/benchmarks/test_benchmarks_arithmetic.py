"""The benchmarks' own arithmetic: choosing transfers, reading gaps and steps, judging targets, making tables."""

from __future__ import annotations

import json
import random
from functools import partial

import pytest

from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.measure.clients.clients import one_topic_a_bundle
from benchmarks.measure.clients.failover import Kill, times_of
from benchmarks.measure.clients.handover import Mover, steps_of
from benchmarks.measure.clients.skew_to_relief import parse, problems
from benchmarks.measure.control.control_stages import Stages, table
from benchmarks.measure.control.latency_chain import Batch, Chains, profile
from benchmarks.measure.pulsar import pulsar_demo
from benchmarks.measure.result import NotMeasured, Result, Target, flatten
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Session, topic_hash
from controller.domain.ownership import Ownership, State
from controller.domain.ring import initial_bundles, locate
from controller.domain.state import Broker, ClusterState
from controller.process.children import ProcessFailed
from controller.testbed.pulsar.demo.figures import PulsarDemoFigures


def session(broker: str) -> Session:
    return Session(broker, 1, "n", 1)


def _two_bundles() -> tuple[ClusterState, list[str]]:
    state = ClusterState()
    names = []
    for number, bundle in enumerate(initial_bundles("a/b", 2)):
        owner = session(f"b{number}")
        state.bundles[str(bundle)] = Ownership(bundle, State.OWNED, 1, by=owner)
        names.append(str(bundle))
    for name in ("b0", "b1", "b2"):
        live = session(name)
        state.brokers[name], state.sessions[live] = Broker(name, live), 1
    return state, names


def test_a_transfer_goes_to_another_broker_once_the_bundle_has_rested() -> None:
    state, names = _two_bundles()
    mover = Mover(names, rest_s=1.0, in_flight=2, dice=random.Random(1))
    assert mover.next(state, 0.0) is None
    bundle, to = mover.next(state, 1.0) or ("", "")
    assert bundle == min(names)
    assert to in {"b1", "b2"}


def test_no_more_transfers_than_planned_are_in_flight_and_none_twice() -> None:
    state, names = _two_bundles()
    mover = Mover(names, rest_s=0.0, in_flight=1, dice=random.Random(1))
    first = mover.next(state, 0.0)
    assert first is not None
    assert mover.next(state, 5.0) is None, "the first command is on its way"
    moving = state.bundles[first[0]]
    state.bundles[first[0]] = Ownership(moving.bundle, State.TRANSFERRING, 2, by=moving.by, to=session(first[1]))
    assert mover.next(state, 6.0) is None, "one transfer is in flight"
    state.bundles[first[0]] = Ownership(moving.bundle, State.OWNED, 2, by=session(first[1]))
    second = mover.next(state, 7.0)
    assert second is not None
    assert second[0] != first[0], "the other bundle has rested longer"


def test_a_transfer_between_two_looks_is_noticed() -> None:
    state, names = _two_bundles()
    mover = Mover(names[:1], rest_s=0.0, in_flight=1, dice=random.Random(1))
    bundle, to = mover.next(state, 0.0) or ("", "")
    state.bundles[bundle] = Ownership(state.bundles[bundle].bundle, State.OWNED, 2, by=session(to))
    assert mover.next(state, 1.0) is not None


def _owned(seq: int, at_ms: int, state: State, epoch: int, **data: object) -> Entry:
    bundle = str(initial_bundles("a/b", 2)[0])
    return Entry(seq, Kind.OWNERSHIP, "i", 0, at_ms, bundle=bundle, state=state.value, epoch=epoch, data=data)


def test_the_steps_of_a_transfer_are_counted_from_its_first_entry() -> None:
    entries = [
        _owned(1, 1_000, State.OWNED, 1),
        _owned(2, 2_000, State.TRANSFERRING, 2),
        _owned(3, 2_300, State.RELEASING, 2),
        _owned(4, 2_600, State.RELEASING, 2, released=True),
        _owned(5, 2_700, State.OWNED, 2),
    ]
    assert steps_of(entries) == {"transferring_to_releasing": [300], "transferring_to_owned": [700]}
    assert steps_of(entries[:1]) == {}


def test_a_failover_is_counted_from_the_kill_to_each_topics_next_acknowledgement() -> None:
    kills = [Kill("b1", 10_000, ("x", "y"), 17_500), Kill("b2", 40_000, ("x",), 47_000)]
    topics = {"x": "topic-x", "y": "topic-y"}
    gaps = [
        {"topic": "topic-x", "at": 9_000.0, "gap_ms": 20.0},
        {"topic": "topic-x", "at": 17_000.0, "gap_ms": 7_010.0},
        {"topic": "topic-x", "at": 46_500.0, "gap_ms": 6_505.0},
    ]
    journal, seen, unseen = times_of(kills, gaps, topics)
    assert journal == [7.5, 7.0]
    assert seen == [7.0, 6.5]
    assert unseen == ["topic-y"]


def test_every_bundle_gets_one_topic_of_its_own() -> None:
    ring = tuple(initial_bundles("a/b", 8))
    topics = one_topic_a_bundle("a/b", 8)
    assert sorted(topics.values()) == sorted(ring)
    assert all(locate(ring, topic_hash(topic)) == bundle for topic, bundle in topics.items())


def test_a_target_is_judged_by_the_figure_its_path_names() -> None:
    figures = {"with_loads": {"gap_ms": {"p50": 25.0, "p99": 151.0}}, "seen": None}
    assert Target("with_loads.gap_ms.p50", 25, "ms").reached(figures)
    assert not Target("with_loads.gap_ms.p99", 150, "ms").reached(figures)
    assert not Target("seen", 150, "ms").reached(figures), "what was not seen was not reached"
    with pytest.raises(KeyError, match="no 'p90'"):
        Target("with_loads.gap_ms.p90", 1, "ms").reached(figures)


def test_a_broken_run_reaches_nothing() -> None:
    result = Result("example", {"x": 1.0}, [Target("x", 2, "s")])
    assert result.reached
    assert result.document()["targets"] == [{"figure": "x", "limit": 2, "unit": "s", "measured": 1.0, "reached": True}]
    result.broken.append("1 message lost")
    assert not result.reached
    assert result.lines()[-1] == "example: BROKEN: 1 message lost"


def test_figures_are_flattened_to_groups_of_numbers() -> None:
    figures = {"a": {"b": {"p50": 1, "p99": 2}, "n": 3}, "c": 4}
    assert flatten(figures) == [("a.b", "p50=1 p99=2"), ("a.n", 3), ("c", 4)]


def test_stages_add_up_to_the_trigger() -> None:
    batch = {"latestOffset": 10.0, "walCommit": 20.0, "addBatch": 100.0, "trigger": 150.0}
    batch |= {"python": 70.0, "collect": 40.0, "step": 5.0, "commit": 15.0}
    rows = table([batch, {"python": 5.0}, {"trigger": 9.0}])
    means = {name: row["mean"] for name, row in rows.items()}
    assert means["callback"] == 30.0
    assert means["bookkeeping"] == 10.0
    assert means["other"] == 20.0
    assert sum(means.values()) - means["trigger"] == means["trigger"] == 150.0
    assert table([]) == {}


def test_stage_clocks_belong_to_the_batch_in_hand() -> None:
    stages = Stages()
    commit = stages.time_call("commit", lambda: None)

    def process(loop: object, collect: object, batch_id: int) -> None:
        assert callable(collect)
        collect()
        if batch_id == 2:
            commit()

    wrapped = stages.batch(process)
    for batch_id in (1, 2):
        wrapped(None, list, batch_id)
    assert stages.committed == {2}
    assert set(stages.batches[1]) == {"collect", "python"}
    assert set(stages.batches[2]) == {"collect", "commit", "python"}


def test_the_demos_summary_is_its_last_line() -> None:
    figures = parse('noise\n{"skew_to_relief_s": null, "first_transfer_s": 9.5, "invariants": "ok"}\n', "")
    assert figures["first_transfer_s"] == 9.5
    assert problems(figures, 0) == ["the demo did not see skew_to_relief_s"]
    assert problems({"skew_to_relief_s": 50, "first_transfer_s": 9.5, "invariants": "I5"}, 1) == [
        "the demo ended with 1: I5"
    ]


def test_the_pulsar_demos_line_is_stored_with_its_limits() -> None:
    line = json.dumps({**PulsarDemoFigures(took_s=612.5, skew_to_first_move_s=200.0).to_json(), "not_seen": ["relief"]})
    figures = parse(f"noise\n{line}\n", "")
    stored = Result("pulsar_demo", figures, pulsar_demo.TARGETS, pulsar_demo.problems(figures, 0)).document()
    limits = {t["figure"]: (t["measured"], t["limit"], t["reached"]) for t in stored["targets"]}
    assert limits == {"skew_to_first_move_s": (200.0, 180, False), "took_s": (612.5, 720, True)}
    assert stored["broken"] == ["the demo did not see relief"]
    assert pulsar_demo.problems({"lost": 3, "reordered": 0, "not_seen": []}, 1) == [
        "the demo ended with 1: 3 lost, 0 out of order"
    ]


def test_all_benchmarks_are_run_but_those_on_request(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    ran: list[str] = []

    def note(name: str, folder: object, quick: bool) -> Result:
        ran.append(name)
        return Result(name, {})

    for name in BENCHMARKS:
        monkeypatch.setitem(BENCHMARKS, name, partial(note, name))
    assert main(["--quick", "--dir", str(tmp_path)]) == 0
    assert {*BENCHMARKS} - {*ran} == {"pulsar_demo"}
    assert main(["pulsar_demo", "--quick", "--dir", str(tmp_path)]) == 0
    assert ran[-1] == "pulsar_demo"


@pytest.mark.parametrize("out", ["", "no json", "3"])
def test_a_demo_without_summary_is_not_measured(out: str) -> None:
    with pytest.raises(ProcessFailed, match="Kafka did not start"):
        parse(out, "Kafka did not start")


def test_an_unknown_benchmark_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["handovr"])
    assert ended.value.code == 2
    assert "handover" in capsys.readouterr().err


def test_what_could_not_be_measured_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(folder: object, quick: bool) -> Result:
        raise NotMeasured("nothing was seen")

    monkeypatch.setitem(BENCHMARKS, "handover", fail)
    assert main(["handover", "--quick", "--dir", str(tmp_path)]) == 1
    assert "nothing was seen" in capsys.readouterr().err


def test_quick_figures_are_not_kept_and_strict_minds_missed_targets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow(folder: object, quick: bool) -> Result:
        return Result("handover", {"x": 3.0}, [Target("x", 2, "s")])

    monkeypatch.setitem(BENCHMARKS, "handover", slow)
    assert main(["handover", "--quick", "--dir", str(tmp_path)]) == 0
    assert main(["handover", "--quick", "--strict", "--dir", str(tmp_path)]) == 1
    assert "written to" not in capsys.readouterr().out
    assert json.loads(json.dumps(Result("h", {"x": 3.0}, [Target("x", 2, "s")]).document()))["targets"][0]["measured"]


def test_an_events_steps_add_up_to_its_latency_and_none_is_negative() -> None:
    chains = Chains()
    chains.batches[7] = Batch(triggered=105.0, collecting=150.0, collected=200.0, committing=210.0, committed=230.0)
    event = chains.event("c1")
    event.sent, event.appended, event.batch, event.heard, event.applied = 100.5, 100.0, 7, 236.0, 237.0
    chains.event("never read").sent = 1.0
    (steps,) = chains.steps()
    assert steps == {
        "produce": 0.0, "kafka": 4.5, "source": 45.0, "collect": 50.0,
        "step": 10.0, "commit": 20.0, "feed": 6.0, "apply": 1.0,
    }  # fmt: skip
    assert profile([steps, steps])["total"]["p99"] == 136.5
    assert profile([]) == {}
