"""What the demo shows: events in words, a picture that fits its terminal, lines with signs of life, the end."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from controller.cli.main import main
from controller.config.load import load_settings
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.state import ClusterState
from controller.process import paths
from controller.testbed.demo.figures import DemoFigures
from controller.testbed.demo.screen.events import Events, Half
from controller.testbed.demo.screen.plain import SIGN_OF_LIFE_S, PlainLines
from controller.testbed.demo.screen.summary import choose_questions, next_lines, summary_lines
from controller.testbed.demo.screen.view import LiveView
from tests.unit.control.plan_driver import decide, move, running

BUNDLE, OTHER = "demo/orders/0x90000000_0x98000000", "demo/metrics/0x60000000_0x70000000"
A, B = "broker-1#1.n.1", "broker-3#1.n.1"
ROUND = "1795313850000"
NO_EXCHANGES: dict[str, Half] = {}


def entry(kind: Kind, seq: int = 1, **fields: Any) -> Entry:
    return Entry(seq, kind, "me", 1, 1_000 + seq, **fields)


def owned(state: str, epoch: int, by: str | None, to: str | None = None, bundle: str = BUNDLE, **more: Any) -> Entry:
    return entry(Kind.OWNERSHIP, bundle=bundle, state=state, epoch=epoch, by=by, to=to, **more)


def lines(*entries: Entry, swaps: dict[str, Half] = NO_EXCHANGES) -> list[str]:
    return Events(lambda round_id: swaps if round_id == ROUND else {}, lambda round_id: "").lines(entries)


def test_events_are_told_in_a_line_and_the_rest_not_at_all() -> None:
    assert lines(owned("transferring", 2, A, B, reason="102_above_mean")) == [
        "move orders/0x90000000_0x98000000: broker-1 → broker-3, above the mean"
    ]
    assert lines(owned("splitting", 2, A, reason="112_split_msg_rate")) == [
        "split orders/0x90000000_0x98000000 on broker-1: more messages/s than a bundle may have"
    ]
    ended = entry(Kind.SESSION_ENDED, broker="broker-1", reason="lease")
    assert lines(ended) == ["broker-1 is gone: its lease ran out"]
    assert lines(entry(Kind.REGISTERED, broker="broker-3")) == ["broker-3 has joined"]
    assert lines(entry(Kind.ALARM, reason="cannot_fence", bundle=BUNDLE)) == [
        "alarm: cannot_fence orders/0x90000000_0x98000000"
    ]
    assert lines(entry(Kind.OFFSETS), owned("owned", 2, A)) == []


def test_who_takes_over_from_a_dead_broker_is_told() -> None:
    dead = [owned("owned", 2, A), entry(Kind.SESSION_ENDED, broker="broker-1", reason="lease"), owned("free", 2, None)]
    assigned = owned("assigning", 3, None, B, reason="104_orphaned")
    assert lines(*dead, assigned)[-1] == "failover orders/0x90000000_0x98000000: broker-1 → broker-3"
    assert lines(owned("assigning", 1, None, B, reason="105_first_lookup")) == [], "there are dozens of these"


def test_what_a_split_made_has_the_owner_of_what_was_split() -> None:
    cut = entry(Kind.SPLIT, bundle="demo/orders/0x90000000_0xa0000000", by=A, data={"children": {BUNDLE: 3}})
    (line,) = lines(cut, owned("assigning", 4, None, B, reason="104_orphaned"))
    assert line.endswith("broker-1 → broker-3")


def test_what_comes_back_in_an_exchange_says_for_which_bundle() -> None:
    halves = {f"{ROUND}-0004": Half(OTHER, returning=False), f"{ROUND}-0005": Half(BUNDLE, returning=True)}
    gone = owned("transferring", 2, A, B, reason="102_above_mean", decision_id=f"{ROUND}-0004")
    back = owned("transferring", 2, B, A, bundle=OTHER, reason="102_above_mean", decision_id=f"{ROUND}-0005")
    assert lines(gone, back, swaps=halves) == [
        "swap orders/0x90000000_0x98000000: broker-1 → broker-3",
        "  in return metrics/0x60000000_0x70000000: broker-3 → broker-1, for orders/0x90000000_0x98000000",
    ]


class Cluster:
    """As much of a cluster as a screen looks at."""

    def __init__(self, entries: list[Entry], *overrides: str) -> None:
        self.config_file = Path("/tmp/my demo/ballast.yaml")
        self.settings = load_settings(None, "demo", overrides, env={})
        self.entries = self.seen = entries
        self.operator = self.follower = self
        self.state = fold(ClusterState(), [e for e in entries if e.kind is Kind.REGISTERED])


def joined(count: int) -> list[Entry]:
    names = [f"broker-{n}" for n in range(1, count + 1)]
    return [entry(Kind.REGISTERED, n, broker=b, session=f"{b}#1.n.1") for n, b in enumerate(names, 1)]


def a_round(seq: int, **scores: float) -> Entry:
    named = {name.replace("_", "-"): score for name, score in scores.items()}
    return entry(Kind.ROUND, seq, data={"at_ms": 500, "memory": {"scores": named}})


def picture(width: int, height: int, entries: list[Entry], encoding: str = "utf-8") -> list[str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    view = LiveView(Console(file=out, width=width, height=height, force_terminal=True, color_system=None))
    view.act("1/8 namespaces, 96 topics, and clients that send and read")
    view.act("2/8 skew: the topics of broker-1 get hot")
    view.doing("waiting for relief of broker-1")
    view.watch(Cluster(entries))  # type: ignore[arg-type]
    return view.picture(width, height - 1).plain.splitlines()


MOVES = [owned("transferring", n, A, B, reason="102_above_mean") for n in range(2, 40)]
LAST = entry(Kind.SESSION_ENDED, 99, broker="broker-2", reason="lease")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (60, 24), (40, 12), (80, 10)])
@pytest.mark.parametrize("brokers", [2, 5, 50])
def test_the_newest_event_is_the_last_line_of_a_picture_that_fits(width: int, height: int, brokers: int) -> None:
    entries = [*joined(brokers), a_round(60, broker_1=0.41), *MOVES, LAST]
    shown = picture(width, height, entries)
    assert len(shown) <= height - 1
    assert max(map(len, shown)) <= width
    assert shown[-1].endswith("its lease ran out")
    assert any("2/8 skew" in line for line in shown)
    assert any("s waiting for relief" in line for line in shown)


def test_a_terminal_of_80x24_shows_every_broker_of_the_demo_with_its_load() -> None:
    shown = picture(80, 24, [*joined(5), a_round(60, broker_1=0.41, broker_2=0.2), *MOVES, LAST])
    (first,) = [line for line in shown if line.startswith("broker-1")]
    assert "41%" in first
    assert first.count("█") > 15
    assert sum(line.startswith("broker-") for line in shown) >= 5
    assert sum(line.startswith("move ") for line in shown) >= 8


def test_before_there_is_a_cluster_the_picture_says_what_starts() -> None:
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    view = LiveView(console)
    view.act("starting Kafka, store, Spark job and 4 brokers in run/demo")
    view.doing("Kafka starts (a JVM)")
    shown = view.picture(80, 23).plain
    assert "Kafka starts (a JVM)" in shown
    assert "0 s" in shown


def test_a_terminal_without_utf_8_gets_characters_that_it_has() -> None:
    shown = picture(80, 24, [*joined(2), a_round(60, broker_1=0.41), *MOVES], encoding="ascii")
    "\n".join(shown).encode("ascii")
    assert any("####" in line for line in shown)


def test_after_the_clients_stopped_loads_and_events_stay_as_they_were() -> None:
    cluster = Cluster([*joined(2), a_round(60, broker_1=0.41)])
    view = LiveView(Console(file=io.StringIO(), width=80, height=24, force_terminal=True))
    view.watch(cluster)  # type: ignore[arg-type]
    view.closing()
    cluster.entries += [a_round(61, broker_1=0.02), LAST]
    shown = view.picture(80, 23).plain
    assert "41%" in shown
    assert "gone" not in shown


def test_lines_tell_acts_waits_and_events_and_repeat_a_long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    plain = PlainLines(Console(file=out, width=80))
    now_s = [plain.started_s]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    plain.act("starting everything")
    plain.doing("Kafka starts (a JVM)")
    plain.watch(Cluster([*joined(1), MOVES[0]]))  # type: ignore[arg-type]
    plain.look()
    now_s[0] += SIGN_OF_LIFE_S
    plain.look()
    plain.look()
    assert out.getvalue().splitlines() == [
        "[   0.0 s] starting everything",
        "[   0.0 s]     Kafka starts (a JVM)",
        "[   0.0 s]   · broker-1 has joined",
        "[   0.0 s]   · move orders/0x90000000_0x98000000: broker-1 → broker-3, above the mean",
        "[  10.0 s]     Kafka starts (a JVM), for 10 s now",
    ]


@pytest.mark.parametrize(
    ("overrides", "end"),
    [([], "with the same words"), (["ui.token_file=/etc/tokens"], "with the same words, or on the page")],
)
def test_a_plan_that_waits_names_the_command_that_decides(
    overrides: list[str], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is named only where one can log in there."""
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    driver = running()
    decide(driver, move(driver, 0), move(driver, 1, "c:1"))
    plan = next(e for e in driver.journal if e.kind is Kind.PLAN)
    screen = PlainLines(Console(file=io.StringIO()))
    screen.watch(Cluster([], *overrides))  # type: ignore[arg-type]
    (line,) = screen.fresh_lines([plan])
    command = "`ballast approve r10000000 --why REASON --conf '/tmp/my demo/ballast.yaml'`"
    assert line.endswith(f"; decide with {command}, or `ballast decline` {end}")


def test_what_to_ask_about_happened_in_this_run() -> None:
    swaps = {f"{ROUND}-0005": Half(BUNDLE, returning=True)}
    told = [
        owned("transferring", 2, A, B, decision_id=f"{ROUND}-0000"),
        owned("transferring", 2, B, A, bundle=OTHER, decision_id=f"{ROUND}-0005"),
        owned("assigning", 3, None, B, reason="104_orphaned"),
    ]
    asked = choose_questions(told, "broker-1", "broker-1", lambda round_id: swaps)
    assert [name for name, _ in asked] == [f"{ROUND}-0000", f"{ROUND}-0005", BUNDLE]
    decided = [*told[:2], owned("assigning", 3, None, B, reason="104_orphaned", decision_id="step-me-7-0000")]
    assert choose_questions(decided, "broker-1", "broker-1", lambda _: {})[-1][0] == "step-me-7-0000"
    assert choose_questions([], "", "", lambda _: {}) == []


def full() -> DemoFigures:
    return DemoFigures(
        messages_written=40_000, messages_read=52_345, redelivered=12, transfers=31, splits=1, handovers_measured=58,
        handover_gap_p50_ms=420.0, handover_gap_p99_ms=2_000.0, handover_beyond_interval_p50_ms=3.2,
        handover_beyond_interval_max_ms=61.0, sending_interval_p50_ms=410.0, failover_s=7.31, skew_to_relief_s=41.5,
        spread_before=0.51, spread_after=0.02, scores_after={"broker-1": 0.33, "broker-2": 0.35}, calm=True,
        calm_after_s=44.0, rounds=44,
    )  # fmt: skip


def test_the_end_says_what_its_figures_mean_in_lines_for_80_columns() -> None:
    told = list(summary_lines(full(), 231.4))
    assert max(map(len, told)) <= 80
    text = "\n".join(told)
    for word in (
        "Nothing lost",
        "calm 44 s",
        "33 % to 35 %",
        "2 points between the busiest and the idlest; 51 when it was worst",
        "58 seen by producers",
    ):
        assert word in text
    for explained in (
        "read > written:",
        "delivered again, as",
        "beyond the producer's own sending interval (median 410 ms)",
    ):
        assert explained in text


def test_the_end_says_that_it_is_not_calm_and_why() -> None:
    figures = full()
    figures.calm, figures.not_calm = False, ["broker-2 is 36.0% busy where 30.0% would be even: moved too recently"]
    figures.not_calm.append("demo/metrics/0x60000000_0x70000000 is under way")
    told = list(summary_lines(figures, 231.4))
    assert max(map(len, told)) <= 80
    assert "balance     NOT calm at the end:" in told
    assert "              demo/metrics/0x60000000_0x70000000 is under way" in told
    assert any(line.startswith("              broker-2 is 36.0% busy where 30.0%") for line in told)
    assert "\n".join(summary_lines(DemoFigures(messages_lost=2, invariants="topic@3: gone"), 1.0)).count("2 lost") == 1


def test_the_end_names_the_folder_and_what_to_type(tmp_path: Path) -> None:
    told = list(next_lines(tmp_path, [("1795313850000-0000", "why")]))
    assert any(line.endswith("explain 1795313850000-0000") for line in told)
    assert any(f"BALLAST_CONF={tmp_path}/ballast.yaml" in line for line in told)
    assert any(line.endswith(" ui") for line in told)
    spaced = list(next_lines(tmp_path / "a b", []))
    assert f"look around: export BALLAST_CONF='{tmp_path}/a b/ballast.yaml'" in spaced


def test_without_a_checkout_the_end_names_files_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = "docs/sql.md and notebooks/01_operations.py"
    assert list(next_lines(tmp_path, []))[-1] == f"  {names}, on its tables"
    monkeypatch.setattr(paths, "SHIPPED", tmp_path)
    assert list(next_lines(tmp_path, []))[-1] == f"  {names}, on its tables", "a root may have conf alone"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "sql.md").touch()
    assert list(next_lines(tmp_path, []))[-1] == f"  {names} in {tmp_path}, on its tables"


def test_the_help_says_that_it_may_take_longer_than_its_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "The demo ends once the balancer is calm, so it may take longer." in said
    assert "a quarter of it for its effect, or 45 s (for relief 120 s) if that is more." in said
