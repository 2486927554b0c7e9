"""What `ballast status`, `brokers` and `doctor` show of a stopped controller: when it stopped, what can still be done.

Nothing is to be started for a demo that is over, nor for a captured slice, whose cluster is elsewhere.
"""

from __future__ import annotations

import json
from typing import Any

from controller.domain.entries import Kind
from controller.domain.state import ClusterState
from controller.operations.liveness import ASKING, NO_CONTROLLER, OFFLINE, SLICE, failure_of_kafka
from controller.operations.reading import Reader
from controller.process.paths import START_DEMO, locate_shipped

DEMO = "demo"
OVER = (
    "this demo is over: its controller has stopped, its Kafka and brokers are gone. Its tables stay: `ballast "
    f"decisions`, `ballast explain`, `ballast journal` and {locate_shipped('docs/sql.md')} read them. `{START_DEMO}` "
    "starts a new one; to be rid of this one, delete its folder"
)
MAYBE_OVER = "the controller of this demo has stopped; ask without --offline whether the demo is over"
Row = dict[str, Any]


def with_stop(reader: Reader, document: Row, profile: str, now_ms: int) -> Row:
    """Add to the document of `status` that, and when, the controller has stopped.

    A demo is over once its Kafka, which stops with it, does not answer either; until that is known, nobody is told
    to start a controller. For a captured slice nothing is advised either; `slice_until_ms` is its end.
    """
    until_ms = reader.slice_end_ms
    if until_ms is not None:
        document = {**_without_advice(document), "slice_until_ms": until_ms}
    controller = document["controller"]
    if controller["journal_says_running"] or not controller["instance"]:
        return document
    at_ms, failed = last_stop(reader, document["seq"])
    ago_ms = None if at_ms is None else max(0, now_ms - at_ms)
    stopped = {**controller, "stopped_at_ms": at_ms, "stopped_ms_ago": ago_ms, "failed": failed or None}
    no_kafka = failure_of_kafka(controller["not_asked"])
    over = until_ms is None and profile == DEMO and no_kafka is not None
    problems = document["problems"]
    if failed and until_ms is None:
        problems = [f"the controller failed: {failed}", *problems]
    if over:  # OVER says that of Kafka, too
        problems = [OVER if problem == NO_CONTROLLER else problem for problem in problems if problem != no_kafka]
    elif profile == DEMO and controller["not_asked"] == ASKING:
        problems = [problem for problem in problems if problem != NO_CONTROLLER]
    elif profile == DEMO and controller["not_asked"] == OFFLINE:
        problems = [MAYBE_OVER if problem == NO_CONTROLLER else problem for problem in problems]
    return {**document, "controller": stopped, "demo_is_over": over, "problems": problems}


def _without_advice(document: Row) -> Row:
    """The document of a slice's status, in which nobody was looked for."""
    controller = document["controller"]
    vain = (NO_CONTROLLER, failure_of_kafka(controller["not_asked"]))
    problems = [problem for problem in document["problems"] if problem not in vain]
    return {**document, "controller": {**controller, "not_asked": SLICE}, "problems": problems}


def has_stopped(state: ClusterState) -> bool:
    """Whether the controller has stopped. A demo whose Kafka does not answer either is over."""
    return bool(state.instance) and not state.controller_running


def last_stop(reader: Reader, seq: int) -> tuple[int | None, str]:
    """When the last controller stopped, and why if it failed: its entry is the journal's last, or one of the last
    hundred."""
    rows = reader.rows("journal", "seq", above=seq - 100, columns=["seq", "kind", "at_ms", "data"]).to_pylist()
    stops = [row for row in rows if row["kind"] == Kind.CONTROLLER_STOPPED.value]
    if not stops:
        return None, ""
    last = max(stops, key=lambda row: int(row["seq"]))
    return last["at_ms"], str(json.loads(last["data"] or "{}").get("failed") or "")
