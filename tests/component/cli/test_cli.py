"""The command line: what it prints about real tables, its exit codes, its one-line errors. No JVM, no Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from controller.brokers.reference.store.client import StoreClient
from controller.cli.act.drain import NotEmpty, wait_until_empty
from controller.cli.decision_text import print_decisions
from controller.cli.evidence_text import evidence_lines, kind_text, reason_text
from controller.cli.look.brokers import _state_text
from controller.cli.look.status import round_text
from controller.cli.main import COMMANDS, main
from controller.cli.show import duration_text, pack_rows, percent_text, rate_text, time_text
from controller.domain.decision import Reason
from controller.domain.entries import Kind
from controller.domain.events import BrokerEvent
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.reasons.words import describe_reason
from controller.operations.evidence_view import EvidenceView
from controller.operations.evidence_words import result_text
from controller.operations.liveness import OFFLINE, Heard
from controller.operations.overview import broker_rows
from controller.operations.overview import status as status_of
from controller.operations.reading import Reader
from controller.operations.text import minute_text
from controller.policy.strategies import get
from controller.policy.strategies.headroom import Headroom
from controller.process.paths import ROOT
from tests.short_run import INSTANCE, ShortRun, play

NO_BROKER = "no broker is named nosuch"
READING = (
    *("status --offline", "brokers", "bundles", "decisions", "rounds", "journal", "namespace list", "mode"),
    *("strategy", "override list", "replay", "plan", "quarantine list"),
)
GROUPS = {
    "namespace": ("create", "list"),
    "topic": ("create", "unload", "lookup"),
    "config": ("show", "check"),
    "quarantine": ("list", "show"),
    "override": ("pin", "avoid", "freeze", "exclude-namespace", "list", "end"),
    "pulsar": ("advise", "check", "adopt", "release"),
}
OURS = [
    *(
        "status",
        "brokers",
        "bundles",
        "decisions",
        "rounds",
        "replay",
        "diff",
        "plan",
        "doctor",
        "capture",
        "produce",
        "consume",
        "explain",
        "journal",
        "unload",
        "split",
        "drain",
    ),
    *("undrain", "mode", "strategy", "round-now", "thaw", "store"),
    *(f"{group} {name}" for group, names in GROUPS.items() for name in names),
]


@pytest.mark.parametrize("command", OURS)
def test_every_command_tells_how_it_is_used(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"Usage: ballast {command}" in out
    shared = ("--conf", "--profile", "--set") if command == "store" else ("--conf", "--profile", "--set", "--json")
    assert all(option in out for option in shared)


def test_the_overview_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in COMMANDS)
    assert {command.split()[0] for command in OURS} <= set(COMMANDS)


@pytest.mark.parametrize("line", READING)
def test_reading_commands_need_no_jvm_and_no_kafka(ballast: Any, line: str) -> None:
    code, out, err = ballast(line)
    assert (code, err) == (0, "")
    assert out.strip()


def test_the_command_line_imports_no_spark() -> None:
    modules = sorted({command.module for command in COMMANDS.values()})
    script = (
        f"import sys, importlib\nfor m in {modules!r}: importlib.import_module(m)\nassert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_status_counts_what_the_journal_says(run: ShortRun) -> None:
    found = status_of(Reader(run.settings), run.now_ms, Heard(INSTANCE, run.now_ms - 300), None)
    assert found["controller"]["alive"] is True
    assert found["mode"] == "live"
    assert (found["strategy_by_command"], found["overrides"]) == (None, 0)
    nobody = {"silent": [], "unserved": 0, "drained": [], "leaving": [], "gone": []}
    assert found["brokers"] == {"registered": 3, "alive": 3, **nobody}
    assert found["bundles"] == Counter(r.state.value for r in run.state.bundles.values())
    (moving,) = found["in_flight"]
    assert (moving["state"], moving["owner"], moving["to"]) == ("transferring", "b2:8080", "b1:8080")
    assert moving["age_ms"] == run.now_ms - moving["since_ms"]
    assert found["last_round"]["sources"] == ["b1:8080"]
    assert found["last_round"]["age_ms"] < 60_000
    assert 0 < found["loads"]["lag_ms"] < 60_000
    assert found["quarantined_last_hour"]["total"] == 4
    assert found["problems"] == []


def test_status_says_when_a_controller_is_silent(run: ShortRun) -> None:
    reader = Reader(run.settings)
    killed = status_of(reader, run.now_ms, Heard(INSTANCE, run.now_ms - 60_000), None)
    assert killed["controller"]["alive"] is False
    assert "silent" in killed["problems"][0]
    unknown = status_of(reader, run.now_ms, None, "no Kafka answers")
    assert unknown["controller"]["alive"] is None
    assert unknown["problems"] == ["no Kafka answers"], "that the controller is silent is not known"
    assert status_of(reader, run.now_ms, None, OFFLINE)["problems"] == []


def test_a_round_without_scores_says_so(run: ShortRun) -> None:
    last = status_of(Reader(run.settings), run.now_ms, None, "not asked")["last_round"]
    assert "mean " in round_text(last)
    assert f"{last['round_id']} at {time_text(last['at_ms'])} UTC by {last['strategy']}" in round_text(last)
    assert round_text({**last, "mean_score": None, "max_score": None}).endswith("no broker had a score")
    assert round_text(None) == "none yet"


@pytest.mark.covers("list-distribution")
def test_brokers_join_the_last_round(document: Any, run: ShortRun) -> None:
    rows = {row["broker"]: row for row in document("brokers")}
    owned = Counter(r.by.broker for r in run.state.bundles.values() if r.by)
    assert {broker: row["bundles"] for broker, row in rows.items()} == owned
    assert rows["b3:8080"]["incarnation"] == 2
    assert rows["b1:8080"]["is_source"] is True
    assert rows["b1:8080"]["score"] == pytest.approx(rows["b1:8080"]["utilisations"]["cpu"], abs=0.01)
    assert rows["b1:8080"]["lookup_url"] == "http://b1:7001"


@pytest.mark.covers("list-distribution")
def test_bundles_can_be_narrowed(document: Any, ballast: Any, run: ShortRun) -> None:
    everything = document("bundles")
    living = {str(r.bundle) for r in run.state.bundles.values() if r.state is not State.RETIRED}
    assert {row["bundle"] for row in everything} == living
    rates = [row["throughput"] or 0 for row in everything]
    assert rates == sorted(rates, reverse=True)
    narrowed = document("bundles --namespace shop/orders --broker b1:8080 --state owned")
    assert {row["bundle"] for row in narrowed} == {b for b in run.owned_by("b1:8080") if b.startswith("shop/orders")}
    assert [row["state"] for row in document("bundles --state retired")] == ["retired", "retired"]
    assert len(document("bundles --limit 2")) == 2
    code, _, err = ballast("bundles --state lost")
    assert code == 2
    assert "--state lost is none of free, assigning" in err


@pytest.mark.covers("decision-breakdown")
def test_the_summary_counts_the_decisions_that_are_listed(document: Any, ballast: Any) -> None:
    listed = [row for row in document("decisions --limit 1000") if not row["challenger"]]
    found = document("decisions --summary")
    assert found["decisions"] == len(listed) > 0
    assert {action["bundle"] for action in found["actions"]} == {row["bundle"] for row in listed}
    assert found["left"]
    code, out, _ = ballast("decisions --summary --since 2000-01-01 --limit 1")
    assert code == 0
    assert f"{len(found['actions']) - 1} more; --limit shows them" in out
    assert document("decisions --summary --since 2100-01-01")["decisions"] == 0


def test_decisions_are_those_that_the_journal_knows(document: Any, run: ShortRun) -> None:
    attempts = {e.attempt_id for e in run.entries}
    everything = document("decisions --skips --limit 1000")
    assert {row["round_id"].startswith("step-") for row in everything} == {True, False}
    assert {row["attempt_id"] for row in everything} <= attempts
    assert not any("lost" in row["attempt_id"] for row in everything)
    done = {row["decision_id"] for row in document("decisions --limit 1000") if row["outcome"] == "executed"}
    assert done == {e.decision_id for e in run.entries if e.decision_id and "-" in e.decision_id}
    of_one = document("decisions --skips --broker b3:8080 --limit 1000")
    assert all("b3:8080" in (row["source"], row["target"]) for row in of_one)
    chosen = next(row for row in everything if row["kind"] == "transfer")
    assert document(f"decisions --round {chosen['round_id']}")[0]["round_id"] == chosen["round_id"]
    assert {row["bundle"] for row in document(f"decisions --bundle {chosen['bundle']}")} == {chosen["bundle"]}
    before, after = chosen["before"][chosen["source"]], chosen["after"][chosen["source"]]
    assert after < before


def test_rounds_are_newest_first(document: Any, run: ShortRun) -> None:
    rows = document("rounds")
    assert [row["seq"] for row in rows] == [e.seq for e in reversed(run.entries) if e.kind is Kind.ROUND]
    assert "inputs_json" not in rows[0]
    assert [row["mode"] for row in rows][-3:] == ["shadow"] * 3


def test_rounds_that_are_not_shown_are_counted(document: Any, ballast: Any) -> None:
    rows = document("rounds --limit 1000")
    assert ballast("rounds --limit 2")[1].endswith(f"\n{len(rows) - 2} more; --limit shows them\n")
    assert "more; --limit" not in ballast("rounds --limit", str(len(rows)))[1]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("bundles --broker nosuch", f"{NO_BROKER}: there are b1:8080, b2:8080, b3"),
        ("bundles --namespace nosuch", "no namespace is named nosuch: there are shop/clicks, shop/orders (`ballast "
         "namespace list` lists all)"),
        ("bundles --namespace shop/orders --broker nosuch", NO_BROKER),
        ("decisions --broker nosuch", NO_BROKER),
        ("decisions --round nosuch", "no round is named nosuch: `ballast rounds` lists those that are kept"),
        ("decisions --summary --round nosuch", "no round is named nosuch"),
        ("decisions --bundle nosuch", "no bundle is named nosuch: `ballast bundles` lists all"),
    ],
)  # fmt: skip
def test_a_filter_by_a_name_that_nothing_has_is_an_error(ballast: Any, line: str, told: str) -> None:
    for more in ([], ["--json"]):
        code, out, err = ballast(line, *more)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert err.startswith(f"ballast: {told}")


def test_a_filter_by_a_known_name_may_find_nothing(ballast: Any, document: Any, run: ShortRun) -> None:
    assert document("bundles --broker b1:8080 --state free") == []
    assert "no bundle matches" in ballast("bundles --namespace shop/orders --state assigning")[1]
    assert document("decisions --since 2100-01-01 --broker b1:8080") == []
    assert document("decisions --since 2100-01-01 --bundle", str(next(iter(run.state.bundles)))) == []
    skipped = next(row for row in document("rounds --limit 1000") if not row["moves"] + row["splits"])
    assert "no decision matches (`--skips`" in ballast("decisions --round", skipped["round_id"])[1]
    batch = next(row["round_id"] for row in document("decisions --limit 1000") if row["round_id"].startswith("step-"))
    assert document("decisions --since 2100-01-01 --round", batch) == [], "a batch of the step, which is no round"


def test_a_broker_that_only_evidence_knows_is_a_filter_of_decisions(
    document: Any, ballast: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.operations.bundles._brokers", lambda outline: ["b9:8080"])
    assert document("decisions --since 2100-01-01 --broker b1:8080") == []
    assert ballast("decisions --since 2100-01-01 --broker b7:8080")[0] == 1


def test_stored_rounds_are_decided_again(document: Any, ballast: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, rows = document("rounds --limit 1000"), document("replay --limit 1000")["rounds"]
    assert [(r["round_id"], r["rules"], r["verdict"]) for r in rows] == [
        (r["round_id"], get("headroom").rules, "equal") for r in rounds
    ]
    monkeypatch.setattr(Headroom, "rules", 9)
    code, out, _ = ballast("replay")
    assert (code, out.count(f"decided by rules {rows[0]['rules']}")) == (0, min(20, len(rows)))
    assert {row["verdict"] for row in document("replay")["rounds"]} == {"other_rules"}
    monkeypatch.undo()
    monkeypatch.setattr(Headroom, "name", "headroom ")
    code, out, _ = ballast("replay", rows[0]["round_id"])
    assert (code, out.count("DIFFERENT: stored")) == (1, 1)
    monkeypatch.undo()
    code, _, err = ballast("replay nobody")
    assert (code, err) == (1, "ballast: no round is named nobody: `ballast rounds` lists those that are kept\n")


@pytest.mark.covers("move-proposed-and-recorded", "ownership-recorded")
def test_explain_follows_a_decision_into_the_journal(document: Any, ballast: Any, run: ShortRun) -> None:
    decision = next(row for row in document("decisions") if row["outcome"] == "executed" and row["kind"] == "transfer")
    told = document("explain", decision["decision_id"])
    assert told["about"] == "decision"
    assert told["decision"]["evidence"]["hits"] >= 2
    assert told["round"]["round_id"] == decision["round_id"]
    states = [row["state"] for row in told["journal"]]
    assert (states[0], states[-1]) == ("transferring", "owned")
    assert told["journal"][-1]["by"].startswith(decision["target"])
    code, out, _ = ballast("explain", decision["decision_id"])
    assert code == 0
    assert "102_above_mean (normal)" in out
    assert f"headroom by rules {get('headroom').rules}" in out
    assert decision["bundle"] in out


def test_a_bundle_is_where_it_is_since_the_journal_says_so(document: Any, ballast: Any, run: ShortRun) -> None:
    """The grace period of its move counts on another clock, that of the load reports, and is named as such."""
    entries = {row["seq"]: row["at_ms"] for row in document("journal --limit 10000")}
    moved = next(record for record in run.state.bundles.values() if record.moved_at_ms)
    told = document("explain", str(moved.bundle))["now"]
    assert told["entry_at_ms"] == entries[moved.seq]
    assert told["entry_at_ms"] > moved.moved_at_ms
    facts = dict(line.split("  ", 1) for line in ballast("explain", str(moved.bundle))[1].split("\n\n")[0].splitlines())
    assert facts["since (UTC)"].strip() == time_text(entries[moved.seq])
    assert facts["grace period from (UTC)"].strip() == minute_text(moved.moved_at_ms)
    row = next(row for row in document("bundles") if row["bundle"] == str(moved.bundle))
    assert row["moved_at_ms"] == moved.moved_at_ms
    _, out, _ = ballast("bundles")
    shown = next(line for line in out.splitlines() if line.startswith(str(moved.bundle)))
    assert shown.rstrip().endswith(f"  {minute_text(moved.moved_at_ms)}"), "no seconds, which would look exact"


def test_explain_says_the_kind_of_a_skip_once(document: Any, ballast: Any) -> None:
    rows = document("decisions --skips --limit 1000")
    skip = next(row for row in rows if row["kind"] == row["label"] == "skip")
    facts = dict(line.split("  ", 1) for line in ballast("explain", skip["decision_id"])[1].splitlines()[:6])
    assert facts["kind"].strip() == "skip"


def test_explain_says_why_a_bundle_was_placed_where_it_is(document: Any, ballast: Any, run: ShortRun) -> None:
    placed = next(row for row in document("decisions --limit 1000") if row["reason"] == "104_orphaned")
    told = document("explain", placed["decision_id"])
    assert told["round"] is None
    assert [row["state"] for row in told["journal"]][:1] == ["assigning"]
    assert {row["decision_id"] for row in document("explain", placed["round_id"])["decisions"]} >= {
        placed["decision_id"]
    }
    assert placed["decision_id"] in {row["decision_id"] for row in document("explain", placed["bundle"])["decisions"]}
    code, out, _ = ballast("explain", placed["decision_id"])
    assert code == 0
    assert "a batch of the control step" in out
    assert "brokers for it, by " in out
    assert "chosen" in out


def test_explain_of_a_half_tells_of_the_split_that_made_it(document: Any, run: ShortRun) -> None:
    split = next(e for e in run.entries if e.kind is Kind.SPLIT and e.decision_id)
    for half in split.data["children"]:
        told = document("explain", half)
        assert told["journal"][0]["seq"] == split.seq
        assert split.decision_id in {row["decision_id"] for row in told["decisions"]}


def test_explain_of_what_was_split_names_the_halves(document: Any, ballast: Any, run: ShortRun) -> None:
    split = next(e for e in run.entries if e.kind is Kind.SPLIT)
    told = document("explain", str(split.bundle))
    assert told["split_into"] == sorted(split.data["children"])
    text = f"it was split into {' and '.join(told['split_into'])}, which move by themselves"
    assert text in " ".join(ballast("explain", str(split.bundle))[1].split())
    assert document("explain", told["split_into"][0])["split_into"] == []


def test_explain_knows_rounds_brokers_and_bundles(document: Any, ballast: Any, run: ShortRun) -> None:
    of_round = document("explain", document("rounds")[0]["round_id"])
    assert len(of_round["rounds"][0]["scores"]) == 3
    assert document("explain b2:8080")["score"]["broker"] == "b2:8080"
    bundle = run.owned_by("b2:8080")[0]
    assert document("explain", bundle)["now"]["owner"] == "b2:8080"
    for name in (of_round["rounds"][0]["round"]["round_id"], "b2:8080", bundle):
        assert ballast("explain", name)[0] == 0
    code, _, err = ballast("explain nobody")
    assert code == 1
    assert err.startswith("ballast: nothing is named nobody")
    code, _, err = ballast("explain", "")
    assert (code, err.startswith("ballast: nothing is named '': give a decision")) == (1, True)


def test_rounds_that_decided_against_a_broker_alike_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    skip = {"kind": "skip", "strategy": "steady", "challenger": False, "source": "b", "target": None, "bundle": None}
    skip |= {
        "before": {},
        "after": {},
        "outcome": None,
        "evidence": {},
        "plan": None,
        "label": "skip",
        "band": "normal",
    }
    reasons = ["100_balanced"] * 3 + ["200_hit_count"] * 2 + ["100_balanced"]
    rows = [
        {**skip, "at_ms": 1_000 * (9 - at), "decision_id": f"d{at}", "reason": reason, "reason_words": ""}
        for at, reason in enumerate(reasons)
    ]
    print_decisions(rows, join_skips=True)
    shown = capsys.readouterr().out
    assert [word for word in shown.split() if word in {row["decision_id"] for row in rows}] == ["d0", "d3", "d5"]
    assert "; likewise in the 2 rounds before" in shown
    assert "; likewise in the round before" in shown
    print_decisions(rows)
    assert capsys.readouterr().out.count("100_balanced") == 4, "a list has them all"


@pytest.mark.parametrize("wrong", ["nope.x=1", "steady.tolerance=7"])
def test_a_demo_that_cannot_be_is_refused_before_anything_starts(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--headless", "--dir", str(tmp_path / "demo"), "--set", wrong])
    told = capsys.readouterr()
    assert (ended.value.code, told.err.count("\n")) == (2, 1)
    assert "starting" not in told.out
    assert not (tmp_path / "demo").exists()


def test_the_journal_is_printed_in_order(document: Any, ballast: Any, run: ShortRun) -> None:
    assert [row["seq"] for row in document("journal --since 10 --limit 5")] == [11, 12, 13, 14, 15]
    assert [row["seq"] for row in document("journal --limit 3")] == [
        run.state.seq - 2,
        run.state.seq - 1,
        run.state.seq,
    ]
    times = sorted({entry.at_ms for entry in run.entries})
    since = times[len(times) // 2]
    expected = [entry.seq for entry in run.entries if entry.at_ms >= since]
    assert [row["seq"] for row in document(f"journal --since {since} --limit 100000")] == expected
    assert document("journal --since 1h") == [], "the run was in another year"
    assert len(document("journal --kind split --limit 100")) == 2
    bundle = run.owned_by("b2:8080")[0]
    assert {row["bundle"] for row in document(f"journal --bundle {bundle}")} == {bundle}
    assert ballast("journal --kind gossip")[0] == 2


def test_the_journals_text_hides_offsets_and_cuts_nothing(ballast: Any, document: Any, run: ShortRun) -> None:
    kinds = Counter(e.kind for e in run.entries)
    assert " offsets " not in ballast("journal --limit 1000")[1]
    assert len(ballast("journal --limit 7")[1].splitlines()) >= 8  # the newest seven that are shown
    for line in ("journal --limit 1000 --offsets", "journal --limit 1000 --kind offsets"):
        assert ballast(line)[1].count(" offsets ") == kinds[Kind.OFFSETS]
    assert sum(row["kind"] == "offsets" for row in document("journal --limit 1000")) == kinds[Kind.OFFSETS]
    registered = next(e for e in run.entries if e.kind is Kind.REGISTERED)
    _, out, _ = ballast("journal --limit 1000 --kind registered")
    assert f"info={json.dumps(registered.data['info'], sort_keys=True)}".replace(" ", "") in re.sub(
        r"\s", "", _column(out, "what")
    )


def _column(table: str, name: str) -> str:
    """The text of one column of a printed table, all rows after each other."""
    head, *lines = table.splitlines()
    begin = head.index(name)
    end = begin + len(re.match(rf"{name}\s+", head[begin:])[0])  # type: ignore[index]
    return "".join(line[begin:end] for line in lines)


def test_topics_are_whole_numbers(ballast: Any, document: Any) -> None:
    _, out, _ = ballast("bundles --limit 100")
    shown = {line.split()[0]: line for line in out.splitlines()[1:]}
    counted = {row["bundle"]: row["topics"] for row in document("bundles --limit 100") if row["topics"] is not None}
    assert counted
    head = out.splitlines()[0]
    for bundle, topics in counted.items():
        cell = shown[bundle][: head.index("topics") + len("topics")].split()[-1]
        assert cell == str(round(topics))


def test_a_broker_that_is_gone_is_called_so_everywhere(tmp_path: Path) -> None:
    run = ShortRun(tmp_path / "tables")
    for broker in ("b1:8080", "b2:8080", "b3:8080"):
        run.join(broker)
    run.batch(BrokerEvent("leaving", run.sessions["b3:8080"], run.state.seq))
    assert run.state.brokers["b3:8080"].leaving
    run.kill("b3:8080")
    run.project()
    reader = Reader(run.settings)
    expected = {"b1:8080": "alive", "b2:8080": "alive", "b3:8080": "gone"}
    assert {row["broker"]: row["state"] for row in broker_rows(reader)} == expected
    assert {row["broker"]: row["state"] for row in reader.rows("brokers", "seq").to_pylist()} == expected
    assert status_of(reader, run.now_ms, None, None)["brokers"]["gone"] == ["b3:8080"]
    assert [_state_text(row) for row in broker_rows(reader)] == ["alive", "alive", "gone"]


def test_a_killed_broker_has_no_score_and_explain_says_that_it_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = play(tmp_path / "tables")
    reader = Reader(run.settings)
    assert {row["broker"]: bool(row["reason"]) for row in broker_rows(reader)}["b2:8080"]
    run.kill("b2:8080")
    run.project()
    gone = next(row for row in broker_rows(reader) if row["broker"] == "b2:8080")
    assert (gone["state"], gone["score"], gone["reason"], gone["utilisations"]) == ("gone", None, None, {})
    for line in ("brokers", "explain b2:8080"):
        with pytest.raises(SystemExit):
            main([*line.split(), "--set", f"tables.root={run.root.root}"])
        shown = [one for one in capsys.readouterr().out.splitlines() if one.startswith("b2:8080 ")]
        assert "gone" in shown[0]
        assert "not hot" not in shown[0]


def test_a_drain_is_waited_for_until_nothing_is_owned(tmp_path: Path) -> None:
    run = ShortRun(tmp_path / "tables")
    for broker in ("b1:8080", "b2:8080"):
        run.join(broker)
    run.command("create_namespace", namespace="shop/orders", bundles=6)
    run.look_up(*map(Bundle.parse, run.state.bundles))
    run.command_unanswered("drain", broker="b1:8080")
    told: list[int] = []

    def tell(left: int) -> None:
        told.append(left)
        run.settle()  # the brokers do what they are asked for

    def nobody() -> None:
        pytest.fail("b2 is there")

    held = len(run.owned_by("b2:8080"))
    assert wait_until_empty(run.settings, "b1:8080", 30.0, tell, nobody) == 0
    assert told == [6 - held]
    assert run.owned_by("b1:8080") == []
    with pytest.raises(NotEmpty, match="b2:8080 is not drained"):
        wait_until_empty(run.settings, "b2:8080", 30.0, told.append)


def test_a_drain_that_takes_too_long_says_what_is_left(tmp_path: Path) -> None:
    run = ShortRun(tmp_path / "tables")
    run.join("b1:8080")
    run.command("create_namespace", namespace="shop/orders", bundles=2)
    run.look_up(*map(Bundle.parse, run.state.bundles))
    run.command_unanswered("drain", broker="b1:8080")
    told: list[int] = []
    alone: list[bool] = []
    left = wait_until_empty(run.settings, "b1:8080", 0.3, told.append, lambda: alone.append(True))
    assert (left, told, alone) == (2, [2], [True])  # there is nobody else


def test_ids_are_never_cut(ballast: Any, run: ShortRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = ballast("journal --limit 1000 --kind ownership")
    assert all(e.bundle in out for e in run.entries if e.kind is Kind.OWNERSHIP)
    _, out, _ = ballast("bundles --limit 100")
    assert set(re.findall(r"shop/\w+/0x\w{8}_0x\w{8}", out)) == {
        str(r.bundle) for r in run.state.bundles.values() if r.state is not State.RETIRED
    }


def test_a_narrow_terminal_gets_rows_of_named_values() -> None:
    names = ("bundle", "state", "owner", "to", "messages")
    bundle = "shop/orders/0x00000000_0x20000000"
    rows = [(bundle, "owned", "broker-1.example:8080", None, "12 /s"), (bundle, "free", None, "", None)]
    assert list(pack_rows(names, rows, 40)) == [
        bundle,
        "  state owned",
        "  owner broker-1.example:8080",
        "  messages 12 /s",
        bundle,
        "  state free",
    ]
    assert list(pack_rows(names, rows[:1], 80))[1:] == ["  state owned  owner broker-1.example:8080  messages 12 /s"]


@pytest.mark.parametrize(
    "line",
    [
        *("brokers", "bundles", "decisions --skips", "rounds", "override list", "status --offline", "journal"),
        *("explain 200", "explain b1:8080", "explain {round}", "explain {bundle}"),
    ],
)
def test_eighty_columns_are_enough(line: str, run: ShortRun) -> None:
    """On a real terminal: no line is wider than it, so nothing is wrapped in the middle of a word."""
    main_end, terminal_end = pty.openpty()
    fcntl.ioctl(terminal_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    line = line.format(**_names(run)) if "{" in line else line
    argv = [sys.executable, "-m", "controller.cli.main", *line.split(), "--set", f"tables.root={run.root.root}"]
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(argv, stdout=terminal_end, stderr=terminal_end, cwd=ROOT, env=environment):
        os.close(terminal_end)
        shown = b""
        with contextlib.suppress(OSError):  # the terminal's end is an error on Linux
            while piece := os.read(main_end, 65536):
                shown += piece
    os.close(main_end)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()
    assert lines
    assert [text for text in lines if len(text.rstrip()) > 80] == []


def _names(run: ShortRun) -> dict[str, str]:
    """A round with candidates and a bundle that it left, by what `explain` calls them."""
    view = EvidenceView(Reader(run.settings))
    decision = next(d for d in view.decisions() if d["evidence"].get("pairs"))
    stayed = next(p["bundle"] for p in decision["evidence"]["pairs"] if p["bundle"] != decision["bundle"])
    return {"round": decision["round_id"], "bundle": stayed}


def test_following_goes_on_with_what_comes(run: ShortRun) -> None:
    argv = [sys.executable, "-m", "controller.cli.main", "journal", "--follow", "--json", "--limit", "2"]
    argv += ["--set", f"tables.root={run.root.root}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as follower:
        assert follower.stdout is not None
        first = [json.loads(follower.stdout.readline())["seq"] for _ in range(2)]
        assert first == [run.state.seq - 1, run.state.seq]
        before = run.state.seq
        run.command_unanswered("create_namespace", namespace=f"shop/n{before}", bundles=1)
        come = [json.loads(follower.stdout.readline()) for _ in range(run.state.seq - before)]
        follower.send_signal(signal.SIGINT)
        assert follower.wait(60) == 0
    assert [row["seq"] for row in come] == list(range(before + 1, run.state.seq + 1))
    assert "namespace_created" in [row["kind"] for row in come]


def test_what_cannot_be_is_one_line_and_a_code(ballast: Any) -> None:
    for line, code, words in (
        ("unload nonsense", 2, "neither tenant/namespace nor"),
        ("split shop/orders/0x0_0x1", 2, "is not tenant/namespace/0xLLLLLLLL_0xUUUUUUUU"),
        ("split shop/orders/0x00000000_0x20000000 --boundary 0x1ffffffff", 2, "no hash between"),
        ("topic unload nonsense", 2, "is not persistent://"),
        ("strategy threshold --challengers steady,threshold", 2, "'threshold' is the strategy in charge, so it is no"),
        ("mode sideways", 2, "none of shadow, live, paused"),
        ("drain b1:8080", 1, "no Kafka answers at 127.0.0.1:1"),
        ("brokers --set control.lease_ns=1", 2, "unknown key control.lease_ns"),
        ("config check --set control.lease_ms=never", 2, "is not allowed"),
        ("config show --profile moon", 2, "profile = moon is not allowed"),
        ("status --offlin", 2, "ballast status: no option --offlin, the nearest is --offline; `ballast status --help`"),
        ("brokers --levitate", 2, "ballast brokers: no option --levitate; `ballast brokers --help`"),
        ("run --onyl loads", 2, "ballast run: no option --onyl, the nearest is --only; `ballast run --help`"),
        ("run --levitate", 2, "ballast run: no option --levitate; `ballast run --help`"),
        ("stauts", 2, "ballast: no command 'stauts'; the nearest is status"),
        ("journal --since yesterday", 2, "`ballast journal --help`"),
        ("namespace create shop/x --bundles 0", 2, "ballast namespace create: Invalid value for '--bundles'"),
        ("bundles --limit -1", 2, "Invalid value for '--limit': '-1' should be greater than or equal to 1;"),
        ("ui --port 70000", 2, "Invalid value for '--port': '70000' should be less than or equal to 65535;"),
        ("bundles --limit many", 2, "'many' should be a valid integer"),
        ("topic destroy x", 2, "No such command 'destroy'"),
    ):
        ended, out, err = ballast(line)
        assert (ended, out) == (code, ""), line
        assert words in err, line
        assert err.count("\n") == 1, line


def test_missing_tables_are_said_with_the_next_step(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["status", "--set", f"tables.root={tmp_path}/none"])
    assert ended.value.code == 1
    assert "start a controller" in capsys.readouterr().err


def test_maintenance_of_no_tables_is_no_success(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["maintain", "--set", f"tables.root={tmp_path}/mistyped"])
    out = capsys.readouterr()
    assert (ended.value.code, out.out) == (1, "")
    assert f"no tables at {tmp_path}/mistyped" in out.err


@pytest.mark.parametrize("line", ["agent --broker-id b1:8080", "store --data-dir x", "status", "demo --dir README.md"])
def test_what_hinders_a_start_is_one_line(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("BALLAST_CONF", "/no/such.yaml")  # the demo has a configuration of its own
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    err = capsys.readouterr().err
    of_demo, others = "README.md is no folder", "cannot read configuration file /no/such.yaml"
    assert ended.value.code == 2
    assert (of_demo if line.startswith("demo") else others) in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("line", ["init", "demo --dir", "kafka up --dir", "spark up --dir", "pulsar dev up --dir"])
def test_a_place_where_no_folder_can_be_is_told_with_the_next_step(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "deeper", "/proc/abc"):
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), str(place)])
        err = capsys.readouterr().err
        assert (ended.value.code, err.count("\n")) == (2, 1)
        assert f"{place} cannot be used" in err
        assert "name a folder that can be written to" in err


def test_what_to_type_next_can_be_typed_where_the_folder_has_spaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mit Leer zeichen"
    with pytest.raises(SystemExit):
        main(["init", str(folder)])
    out = capsys.readouterr().out
    assert f"`ballast config check --conf '{folder}/ballast.yaml'`" in out
    assert f"`systemd-sysusers '{folder}/sysusers/ballast.conf'`" in out


def test_whoever_has_read_enough_gets_no_complaint(run: ShortRun) -> None:
    argv = [sys.executable, "-m", "controller.cli.main", "journal", "--limit", "100000"]
    argv += ["--set", f"tables.root={run.root.root}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.close()
        assert reader.stderr.read() == ""


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_output_is_no_error(closed: str, run: ShortRun) -> None:
    command = f"{sys.executable} -m controller.cli.main rounds --set tables.root={run.root.root} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr, bool(done.stdout)) == (0, "", closed == "2>&-")


@pytest.mark.parametrize("line", ["--help", "--version", "completion bash", "rounds --help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_takes_nothing_is_told_in_one_line(line: str, unbuffered: str) -> None:
    command = f"{sys.executable} -m controller.cli.main {line} > /dev/full"
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=ROOT, env=env, check=False)
    told = "ballast: cannot write the output: No space left on device; make room, or send it elsewhere\n"
    assert (done.returncode, done.stderr) == (1, told)


def test_configuration_is_shown_with_origins(document: Any) -> None:
    shown = document("config show")
    assert shown["keys"]["kafka.bootstrap_servers"] == {"value": "127.0.0.1:1", "origin": "override"}
    changed = document("config show --changed")
    assert {"tables.root", "kafka.bootstrap_servers"} <= set(changed["keys"]) < set(shown["keys"])
    assert document("config check") == {"ok": True, "profile": "local", "version": shown["version"]}


def test_the_store_listens_where_it_says(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "controller.cli.main", "store", "--data-dir", str(tmp_path / "data")]
    argv += ["--set", "store.address=127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as store:
        assert store.stdout is not None
        line = store.stdout.readline()
        assert re.fullmatch(r"ballast-store listening 127\.0\.0\.1:\d+\n", line)
        assert asyncio.run(_topics_of(line.split()[-1])) == {}
        store.send_signal(signal.SIGTERM)
        assert store.wait(60) == 0


async def _topics_of(address: str) -> dict[str, Any]:
    client = StoreClient(address)
    await client.start()
    try:
        return await client.stats()
    finally:
        await client.stop()


def test_numbers_are_readable() -> None:
    spoken = [duration_text(ms) for ms in (0, 850, 4_230, 59_949, 59_951, 190_000, 7_500_000, 273_600_000, -1_500)]
    assert spoken == ["0 ms", "850 ms", "4.2 s", "59.9 s", "1m 00s", "3m 10s", "2h 05m", "3d 4h", "-1.5 s"]
    assert [rate_text(x, "B/s") for x in (0, 3.25, 42, 1_234, 5.6e6, 7e9)] == [
        "0 B/s", "3.2 B/s", "42 B/s", "1.2 kB/s", "5.6 MB/s", "7.0 GB/s",
    ]  # fmt: skip
    assert (percent_text(0.8234), percent_text(None), percent_text(float("nan"))) == ("82.3 %", "", "")
    assert (time_text(1_790_000_000_000), time_text(None)) == ("2026-09-21 14:13:20", "")


@pytest.mark.covers("debug-mode")
def test_explain_shows_who_was_weighed_up_and_the_rule_each_lost_by(ballast: Any, document: Any, run: ShortRun) -> None:
    decisions = document("decisions --skips --limit 500")
    weighed = next(d for d in decisions if d["evidence"].get("pairs"))
    pairs = weighed["evidence"]["pairs"]
    assert 0 < len(pairs) <= 20
    last = document("rounds")[0]
    for name in (weighed["decision_id"], weighed["round_id"]):
        code, out, _ = ballast("explain", name)
        assert code == 0
        assert f"the best {len(pairs)} pairs of {weighed['source']}" in out
        for pair in pairs:
            lines = [line for line in out.splitlines() if pair["bundle"] in line and pair["target"] in line]
            assert any(line.endswith(result_text(pair, weighed)) for line in lines), (pair, lines)
    source = next(d for d in decisions if d["round_id"] == last["round_id"] and d["evidence"].get("pairs"))["source"]
    told = document("explain", source)
    assert told["considered"]["evidence"]["pairs"]
    target = told["considered"]["evidence"]["pairs"][0]["target"]
    as_target = document("explain", target)["as_target"]
    assert {row["source"] for row in as_target} == {source}
    code, out, _ = ballast("explain", target)
    assert (code, "as a target" in out) == (0, True)


@pytest.mark.covers("decision-breakdown")
def test_every_reason_is_shown_with_its_band(ballast: Any, document: Any) -> None:
    shown = {d["reason"] for d in document("decisions --skips")}
    _, out, _ = ballast("decisions --skips")
    for reason in shown:
        assert f"{reason} ({Reason(reason).band})" in out
    assert {reason_text(r.value) for r in Reason} == {
        f"{r.value} ({r.band}): {describe_reason(r.value)}" for r in Reason
    }
    assert (reason_text("999_of_the_future"), reason_text(None)) == ("999_of_the_future", "")


def test_explain_tells_why_a_bundle_stayed(document: Any, ballast: Any, run: ShortRun) -> None:
    """Considered: the round, the source and the rule it lost by, for every bundle that evidence of a round names."""
    in_charge = [row["round_id"] for row in document("rounds") if not row["challenger"]]
    by_bundle: dict[str, set[str]] = {}
    for decision in document("decisions --skips --limit 1000"):
        for pair in decision["evidence"].get("pairs", ()):
            by_bundle.setdefault(pair["bundle"], set()).add(decision["round_id"])
    moved = {(d["bundle"], d["round_id"]) for d in document("decisions --limit 1000")}
    stayed = {b: {r for r in rounds if (b, r) not in moved} for b, rounds in by_bundle.items()}
    bundle, rounds = max(stayed.items(), key=lambda item: len(item[1]))
    found = document("explain", bundle)["candidate"]
    assert [row["round_id"] for row in found["times"]] == [r for r in in_charge if r in rounds]
    first = found["times"][0]
    pair = next(
        p
        for d in document(f"decisions --skips --round {first['round_id']}")
        for p in d["evidence"].get("pairs", ())
        if p["bundle"] == bundle
    )
    assert {name: first[name] for name in pair} == pair
    assert first["source"] != pair["target"]
    code, out, _ = ballast("explain", bundle)
    assert code == 0
    assert f"considered and left in {len(rounds)} of the last {len(in_charge)} rounds" in out
    shown = [line for line in out.splitlines() if f" {first['round_id']} " in line and first["source"] in line]
    assert any((reason_text(pair["lost_by"]) or "was preferred") in line for line in shown)
    assert len(document("explain", bundle, "--rounds", "1")["candidate"]["times"]) <= 1


def test_explain_tells_why_a_bundle_was_not_considered(document: Any, ballast: Any, run: ShortRun) -> None:
    bundle = next(b for b in run.owned_by("b2:8080") if not document("explain", b)["candidate"]["times"])
    why = document("explain", bundle)["candidate"]["why_not"]
    scored = next(row for row in document("brokers") if row["broker"] == "b2:8080")
    told = {name: why[name] for name in ("broker", "score", "hits", "is_source", "reason", "reason_words")}
    assert told == {name: scored[name] for name in told}
    _, out, _ = ballast("explain", bundle)
    assert "its broker b2:8080 was no source: 200_hit_count: hot in 1 round; more are needed" in out
    nobodys = next(str(r.bundle) for r in run.state.bundles.values() if r.state is State.FREE)
    assert "nobody owns it" in ballast("explain", nobodys)[1]


def test_a_code_is_explained_with_what_can_be_done_and_the_keys(document: Any, ballast: Any, tmp_path: Path) -> None:
    told = document("explain 200")
    assert told == document("explain 200_hit_count") == document("explain HitCount")
    assert (told["about"], told["code"], told["band"]) == ("reason", "200_hit_count", "throttled")
    assert told["keys"]["shedding.consecutive_rounds"] == 2
    assert document("explain 200 --set shedding.consecutive_rounds=3")["keys"]["shedding.consecutive_rounds"] == 3
    for name in ("412", "412_external_load"):
        code, out, _ = ballast("explain", name)
        assert code == 0
        assert "412_external_load (hard): something other than its bundles keeps it busy" in out
    for name in ("499", "4120", "412_"):
        code, _, err = ballast("explain", name)
        assert (code, f"nothing is named {name}" in err) == (1, True)
    with pytest.raises(SystemExit) as ended:
        main(["explain", "412", "--set", f"tables.root={tmp_path}/none"])
    assert not ended.value.code


def test_rows_have_the_reason_in_words_beside_the_code(document: Any) -> None:
    rows = document("decisions --skips --limit 1000")
    assert all(row["reason_words"] for row in rows)
    shadow = next(row for row in rows if row["outcome"] == "301_shadow_mode")
    assert shadow["outcome_words"] == "rounds only watch in mode shadow"
    assert next(row for row in rows if row["outcome"] == "executed")["outcome_words"] is None
    words = {row["reason"]: row["reason_words"] for row in document("brokers")}
    assert words["200_hit_count"] == "hot in 1 round; more are needed"
    scores = document("explain", document("rounds")[0]["round_id"])["rounds"][0]["scores"]
    assert {row["reason"]: row["reason_words"] for row in scores} == words


def test_shares_in_evidence_are_percentages() -> None:
    seen = {"limit": 2954, "base": 120, "cost_permille": 999, "disruption_permille": 278, "hits": 5, "std": 350}
    told = ["limit: 29.5 %", "base: 1.2 %", "cost: 99.9 %", "disruption: 27.8 %", "hits: 5", "std: 3.5 %"]
    assert evidence_lines(seen) == told


def test_both_halves_of_an_exchange_say_so() -> None:
    row = {"kind": "transfer", "evidence": {"swapped_with": "t/n/0x00000000_0x80000000"}}
    assert kind_text(row) == "transfer (swap)"
    assert kind_text({"kind": "transfer", "evidence": {}}) == "transfer"
    told = evidence_lines({"score": 9123, "bundles_lost": {"201_grace_period": 3}, "swapped_with": "x", "pairs": [1]})
    assert told == [
        "score: 91.2 %",
        "bundles_lost: 3 by 201_grace_period (throttled): moved too recently",
        "swapped_with: x",
    ]


def test_shares_of_limits_are_percentages_with_names() -> None:
    seen = {"permille_of_limit": {"110_split_topics": 5, "112_split_msg_rate": 6_770}, "limits": {"cpu": 912}}
    assert evidence_lines(seen) == ["of its limits: topics 0.5 %, msg rate 677.0 %", "limits: cpu 91.2 %"]
