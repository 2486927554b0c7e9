"""Checks what journal and evidence say of the cluster: controller, brokers, loads, rounds, versions, quarantine."""

from __future__ import annotations

from collections.abc import Iterator

import controller
from controller.config.placement_values import placement_settings
from controller.config.settings import Settings
from controller.domain.decision import Reason
from controller.domain.entries import Kind
from controller.domain.errors import few_text
from controller.domain.state import LIVE, METADATA, ClusterState
from controller.ledger.loads_progress import loads_progress
from controller.operations.adoption_text import adoption_text
from controller.operations.bundles import LET_ONE_TAKE, find_order_obstacle, nobody_takes_text
from controller.operations.doctor.finding import Clock, Finding, Page, fine, note, severe, warning
from controller.operations.evidence_view import EvidenceView, no_rounds_text
from controller.operations.overview import BAD_PER_HOUR, ROUNDS_MISSED
from controller.operations.quarantine import count_rules, quarantined
from controller.operations.reading import MissingTable, Reader
from controller.operations.stopped import last_stop
from controller.operations.text import count_text, duration_text

HOUR_MS = 3_600_000


def check_controller(reader: Reader, state: ClusterState, over: str = "") -> Iterator[Finding]:
    """Whether somebody holds the journal and may act, by the journal alone. `over`: why nobody is to be started."""
    if not state.controller_running and over:
        yield note("controller", over)
    elif not state.controller_running:
        text, do = f"no controller runs; the last was {state.instance}", "start one with `ballast run`"
        _, failed = last_stop(reader, state.seq)
        if failed:
            text, do = f"{text}, which failed: {failed}", "mend what failed; then start one with `ballast run`"
        if not state.instance:
            text, do = "no controller ever ran", f"{do}, unless one is just starting: it appears here within a minute"
        yield severe("controller", text, do, Page.CONTROLLER)
    else:
        yield fine("controller", f"{state.instance} started and did not say that it stopped, mode {state.mode}")
    if state.frozen:
        silent = few_text(sorted(state.silent)) or "many brokers"
        text = f"the mass-failure breaker keeps leases alive: silent were {silent}"
        yield severe("controller", text, "bring the brokers back; if they are gone, `ballast thaw`", Page.MASS_FAILURE)


def check_brokers(state: ClusterState, view: EvidenceView) -> Iterator[Finding]:
    """Whether brokers are alive, may take bundles, and were behind the journal in the last round."""
    alive = state.live_brokers()
    if state.brokers and not alive:
        text = f"none of {len(state.brokers)} registered brokers is alive"
        yield severe("agents", text, "start the agents (`ballast agent`) and see their logs", Page.AGENT)
    closed = nobody_takes_text(len(alive), [b.id for b in alive if b.drained], [b.id for b in alive if b.leaving])
    if closed and state.controller_running:
        tell = warning if state.authority == METADATA else severe  # Pulsar assigns bundles all the same
        yield tell("agents", closed, LET_ONE_TAKE, Page.NO_BROKER)
    last = view.last_round()
    behind = [row["broker"] for row in view.scores(last) if row["reason"] == Reason.LAGGING.value] if last else []
    if behind:
        text = f"behind the journal in the last round, so granted nothing: {few_text(behind)}"
        yield warning("agents", text, "see /healthz of these agents, and whether they reach the tables", Page.AGENT)
    elif alive:
        yield fine("agents", f"{count_text(len(alive), 'broker')} alive, none behind the journal in the last round")


def check_snapshot(reader: Reader, state: ClusterState, settings: Settings) -> Iterator[Finding]:
    """Whether a start has little to replay."""
    every = settings.control.snapshot_every_entries
    newest = reader.newest("control_state", "seq")
    since = state.seq - (newest or 0)
    if since > 2 * every:
        text = f"the newest base snapshot is {since} entries old, where one is due every {every}: starts replay them"
        yield warning("tables", text, "see ballast_projection_failures and the controller's log", Page.WATCH)


def check_loads(reader: Reader, state: ClusterState, settings: Settings, clock: Clock) -> Iterator[Finding]:
    """Whether load reports arrive: the way from agents through Kafka and the loads query of the Spark job."""
    asked_ms = clock()  # before the reading: a slow store makes no report late
    progress = loads_progress(reader.root)
    late_ms = 1_000 * (settings.rounds.round_interval_s + settings.loads.pane_s) + settings.rounds.late_allowance_ms
    remedy = (
        "see whether agents run and report, and whether the loads query of the Spark job commits: its progress is in "
        "the job's log"
    )
    if progress is None:
        if state.live_brokers():
            yield severe("loads", "no load report was ever committed, so no round can run", remedy, Page.NO_ROUNDS)
        return
    age_ms = max(0, asked_ms - progress.newest_event_ms)
    text = f"the newest load report is {duration_text(age_ms)} old"
    if age_ms <= late_ms:
        yield fine("loads", text)
    elif state.controller_running and state.live_brokers():
        late = f"{text}, where rounds need one at most {duration_text(late_ms)} old"
        yield severe("loads", late, remedy, Page.NO_ROUNDS)
    else:
        yield note("loads", f"{text}: as old as the cluster's stop")


def check_rounds(view: EvidenceView, state: ClusterState, settings: Settings, now_ms: int) -> Iterator[Finding]:
    """Whether rounds run. `now_ms`: no later than the view's reading."""
    try:
        last = next((row for row in view.rounds() if not row["challenger"]), None)
    except MissingTable as error:
        text, _, remedy = str(error).partition(": ")
        yield severe("rounds", text, remedy, Page.DAMAGED)
        return
    interval_ms = 1_000 * settings.rounds.round_interval_s
    if last is None:
        yield note("rounds", no_rounds_text(state))
        return
    age_ms = max(0, now_ms - last["wall_ms"])
    text = f"the last round, {last['round_id']}, ran {duration_text(age_ms)} ago"
    if not state.controller_running or age_ms <= ROUNDS_MISSED * interval_ms:
        yield fine("rounds", text)
    else:
        late = f"{text}, where one is due every {duration_text(interval_ms)}"
        remedy = "see /healthz of the job, and the lines of process=rounds in its log"
        yield warning("rounds", late, remedy, Page.NO_ROUNDS)


def check_versions(reader: Reader, state: ClusterState) -> Iterator[Finding]:
    """Whether this command line, the controller and the brokers of each kind have one version."""
    found = False
    started = reader.newest_entries("kind", Kind.CONTROLLER_STARTED.value, 1)
    theirs = str(started[0].data.get("version") or "") if started else ""
    if theirs and theirs != controller.__version__:
        found = True
        text = f"the controller is version {theirs}, this command line {controller.__version__}"
        remedy = "install one version everywhere; what the other one added is not shown here"
        yield warning("versions", text, remedy, Page.UPGRADING)
    kinds: dict[str, dict[str, int]] = {}
    for broker in state.live_brokers():
        counts = kinds.setdefault(broker.runtime, {})
        version = str(broker.info.get("version") or "unknown")
        counts[version] = counts.get(version, 0) + 1
    for kind, counts in sorted(kinds.items()):
        if len(counts) > 1:
            found = True
            told = ", ".join(f"{count} of {version}" for version, count in sorted(counts.items()))
            yield note("versions", f"{kind} brokers have several versions: {told}")
    if not found:
        yield fine("versions", f"{theirs or controller.__version__} everywhere")


def check_pulsar(state: ClusterState, settings: Settings) -> Iterator[Finding]:
    """Whether orders may go to a cluster that decides ownership itself; nothing where Ballast owns the bundles."""
    if state.authority != METADATA:
        return
    obstacle = find_order_obstacle(state, placement_settings(settings))
    adopted = adoption_text(state.observed.adoption)
    if obstacle is None:
        yield fine("pulsar", f"orders may go to it; {adopted}")
    elif state.mode == LIVE:
        yield warning(
            "pulsar", f"no orders are sent: {obstacle}", "`ballast pulsar check` lists what is missing", Page.PULSAR
        )
    else:
        yield note("pulsar", f"in mode live no orders would be sent: {obstacle} (`ballast pulsar check`); {adopted}")


def check_quarantine(reader: Reader, clock: Clock) -> Iterator[Finding]:
    """Whether records broke rules in the last hour."""
    rows = quarantined(reader, clock() - HOUR_MS)
    if not rows:
        yield fine("quarantine", "no record broke a rule in the last hour")
        return
    rules = ", ".join(f"{count} {rule}" for rule, count in count_rules(rows).items())
    text = f"{len(rows)} record{'' if len(rows) == 1 else 's'} broke a rule in the last hour: {rules}"
    if len(rows) < BAD_PER_HOUR:
        yield note("quarantine", f"{text} (`ballast quarantine list`)")
    else:
        remedy = "`ballast quarantine list` names topic and offset, `show` the content: find who sends them"
        yield warning("quarantine", text, remedy, Page.VALIDATION)
