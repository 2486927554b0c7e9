"""Replays recorded load reports through the whole pipeline, in shadow mode and by record time.

The replay takes the place of the agents: it registers the brokers, keeps their leases, converts the reports and sends
them with their recorded times (a CreateTime topic), at any speed. Topics, tables and checkpoint are its own. The speed
does not change decisions: rounds follow the time of the reports and none is skipped.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from controller.agent.records import heartbeat
from controller.backtest.recording.input import open_lines
from controller.backtest.recording.stray import find_strays
from controller.bus.producer import JsonProducer, to_json
from controller.bus.topics import TopicNames
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.errors import BadRecord, ConfigError, printable
from controller.domain.ids import Session, check_broker_id
from controller.domain.state import METADATA, ClusterState
from controller.ledger.evidence import read_joined
from controller.loads.recorded import Overrides, Recorded, is_gap, read_policies, read_record, to_load_report
from controller.process.clock import wall_ms
from controller.testbed.local_cluster import LocalCluster

NONCE = "replay"


@dataclass(slots=True)
class ReplayResult:
    """The result of a replay. `decisions`: rows of the decisions table without skips."""

    reports: int = 0
    quarantined: int = 0
    rounds: int = 0
    decisions: list[dict[str, Any]] = field(default_factory=list)
    sources_by_phase: dict[str, list[str]] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """The last line of `--json`."""
        return {
            "reports": self.reports,
            "quarantined": self.quarantined,
            "rounds": self.rounds,
            "decisions": len(self.decisions),
            "sources_by_phase": self.sources_by_phase,
        }


def _raise(error: BadRecord) -> None:
    raise error


def read_recording(path: Path, on_refused: Callable[[BadRecord], object] = _raise) -> list[Recorded]:
    """The reports of a JSON-lines file (plain or .gz), ordered by time.

    `on_refused` gets an error for each line that cannot be replayed; such a line is left out. Raises BadRecord if none
    is left, or ConfigError if the file cannot be read.
    """
    records: list[tuple[int, Recorded]] = []
    first: BadRecord | None = None
    try:
        with open_lines(path) as (lines, _):
            for number, line in enumerate(lines, 1):
                try:
                    records += [(number, each) for each in _read_line(line, number)] if line.strip() else ()
                except BadRecord as error:
                    first = first or error
                    on_refused(error)
    except OSError as error:
        raise ConfigError(f"cannot read recording {path}: {error.strerror}") from None
    if not records:
        why = f": {first.text}" if first is not None else ""
        raise BadRecord("recording", f"{path} has no reports{why}")
    return sorted(_leave_out_strays(records, on_refused), key=lambda r: (r.at_ms, r.broker))


def _leave_out_strays(
    records: Sequence[tuple[int, Recorded]], on_refused: Callable[[BadRecord], object]
) -> Iterator[Recorded]:
    """The records without those of another time: a replay would wait for them, and decide each round between."""
    strays = find_strays(recorded.at_ms for _, recorded in records)
    for number, recorded in records:
        if strays.holds(recorded.at_ms):
            on_refused(strays.refusal(number, recorded.at_ms))
        else:
            yield recorded


def _read_line(line: bytes, number: int) -> list[Recorded]:
    """The report in a line; none for a line that holds another thing. Raises BadRecord."""
    try:
        row = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise BadRecord("not_json", f"line {number} is no JSON: {error}") from None
    if is_gap(row) or read_policies(row) is not None:
        return []
    recorded = read_record(row, number)
    session = Session(check_broker_id(recorded.broker), 1, NONCE, 1)
    try:
        for overrides in (Overrides(), Overrides(message_throughput_as_bandwidth=True, host_cpu=True)):
            to_json(to_load_report(recorded, session, 1, overrides))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        text = printable(f"{type(error).__name__} {error}"[:200])
        raise BadRecord("wrong_type", f"line {number} holds no load report of Pulsar: {text}") from None
    return [recorded]


Count = Callable[[str, int, int], None]  # what, how many so far, of how many


def replay(
    cluster: LocalCluster,
    records: Sequence[Recorded],
    speed: float,
    timeout_s: float = 600.0,
    count: Count = lambda what, done, total: None,
) -> ReplayResult:
    """Send a recording through a cluster with a running job; wait until its last round is in the journal."""
    settings = cluster.settings
    names = settings.kafka.topics
    sessions = {broker: Session(broker, 1, NONCE, 1) for broker in sorted({r.broker for r in records})}
    producer = JsonProducer(settings.kafka.bootstrap_servers, "ballast-replay", settings.kafka.client)
    stop = threading.Event()
    beats = threading.Thread(target=_beat, args=(producer, names, sessions, cluster, stop), daemon=True)
    beats.start()
    try:
        cluster.wait_until(
            lambda state: all(state.alive(s) for s in sessions.values()), 60, "registration of the recorded brokers"
        )
        send_reports(producer, names, records, sessions, settings, speed, count)
        _wait_for_rounds(cluster, records, timeout_s, count)
    finally:
        stop.set()
        beats.join(5)
        producer.close()
    return collect(settings, records)


def send_reports(
    producer: JsonProducer,
    names: TopicNames,
    records: Sequence[Recorded],
    sessions: Mapping[str, Session],
    settings: Settings,
    speed: float,
    count: Count = lambda what, done, total: None,
) -> None:
    """Send each report at its time, divided by the speed; the Kafka record carries the recorded time."""
    overrides = Overrides.of(settings)
    sequences: dict[str, int] = defaultdict(int)
    started, first = time.monotonic(), records[0].at_ms
    for number, recorded in enumerate(records, 1):
        due = started + (recorded.at_ms - first) / 1000.0 / speed
        time.sleep(max(0.0, due - time.monotonic()))
        sequences[recorded.broker] += 1
        session = sessions[recorded.broker]
        report = to_load_report(recorded, session, sequences[recorded.broker], overrides)
        topic = names.of_broker(recorded.broker).load_reports
        producer.send(topic, report, key=recorded.broker, timestamp_ms=recorded.at_ms)
        count("reports sent", number, len(records))
    producer.flush()


def _wait_for_rounds(cluster: LocalCluster, records: Sequence[Recorded], timeout_s: float, count: Count) -> None:
    """Wait for the last round. No round is skipped, so the times tell how many there will be."""
    interval = round(cluster.settings.rounds.round_interval_s * 1000)
    last = last_round_ms(records, cluster.settings)
    before = records[0].at_ms // interval * interval
    total = max(0, (last - before) // interval)

    def decided(state: ClusterState) -> bool:
        count("rounds decided", min(total, max(0, (state.round_at_ms - before) // interval)), total)
        return state.round_at_ms >= last

    when = datetime.fromtimestamp(last / 1000, timezone.utc)
    cluster.wait_until(decided, timeout_s, f"the recording's last round, at {when:%H:%M:%S} UTC of it", needs="job")


def last_round_ms(records: Sequence[Recorded], settings: Settings) -> int:
    """The last round that the recording triggers: there are reports after its time plus the allowance."""
    interval = round(settings.rounds.round_interval_s * 1000)
    return (records[-1].at_ms - settings.rounds.late_allowance_ms - 1) // interval * interval


def collect(settings: Settings, records: Sequence[Recorded]) -> ReplayResult:
    """Read the result from the tables, as an operator would."""
    root = table_root(settings)
    rounds, decisions, scores = (read_joined(root, name) for name in ("rounds", "decisions", "broker_scores"))
    result = ReplayResult(reports=len(records), rounds=rounds.num_rows)
    result.quarantined = root.open("quarantine").to_pyarrow_table(columns=["rule"]).num_rows
    kept = [row for row in decisions.to_pylist() if row["kind"] != "skip"]
    result.decisions = sorted(map(_decision_row, kept), key=lambda row: str(row["decision_id"]))
    result.sources_by_phase = sources_by_phase(records, rounds.to_pylist(), scores.to_pylist())
    return result


def sources_by_phase(
    records: Sequence[Recorded], rounds: Iterable[Mapping[str, Any]], scores: Iterable[Mapping[str, Any]]
) -> dict[str, list[str]]:
    """Phase -> sources in its last round. A round belongs to the phase of the newest report before it."""
    last: dict[str, int] = {r.phase: 0 for r in records if r.phase}
    for row in rounds:
        before = [r.phase for r in records if r.at_ms < row["at_ms"]]
        if before and before[-1]:
            last[before[-1]] = max(last[before[-1]], row["at_ms"])
    sources: dict[int, set[str]] = defaultdict(set)
    for row in scores:
        if row["is_source"]:
            sources[row["at_ms"]].add(row["broker"])
    return {phase: sorted(sources[at_ms]) for phase, at_ms in last.items()}


def _decision_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A decision to print: without the attempt, which differs from run to run, and with JSON columns as objects."""
    printed = {name: value for name, value in row.items() if name != "attempt_id"}
    for name in ("evidence", "before", "after"):
        printed[name] = json.loads(printed.pop(f"{name}_json") or "{}")
    return printed


def _beat(
    producer: JsonProducer,
    names: TopicNames,
    sessions: Mapping[str, Session],
    cluster: LocalCluster,
    stop: threading.Event,
) -> None:
    """Send heartbeats of all brokers: leases run in real time, whatever the speed of the recording."""
    info = {"runtime": "pulsar", "authority": METADATA, "can_fence": False}
    while not stop.wait(1.0):
        follower = cluster.operator.follower if cluster.operator else None
        seq = follower.state.seq if follower else 0
        for session in sessions.values():
            topic = names.of_broker(session.broker).heartbeats
            producer.send(topic, heartbeat(session, seq, wall_ms(), info), key=session.broker)
