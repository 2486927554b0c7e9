"""Makes all checks, the worst findings first. A check that fails is a finding itself, and stops no other one.

A captured slice is a record of the past: its ages are as of its end, and nothing is to be started for it, nor for a
demo that is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from deltalake.exceptions import DeltaError

from controller.config.settings import Settings
from controller.domain.errors import BallastError, describe_error
from controller.domain.state import ClusterState
from controller.ledger.damage import DamagedTable
from controller.operations.capture.about import slice_end_ms
from controller.operations.doctor.clocks import check_clocks
from controller.operations.doctor.cluster import (
    check_brokers,
    check_controller,
    check_loads,
    check_pulsar,
    check_quarantine,
    check_rounds,
    check_snapshot,
    check_versions,
)
from controller.operations.doctor.finding import Clock, Finding, Page, note, severe
from controller.operations.doctor.host import check_disks
from controller.operations.doctor.store import check_store
from controller.operations.doctor.tables import REPAIR, check_tables
from controller.operations.evidence_view import EvidenceView
from controller.operations.reading import NoTables, Reader
from controller.operations.stopped import DEMO, MAYBE_OVER, OVER, has_stopped
from controller.operations.text import time_text
from controller.process.reachable import why_unreachable

CONNECT_S = 2.0
Check = Callable[[], Iterable[Finding]]


def examine(settings: Settings, clock: Clock, offline: bool) -> list[Finding]:
    """The findings of all checks, severe ones first, and a cause before what follows from it. `offline`: ask tables and
    disks only. `clock`: asked anew for each fact, as a store or a Kafka may take long to tell it; after the reading for
    what may lie in the future, before it for what may be late."""
    state: ClusterState | None = None
    over = ""
    checks: list[tuple[str, Check]] = [("disk", lambda: check_disks(settings))]
    of_tables: list[tuple[str, Check]] = []
    found: list[Finding] = []
    if (end_ms := slice_end_ms(settings.tables.root)) is not None:
        clock = partial(_stopped_clock, clock, end_ms)
        text = f"these tables are a captured slice: all below is as of its end, {time_text(clock())} UTC"
        found.append(note("slice", text))
    try:
        reader = Reader(settings)
        checks.append(("tables", lambda: check_tables(reader.root)))
        state = reader.state()
        over = _SLICE_RUNS_NOTHING if end_ms is not None else _find_end(settings, state, offline)
        of_tables = list(_checks_of_tables(reader, state, settings, clock, over))
    except NoTables as error:
        found.append(severe("tables", str(error), "if there were tables here, see the page", Page.NO_TABLES))
    except (BallastError, DeltaError, OSError) as error:
        found.append(_failed("tables", error))
    if not over and not offline and state is not None:
        checks.append(("store", partial(check_store, settings, state)))
    if not over:
        checks.append(("kafka", (lambda: _NOT_ASKED) if offline else (lambda: _check_kafka(settings, state, clock))))
    checks += of_tables
    for name, check in checks:
        found += _guarded(name, check)
    once = dict.fromkeys(found)  # a damaged table is found by whoever reads it
    return sorted(once, key=lambda finding: finding.severity.rank)


_SLICE_RUNS_NOTHING = "no controller ran at the end of the slice, which needs none, nor a Kafka"
_NOT_ASKED = [note("kafka", "not asked (--offline): topics, lag, silent agents and the job's Spark are not known")]


def _stopped_clock(clock: Clock, end_ms: int) -> int:
    return min(clock(), end_ms)


def _checks_of_tables(
    reader: Reader, state: ClusterState, settings: Settings, clock: Clock, over: str
) -> Iterator[tuple[str, Check]]:
    view, view_ms = EvidenceView(reader), clock()
    yield "controller", lambda: check_controller(reader, state, over)
    yield "agents", lambda: check_brokers(state, view)
    yield "tables", lambda: check_snapshot(reader, state, settings)
    yield "clocks", lambda: check_clocks(reader, clock)
    yield "loads", lambda: check_loads(reader, state, settings, clock)
    yield "rounds", lambda: check_rounds(view, state, settings, view_ms)
    yield "versions", lambda: check_versions(reader, state)
    yield "pulsar", lambda: check_pulsar(state, settings)
    yield "quarantine", lambda: check_quarantine(reader, clock)


def _find_end(settings: Settings, state: ClusterState, offline: bool) -> str:
    """That these are the tables of a demo that is over, or has stopped where Kafka is not asked; empty if not."""
    if settings.profile != DEMO or not has_stopped(state):
        return ""
    if offline:
        return MAYBE_OVER
    return OVER if why_unreachable(settings.kafka.bootstrap_servers.split(","), CONNECT_S) else ""


def _check_kafka(settings: Settings, state: ClusterState | None, clock: Clock) -> Iterable[Finding]:
    from controller.operations.doctor.kafka import check_kafka  # the client library, not with --offline

    return check_kafka(settings, state, clock)


def _guarded(name: str, check: Check) -> Iterator[Finding]:
    """The findings of a check; its failure is one more."""
    try:
        yield from check()
    except (BallastError, DeltaError, OSError) as error:
        yield _failed(name, error)


def _failed(name: str, error: BaseException) -> Finding:
    if isinstance(error, DamagedTable):
        return severe(name, describe_error(error), REPAIR, Page.DAMAGED)
    text = f"could not be checked: {describe_error(error) or type(error).__name__}"
    return severe(name, text, "see whether the store or Kafka answers, then ask again", Page.SLOW_STORE)
