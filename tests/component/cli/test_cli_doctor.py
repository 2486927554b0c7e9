"""`ballast doctor` on real tables without Kafka: a healthy run, and one finding for each thing that is broken."""

from __future__ import annotations

import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from controller.bus.failures import NoRight
from controller.bus.topics import TopicFacts, TopicNames, live_topics
from controller.config.sections.platform import Store
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError
from controller.domain.ids import Session
from controller.domain.state import JOURNAL, METADATA, PAUSED, Broker, ClusterState
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.doctor import cluster as cluster_checks
from controller.operations.doctor import doctor
from controller.operations.doctor import kafka as kafka_checks
from controller.operations.doctor import tables as table_checks
from controller.operations.doctor.clocks import check_clocks
from controller.operations.doctor.cluster import check_brokers, check_rounds
from controller.operations.doctor.doctor import examine
from controller.operations.doctor.finding import Finding, Page, Severity, severe
from controller.operations.doctor.host import judge_disk
from controller.operations.doctor.kafka import judge_agents, judge_cluster, judge_controller, judge_lag, judge_topics
from controller.operations.doctor.store import check_store
from controller.operations.doctor.tables import check_tables
from controller.operations.evidence_view import EvidenceView
from controller.operations.liveness import Heard
from controller.operations.reading import Reader
from controller.process.paths import ROOT
from controller.service.start import last_entries
from tests.component.cli.conftest import Ballast
from tests.documents.test_documents import anchors
from tests.short_run import ShortRun

SPECS = live_topics(TopicNames("t."))
GIB = 2**30


@pytest.fixture
def broken(run: ShortRun, tmp_path: Path) -> TableRoot:
    """A copy of the run's tables, to break."""
    shutil.copytree(run.root.root, tmp_path / "tables")
    return TableRoot(tmp_path / "tables")


def examined(
    run: ShortRun, root: TableRoot | None = None, now_ms: int | None = None, profile: str = ""
) -> list[Finding]:
    settings = run.settings.model_copy()
    settings._profile = profile or run.settings.profile
    if root is not None:
        settings = settings.model_copy(update={"tables": settings.tables.model_copy(update={"root": root.root})})
    return examine(settings, lambda: now_ms or run.now_ms, offline=True)


def bad(found: list[Finding], check: str) -> list[Finding]:
    return [f for f in found if f.check == check and f.severity in (Severity.WARNING, Severity.SEVERE)]


def test_every_page_that_is_named_has_that_section() -> None:
    for page in Page:
        file, _, anchor = page.value.partition("#")
        assert anchor in anchors(ROOT / file), page


def test_a_healthy_run_has_nothing_to_do(run: ShortRun) -> None:
    found = [f for f in examined(run) if f.check != "disk"]  # the disk is this machine's
    assert [f.text for f in found if f.severity in (Severity.WARNING, Severity.SEVERE)] == []
    fine = {f.check for f in found if f.severity is Severity.OK}
    assert fine >= {"tables", "logs", "controller", "agents", "clocks", "loads", "rounds", "versions"}
    (quarantine,) = [f for f in found if f.check == "quarantine"]
    assert quarantine.text.startswith("4 records broke a rule in the last hour: ")
    assert next(f.text for f in found if f.check == "kafka").startswith("not asked (--offline)")


def test_the_command_line_tells_the_worst_first_and_ends_with_1(ballast: Ballast) -> None:
    code, out, err = ballast("doctor --offline --json")
    told = json.loads(out)
    assert (code, err) == (1, ""), "the run was in another year: no load since"
    order = [list(Severity).index(Severity(row["severity"])) for row in told["findings"]]
    assert order == sorted(order, reverse=True)
    assert told["counts"]["severe"] == sum(row["severity"] == "severe" for row in told["findings"])
    (loads,) = [row for row in told["findings"] if row["check"] == "loads"]
    assert (loads["severity"], loads["page"]) == ("severe", Page.NO_ROUNDS.value)
    assert "the newest load report is " in loads["text"]
    code, out, _ = ballast("doctor --offline")
    assert code == 1
    assert out.startswith("severe   ")
    assert f"see: {Page.NO_ROUNDS.value}" in out
    assert "1 severe" in out.splitlines()[-1]


def test_a_kafka_that_does_not_answer_is_severe_and_the_tables_are_checked(ballast: Ballast) -> None:
    code, out, _ = ballast("doctor")
    assert code == 1
    assert "severe   kafka" in out
    assert "no Kafka answers at 127.0.0.1:1" in out
    assert "ok       tables" in out


@pytest.mark.parametrize(
    ("authority", "told", "not_told"),
    [
        (JOURNAL, "Brokers and services stop serving one lease after", "Pulsar"),
        (METADATA, "Pulsar's brokers serve on", "lease"),
        (None, "services stop serving one lease after Kafka went, until it is back; Pulsar's brokers serve on", "!"),
    ],
)
def test_what_no_kafka_means_for_clients_depends_on_who_decides_ownership(
    run: ShortRun, monkeypatch: pytest.MonkeyPatch, authority: str | None, told: str, not_told: str
) -> None:
    def fail(*_: object) -> None:
        raise BallastError("no Kafka answers")

    monkeypatch.setattr(kafka_checks, "check_answers", fail)
    broker = Broker("b1:8080", Session("b1:8080", 1, "n", 1), {"authority": authority})
    state = ClusterState(brokers={broker.id: broker} if authority else {})
    (found,) = kafka_checks.check_kafka(run.settings, state, lambda: run.now_ms)
    assert told in found.remedy
    assert not_told not in found.remedy


def test_a_kafka_that_refuses_this_login_is_a_finding_with_the_page_on_rights(
    run: ShortRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise NoRight("Kafka refuses it: User:dash (kafka.client) lacks the right Read on topic owner: …")

    monkeypatch.setattr(kafka_checks, "check_answers", lambda *_: None)
    monkeypatch.setattr(kafka_checks, "cluster_id", refuse)
    (found,) = kafka_checks.check_kafka(run.settings, None, lambda: run.now_ms)
    assert (found.severity, found.page) == (Severity.SEVERE, Page.RIGHTS.value)
    assert "User:dash (kafka.client) lacks the right Read on topic owner" in found.text


def test_no_tables_is_a_finding(run: ShortRun, tmp_path: Path) -> None:
    found = examined(run, TableRoot(tmp_path / "none"))
    (tables,) = bad(found, "tables")
    assert (tables.severity, tables.page) == (Severity.SEVERE, Page.NO_TABLES.value)


def test_a_missing_table_and_a_foreign_feature_are_found(run: ShortRun, broken: TableRoot) -> None:
    shutil.rmtree(Path(broken.root) / "ownership")
    log = Path(broken.root) / "overrides" / "_delta_log"
    version = DeltaTable(broken.uri("overrides")).version() + 1
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"]}  # fmt: skip
    (log / f"{version:020d}.json").write_text(json.dumps({"protocol": protocol}) + "\n")
    found = bad(list(check_tables(broken)), "tables")
    assert any("there is no table ownership" in f.text and f.page == Page.PROJECTIONS.value for f in found)
    assert any("deletionVectors" in f.text and f.severity is Severity.SEVERE for f in found)


def test_a_damaged_table_is_told_of_once(run: ShortRun, broken: TableRoot) -> None:
    newest = max(Path(broken.root, "journal", "_delta_log").glob("*.json"))
    newest.write_text('{"add":')
    damaged = [f for f in examined(run, broken) if "journal is damaged" in f.text]
    assert [(f.check, f.severity, f.page) for f in damaged] == [("tables", Severity.SEVERE, Page.DAMAGED)]


def test_a_log_that_grows_is_found(broken: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    files = len(list((Path(broken.root) / "broker_panes" / "_delta_log").glob("*.*")))
    monkeypatch.setitem(table_checks.MOST_LOG_FILES, False, files - 1)
    monkeypatch.setattr(table_checks, "MOST_DATA_FILES", 3)
    texts = {f.text: f.remedy for f in bad(list(check_tables(broken)), "logs")}
    assert texts[f"the log of broker_panes has {files} files"] == "run `ballast maintain`"
    assert any(text.startswith("broker_panes has ") and "ballast maintain" in texts[text] for text in texts)


def test_a_journal_without_checkpoints_is_found(broken: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_checks, "CHECKPOINTS_MISSED", 0)
    since = DeltaTable(broken.uri("journal")).version() - broken.log("journal").last_checkpoint()
    assert any(
        f.text.startswith(f"journal has {since} commits since its last checkpoint")
        for f in bad(list(check_tables(broken)), "logs")
    )


def test_a_clock_that_was_set_back_is_found(run: ShortRun, broken: TableRoot) -> None:
    append(broken, run, at_ms=run.now_ms - 90_000)
    (step,) = bad(examined(run, broken), "clocks")
    assert "was set back 1 time in the last day, by 1m 30s at entry " in step.text
    assert step.severity is Severity.WARNING


def append(root: TableRoot, run: ShortRun, at_ms: int) -> None:
    """One more entry of the run's controller, a moment after the last and one with this time."""
    last = Journal(root).read_since(0)[-1]
    first = Entry(last.seq + 1, Kind.OFFSETS, last.instance, last.batch + 1, run.now_ms, data={"topics": {}})
    Journal(root).commit(
        [first, replace(first, seq=last.seq + 2, at_ms=at_ms)], last.instance, last.batch + 1
    )  # fmt: skip


def test_times_in_the_future_are_found(run: ShortRun) -> None:
    found = bad(examined(run, now_ms=run.now_ms - 600_000), "clocks")
    assert [f.severity for f in found] == [Severity.SEVERE, Severity.SEVERE]
    assert any("the newest load report is " in f.text for f in found)


def test_a_store_that_is_slow_makes_no_clock_wrong(run: ShortRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read was written after the reading began."""
    at_ms, rows = [run.now_ms - 600_000], Reader.rows

    def read_slowly(self: Reader, *given: Any, **more: Any) -> Any:
        found = rows(self, *given, **more)
        at_ms[0] = run.now_ms
        return found

    monkeypatch.setattr(Reader, "rows", read_slowly)
    assert [finding.severity for finding in check_clocks(Reader(run.settings), lambda: at_ms[0])] == [Severity.OK]


def test_a_store_that_is_slow_makes_nobody_late(run: ShortRun, monkeypatch: pytest.MonkeyPatch) -> None:
    at_ms, read = [run.now_ms], cluster_checks.loads_progress

    def read_slowly(root: TableRoot) -> Any:
        at_ms[0] += 600_000
        return read(root)

    monkeypatch.setattr(cluster_checks, "loads_progress", read_slowly)
    found = examine(run.settings, lambda: at_ms[0], offline=True)
    assert {f.check: f.severity for f in found if f.check in ("loads", "rounds")} == {
        "loads": Severity.OK,
        "rounds": Severity.OK,
    }


def test_a_controller_that_is_silent_comes_before_the_reports_that_nobody_reads(
    run: ShortRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = severe("controller", "the controller is silent", "start it", Page.CONTROLLER)
    monkeypatch.setattr(doctor, "_check_kafka", lambda *_: [silent])
    monkeypatch.setattr(doctor, "_find_end", lambda *_: "")
    found = examine(run.settings, lambda: run.now_ms + 600_000, offline=False)
    severe_ones = [f.check for f in found if f.severity is Severity.SEVERE]
    assert severe_ones.index("controller") < severe_ones.index("loads")


def test_a_stopped_controller_and_missing_rounds_are_found(run: ShortRun, broken: TableRoot) -> None:
    late = examined(run, now_ms=run.now_ms + 3_600_000)
    (rounds,) = bad(late, "rounds")
    assert (rounds.page, "where one is due every 10.0 s" in rounds.text) == (Page.NO_ROUNDS.value, True)
    paused = replace(run.state, mode=PAUSED)  # in which rounds run all the same
    view = EvidenceView(Reader(run.settings))
    assert list(check_rounds(view, paused, run.settings, run.now_ms + 3_600_000)) == [rounds]
    last = Journal(broken).read_since(0)[-1]
    stopped = Entry(last.seq + 1, Kind.CONTROLLER_STOPPED, last.instance, last.batch + 1, run.now_ms)
    Journal(broken).commit([stopped], last.instance, last.batch + 1)
    found = examined(run, broken, now_ms=run.now_ms + 3_600_000, profile="local")
    (controller,) = bad(found, "controller")
    assert controller.text == f"no controller runs; the last was {last.instance}"
    assert bad(found, "rounds") == bad(found, "loads") == [], "nobody is there to run them"


def test_why_a_controller_failed_is_told(run: ShortRun, broken: TableRoot) -> None:
    last = Journal(broken).read_since(0)[-1]
    failed = last_entries(
        run.state, last.instance, last.batch + 1, run.now_ms, {}, {}, "the loads query ended: no disk"
    )
    Journal(broken).commit([replace(failed[0], seq=last.seq + 1)], last.instance, last.batch + 1)
    (controller,) = bad(examined(run, broken, profile="local"), "controller")
    assert controller.text.endswith(", which failed: the loads query ended: no disk")
    assert "mend what failed" in controller.remedy


def test_brokers_that_are_all_drained_are_found(tmp_path: Path) -> None:
    run = ShortRun(tmp_path / "tables")
    for broker in ("b1:8080", "b2:8080"):
        run.join(broker)
        run.command("drain", broker=broker)
    (found,) = bad(examined(run), "agents")
    assert (found.severity, found.page) == (Severity.SEVERE, Page.NO_BROKER.value)
    assert found.text == "no broker may take bundles: all 2 alive are drained"
    view = EvidenceView(Reader(run.settings))
    pulsar = {b.id: replace(b, info={"authority": METADATA}) for b in run.state.brokers.values()}
    observed = next(iter(check_brokers(replace(run.state, brokers=pulsar), view)))
    assert (observed.severity, observed.text) == (Severity.WARNING, found.text), "Pulsar assigns them all the same"
    run.command("undrain", broker="b1:8080")
    assert bad(examined(run), "agents") == []


def test_a_segment_store_is_looked_for_where_reference_brokers_are_alive(run: ShortRun) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*listener.getsockname())
        settings = run.settings.model_copy(update={"store": Store(address=address)})
        (missing,) = check_store(settings, run.state)
        assert missing.severity is Severity.SEVERE
        assert f"no segment store answers from here at {address}: " in missing.text
        listener.listen()
        (found,) = check_store(settings, run.state)
        assert found.severity is Severity.OK
    others = {b.id: replace(b, info={**b.info, "runtime": "counters"}) for b in run.state.brokers.values()}
    assert list(check_store(settings, replace(run.state, brokers=others))) == []
    anywhere = run.settings.model_copy(update={"store": Store(address="127.0.0.1:0")})
    assert list(check_store(anywhere, run.state)) == []


def test_disks() -> None:
    assert judge_disk("tables.root", "/d", 50 * GIB, 100 * GIB).severity is Severity.OK
    assert judge_disk("tables.root", "/d", 8 * GIB, 100 * GIB).severity is Severity.WARNING
    full = judge_disk("tables.root", "/d", GIB // 4, 2 * GIB)
    assert (full.severity, full.text) == (Severity.SEVERE, "0.2 GiB of 2 GiB (12 %) free for tables.root (/d)")


# ------------------------------------------------------------ Kafka, by what was read of it


def facts_of(**changed: object) -> dict[str, TopicFacts]:
    facts = {
        s.name: TopicFacts(s.name, "id", s.partitions, s.timestamp_type, s.retention_ms, 1, 3, s.cleanup_policy)
        for s in SPECS
    }
    return {name: replace(f, **changed) if name == "t.commands" else f for name, f in facts.items()}  # type: ignore[arg-type]


def test_another_kafka_than_the_journals_is_severe() -> None:
    state = ClusterState(kafka={"cluster_id": "old"})
    (found,) = judge_cluster("new", state)
    assert (found.severity, found.page) == (Severity.SEVERE, Page.ANOTHER_KAFKA.value)
    assert "--accept-new-kafka new" in found.remedy
    assert [f.severity for f in judge_cluster("old", state)] == [Severity.OK]


def test_settings_of_topics() -> None:
    assert [f.severity for f in judge_topics(SPECS, facts_of())] == [Severity.OK]
    (missing,) = judge_topics(SPECS, {n: f for n, f in facts_of().items() if n != "t.owner"})
    assert (missing.severity, missing.text) == (Severity.SEVERE, "there is no topic t.owner")
    (clock,) = judge_topics(SPECS, facts_of(timestamp_type="CreateTime"))
    assert clock.text == "topic t.commands has message.timestamp.type=CreateTime, needed is LogAppendTime"
    assert clock.remedy.startswith("set it with `kafka-configs --alter")
    (short,) = judge_topics(SPECS, facts_of(retention_ms=3_600_000))
    assert (short.severity, "keeps records for 1h 00m, meant is 7d 0h" in short.text) == (Severity.WARNING, True)
    (writes,) = judge_topics(SPECS, facts_of(min_insync_replicas=4))
    assert "so nothing can be written" in writes.text


def test_a_controller_that_is_silent_or_a_stranger(run: ShortRun) -> None:
    state, now_ms = run.state, run.now_ms
    engine = {"spark": "4.0.0", "master": "local[2]", "executors": 0, "cores": 2}
    told = list(judge_controller(Heard(state.instance, now_ms - 500, state.journal_id, engine), state, now_ms))
    assert [(f.check, f.severity) for f in told] == [("controller", Severity.OK), ("spark", Severity.OK)]
    (silent,) = judge_controller(Heard(state.instance, now_ms - 60_000), state, now_ms)
    assert (silent.severity, silent.text.endswith("last heard 1m 00s ago")) == (Severity.SEVERE, True)
    ours = state.copy()
    ours.journal_id = "ours"
    (stranger,) = judge_controller(Heard("x", now_ms, "another"), ours, now_ms)
    assert stranger.page == Page.ANOTHER_JOURNAL.value


def test_agents_that_are_silent_or_behind(run: ShortRun) -> None:
    state = run.state
    b1, b2, b3 = (broker.session for broker in state.live_brokers())
    assert list(judge_agents({b1: state.seq, b2: state.seq, b3: state.seq - 10}, state, 1_000)) == []
    silent, behind = judge_agents({b1: state.seq, b2: state.seq - 50}, state, 20)
    assert silent.text.endswith(": b3:8080")
    assert behind.text.endswith("b2:8080 by 50 entries")


def test_records_that_wait_for_the_controller() -> None:
    state = ClusterState(offsets={"commands": {"0": 10}, "broker-events": {"0": 5}})
    (fine,) = judge_lag({"commands": {"0": 12}, "broker-events": {"0": 5}}, state)
    assert (fine.severity, fine.text) == (
        Severity.OK, "2 records of control topics not in the journal's offsets: 2 in commands"
    )  # fmt: skip
    (one,) = judge_lag({"commands": {"0": 11}}, state)
    assert one.text == "1 record of control topics not in the journal's offsets: 1 in commands"
    (late,) = judge_lag({"commands": {"0": 5_010}}, state)
    assert (late.severity, "5000 in commands" in late.text) == (Severity.WARNING, True)
