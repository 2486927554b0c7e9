"""The comparison with Pulsar's own balancers: load, figures and page, without a cluster."""

from __future__ import annotations

import copy
import os
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.pages import pulsar_compare as page
from benchmarks.pulsar_compare import program, result
from benchmarks.pulsar_compare.calibration import TOLERANCE_PCT, Step, correct, find_volume, is_reached
from benchmarks.pulsar_compare.figures import (
    Change,
    Span,
    changes_of,
    check_reported,
    minutes_of,
    relief_s,
    spread,
    usage_between,
)
from benchmarks.pulsar_compare.load import (
    NAMESPACE,
    PHASES,
    Volume,
    choose_broker,
    lay_out,
    number_of_bundles,
    rates_of_phase,
)
from benchmarks.pulsar_compare.plays import PLAYS
from benchmarks.pulsar_compare.samples import Cpu, CpuSample, Owners, Reported
from benchmarks.pulsar_compare.unloads import ORDER, PLAIN, LogFollower, Unload, Unloads
from controller.domain.ids import RING_END, Bundle
from controller.testbed.pulsar.spec import PulsarFailed
from controller.testbed.pulsar.traffic.report import Gap, TrafficReport

VOLUME = Volume(900, 400)
BROKERS = ["broker1", "broker2", "broker3"]


def ring(count: int = number_of_bundles(3)) -> list[Bundle]:
    bounds = [number * (RING_END + 1) // count for number in range(count)] + [RING_END]
    return [Bundle(NAMESPACE, low, high) for low, high in pairwise(bounds)]


class TestLoad:
    def test_brokers_are_equally_loaded_at_the_begin(self) -> None:
        layout = lay_out(ring(), 3)
        rates, load = layout.even_rates(900.0), [0.0] * 3
        for topic, bundle in layout.bundle_of.items():
            load[layout.start[bundle]] += rates[topic]
        assert load == pytest.approx([300.0] * 3)
        assert len(layout.topics) == 48

    def test_phases_build_on_each_other(self) -> None:
        layout = lay_out(ring(), 3)
        of_broker = [{t: b for t, b in layout.bundle_of.items() if layout.start[b] == at} for at in range(3)]
        even, skew, shift, halve, kill = PHASES
        rates = rates_of_phase(even, layout, VOLUME, {}, {})
        total = sum(rates.values())
        hot = rates_of_phase(skew, layout, VOLUME, rates, of_broker[0])
        assert sum(hot[t] for t in of_broker[0]) == pytest.approx(total / 3 + VOLUME.hot_per_s)
        shifted = rates_of_phase(shift, layout, VOLUME, hot, of_broker[1])
        assert sum(shifted[t] for t in of_broker[0]) == pytest.approx(total / 3)
        assert sum(shifted.values()) == pytest.approx(sum(hot.values()))
        halved = rates_of_phase(halve, layout, VOLUME, shifted, of_broker[2])
        assert sum(halved.values()) == pytest.approx(total * 5 / 6 + VOLUME.hot_per_s)
        assert rates_of_phase(kill, layout, VOLUME, halved, {}) == halved

    def test_a_broker_that_serves_nothing_is_not_chosen(self) -> None:
        assert choose_broker(2, BROKERS, {"t": "broker2"}) == "broker2"
        assert choose_broker(2, BROKERS, {"t": "broker1"}) == "broker1"


def samples(*usages: tuple[float, ...], every_s: float = 10.0, from_s: float = 0.0) -> list[CpuSample]:
    return [
        CpuSample(from_s + every_s * (at + 1), dict(zip(BROKERS, usage, strict=False)))
        for at, usage in enumerate(usages)
    ]


class TestFigures:
    def test_spread_is_the_highest_over_the_mean(self) -> None:
        assert spread({"a": 90.0, "b": 30.0, "c": 60.0}) == pytest.approx(1.5)
        assert spread({"a": 0.0}) is None
        assert spread({}) is None

    def test_a_broker_that_left_within_the_minute_does_not_count(self) -> None:
        cpu = samples((50, 50, 50), (90, 30)) + samples((10, 10, 10), from_s=60)
        assert usage_between(cpu, 0, 60) == {"broker1": 70.0, "broker2": 40.0}

    def test_minutes_follow_the_phases(self) -> None:
        cpu = samples(*[(60, 60, 60)] * 6, *[(90, 45, 45)] * 6)
        rows = minutes_of(cpu, [Span("even", 0, 60), Span("hot", 60, 120)])
        assert [(row["phase"], row["spread"]) for row in rows] == [("even", 1.0), ("hot", 1.5)]

    def test_relief_is_the_begin_of_the_first_good_minute(self) -> None:
        cpu = samples(*[(60, 60, 60)] * 6, *[(90, 45, 45)] * 7, *[(66, 57, 57)] * 11)
        assert relief_s(cpu, Span("hot", 60, 240)) == 50.0
        assert relief_s(cpu, Span("hot", 60, 140)) is None, "no whole minute is left"

    def test_changes_of_owners_are_counted_but_those_of_a_killed_broker(self) -> None:
        a, b = f"{NAMESPACE}/0x00000000_0x80000000", f"{NAMESPACE}/0x80000000_0xffffffff"
        looks = [
            Owners(0, {"broker1": [a], "broker2": [b]}),
            Owners(2, {"broker1": [a, b], "broker2": [b]}),  # in the midst of a move
            Owners(4, {"broker1": [a, b], "broker2": []}),
            Owners(8, {"broker2": []}),  # broker1 was killed at 5
            Owners(20, {"broker2": [a, b]}),
            Owners(30, {"broker1": [a], "broker2": [b]}),
        ]
        away = [Span("broker1", 5, 25)]
        assert changes_of(looks, away) == [Change(4, b, "broker2", "broker1"), Change(30, a, "broker2", "broker1")]
        assert len(changes_of(looks)) == 4

    def test_a_moved_half_counts_once(self) -> None:
        whole = f"{NAMESPACE}/0x00000000_0x80000000"
        low, high = f"{NAMESPACE}/0x00000000_0x40000000", f"{NAMESPACE}/0x40000000_0x80000000"
        looks = [
            Owners(0, {"broker1": [whole], "broker2": []}),
            Owners(2, {"broker1": [low, high], "broker2": []}),
            Owners(4, {"broker1": [low], "broker2": [high]}),
        ]
        assert changes_of(looks) == [Change(4, high, "broker1", "broker2")]

    def test_a_play_counts_if_brokers_report_cpu_of_their_own(self) -> None:
        own = [Reported(0, {"broker1": Cpu(10, 40), "broker2": Cpu(20, 40)})]
        assert check_reported(own, 0.4)["counts"]
        assert not check_reported([Reported(0, {"broker1": Cpu(99, 200), "broker2": Cpu(20, 200)})], 0.4)["counts"]
        assert not check_reported([Reported(0, {"broker1": Cpu(30, 40), "broker2": Cpu(30, 40)})], 0.4)["counts"]
        assert not check_reported([], 0.4)["counts"]


def cpu_of(phase_s: int, relieved_after_s: int) -> list[tuple[float, dict[str, float]]]:
    """Samples of two brokers: even in the first phase, in each one after it skewed and then even."""
    return [
        (float(at_s), {"broker1": 900.0 if at_s > phase_s and (at_s - 1) % phase_s < relieved_after_s else 50.0,
                       "broker2": 50.0})
        for at_s in range(5, 5 * phase_s + 1, 5)
    ]  # fmt: skip


FIGURES: dict[str, Any] = {
    "spread_mean": 1.2,
    "spread_end": 1.1,
    "minutes": 20,
    "minutes_above": 5,
    "unloads": 6,
    "reliefs": {phase.name: {"relief_s": 80.0, "length_s": 240.0, "counted_s": 80.0} for phase in PHASES[1:]},
    "clients": {"lost": 0, "reordered": 0},
    "reported_cpu": {"counts": True},
    "sent_share": 0.99,
    "cpu_samples": cpu_of(4 * 60, relieved_after_s=100),
}
MACHINE = {"threads": 2, "cpu": "some", "memory_gib": 24.0}


def results(**figures: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: {"machine": MACHINE, "figures": {**copy.deepcopy(FIGURES), **changes}}
        for name, changes in figures.items()
    }


class TestPage:
    def test_the_page_is_what_was_played(self) -> None:
        assert page.main([]) == 0, "run `python -m benchmarks.pages.pulsar_compare --write`"

    def test_missing_plays_are_shown(self) -> None:
        made = page.comparison({})
        assert made.count(page.NOT_PLAYED) == len(page.BALANCING)
        assert page.verdicts({}).count(page.NOT_PLAYED) == len(page.OURS)
        assert page.unloads({}).count(page.NOT_PLAYED) == 2

    def test_a_rival_that_never_acted_proves_nothing(self) -> None:
        played = results(ballast_modular={}, threshold={"unloads": 0, "spread_mean": 1.6})
        assert page.NEVER_ACTED in page.comparison(played)
        assert "nothing to compare" in page.verdicts(played)

    def test_where_ballast_is_not_better_the_page_says_so(self) -> None:
        never = {name: {"relief_s": None, "length_s": 240.0, "counted_s": 240.0} for name in FIGURES["reliefs"]}
        played = results(ballast_modular={}, average={"spread_mean": 1.1, "unloads": 4}, threshold={"reliefs": never})
        said = page.verdicts(played)
        assert "**not lower than** the 1.100 of AvgShedder" in said
        assert "6 unloads, **more than** the 4 of the best of them, AvgShedder" in said
        assert "**more than half of** the 80 s of AvgShedder" in said
        assert "at most half of the 240 s of ThresholdShedder" in said
        assert "100 s from a skew to relief on average in windows of 20 s, **more than half of**" in said
        assert "nothing lost" in said
        assert "never" in page.comparison(played)

    def test_a_play_whose_brokers_were_blind_does_not_count(self) -> None:
        played = results(ballast_modular={}, average={"reported_cpu": {"counts": False}})
        assert "does not count" in page.comparison(played)
        assert "nothing to compare" in page.verdicts(played)

    def test_a_play_on_a_machine_that_was_too_busy_says_so(self) -> None:
        assert "only 80% of the load" in page.comparison(results(average={"sent_share": 0.8}))

    def test_gaps_of_orders_are_set_beside_those_of_plain_unloads(self) -> None:
        def gaps(p50: int) -> dict[str, Any]:
            return {
                f"{side}_gap_ms": {"count": 30, "p50": p50, "p99": 900, "max": 950} for side in ("publish", "consume")
            }

        made = page.unloads(
            {
                "unloads_modular": {"figures": {"orders": gaps(200), "plain_unloads": gaps(190)}},
                "unloads_extensible": {"figures": {"orders": gaps(300), "plain_unloads": gaps(190)}},
            }
        )
        assert "modular: the median gap of an order is 200 ms, at most a fifth longer" in made
        assert "extensible: the median gap of an order is 300 ms, **more than a fifth longer**" in made

    def test_plain_unloads_that_moved_the_bundle_have_figures_of_their_own(self) -> None:
        def one(kind: str, at_ms: int, moved: bool) -> Unload:
            return Unload(kind, "a", at_ms, at_ms + 10, "moved" if kind == ORDER else "204", moved)

        stage: Any = SimpleNamespace(ballast=object(), layout=SimpleNamespace(bundle_of={"t": "a", "u": "b"}))
        unloads = Unloads(stage)
        unloads.done = [one(ORDER, 100, True), one(PLAIN, 200, False), one(PLAIN, 300, True)]
        gaps = [Gap("t", 70, 105), Gap("t", 20, 205), Gap("t", 60, 301), Gap("t", 65, 310), Gap("u", 999, 305)]
        found = unloads.figures(TrafficReport(publish_gaps=gaps, consume_gaps=gaps))
        plain = found["plain_unloads"]
        assert (plain["publish_gap_ms"]["count"], plain["publish_gap_ms"]["min"]) == (2, 20)
        assert (plain["moved"]["publish_gap_ms"]["count"], plain["moved"]["publish_gap_ms"]["p50"]) == (1, 65)
        made = page.unloads({"unloads_modular": {"figures": found}})
        assert "an order is 70 ms, **more than a fifth longer** than the 20 ms of plain unloads." in made
        assert "at most a fifth longer than the 65 ms of plain unloads that moved the bundle." in made

    def test_where_no_plain_unload_moved_anything_nothing_is_claimed(self) -> None:
        stage: Any = SimpleNamespace(ballast=object(), layout=SimpleNamespace(bundle_of={"t": "a"}))
        unloads = Unloads(stage)
        unloads.done = [Unload(ORDER, "a", 0, 10, "moved", True), Unload(PLAIN, "a", 20, 30, "204", False)]
        made = page.unloads({"unloads_modular": {"figures": unloads.figures(TrafficReport())}})
        assert "plain unloads that moved it | 0 |" in made
        assert "that moved the bundle" not in made


def test_a_log_is_followed_from_within_a_line(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("w") as writer, file.open() as reader:
        writer.write('{"n": 1}\n{"n"')
        writer.flush()
        reader.seek(0, os.SEEK_END)
        follower = LogFollower(reader)
        assert list(follower.read_new()) == []
        writer.write(': 2}\n{"n": 3}\n{"n": ')
        writer.flush()
        assert list(follower.read_new()) == [{"n": 3}]
        writer.write("4}\n")
        writer.flush()
        assert list(follower.read_new()) == [{"n": 4}]


class TestCalibration:
    def test_the_volume_makes_brokers_as_busy_as_wanted(self) -> None:
        steps = [Step(total, 5 + total / 3 * 0.04) for total in (1_000.0, 2_000.0, 3_000.0)]
        assert find_volume(steps, 0.3) == Volume(3_000.0, 1_000.0, 0.3)

    def test_what_was_tried_corrects_the_volume(self) -> None:
        even, hot = {"broker1": 45.0, "broker2": 45.0}, {"broker1": 65.0, "broker2": 45.0}
        assert correct(Volume(3_000, 1_000), even, hot) == Volume(3_000, 2_000)

    def test_usage_that_does_not_grow_is_no_measurement(self) -> None:
        with pytest.raises(PulsarFailed, match="busy"):
            find_volume([Step(1_000.0, 40.0), Step(2_000.0, 39.0)], 0.3)

    def test_a_load_that_was_not_reached_is_no_result(self) -> None:
        assert is_reached({"broker1": 88.0, "broker2": 44.0, "broker3": 49.0}, TOLERANCE_PCT)
        for usage in ({"broker1": 35.0, "broker2": 34.0}, {"broker1": 99.0, "broker2": 45.0}):
            assert not is_reached(usage, TOLERANCE_PCT)
        assert not is_reached(
            {"broker1": 85.0, "broker2": 60.0, "broker3": 56.0}, TOLERANCE_PCT
        )  # the others count, too


class TestProgram:
    def test_what_was_played_is_not_played_again(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        monkeypatch.setattr(result, "FOLDER", tmp_path)
        for name in ("calibration", *PLAYS):
            (tmp_path / f"{name}.json").write_text("{}")
        assert program.main([]) == 0
        assert capsys.readouterr().out.count("played before") == len(PLAYS) + 1
