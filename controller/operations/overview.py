"""Builds the documents of `ballast status`, `brokers` and `bundles` from the state and a few tables.

Times in a document are ms since the epoch or durations in ms, as their names say; printing formats them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from controller.config.settings import Settings
from controller.domain.decision import KeptPlan, PlanPhase
from controller.domain.entries import STRAY_AGENT, STRAY_COMMAND, STRAY_CONTROLLER, Entry, Kind
from controller.domain.load import RESOURCES
from controller.domain.ownership import IN_FLIGHT
from controller.domain.reasons.words import describe_reason
from controller.domain.settings.placement import PlacementSettings
from controller.domain.state import JOURNAL, LIVE, ClusterState, is_foreign
from controller.ledger.loads import loads_progress
from controller.ledger.partial.outline import Outline
from controller.operations.bundles import (
    LET_ONE_TAKE,
    all_bundle_rows,
    count_bundles,
    find_order_obstacle,
    nobody_takes_text,
    observed_row,
    order_counts,
    ownership_row,
)
from controller.operations.evidence_view import EvidenceView
from controller.operations.liveness import NO_CONTROLLER, SILENT_AFTER_MS, Heard, failure_of_kafka
from controller.operations.plans.plan_words import approval_text
from controller.operations.reading import Reader
from controller.operations.text import count_text, duration_text

HOUR_MS = 3_600_000
ROUNDS_MISSED = 3
LATE_AT_LEAST_MS = 30_000  # of rounds every few seconds, some are late on a busy machine
BAD_PER_HOUR = 100  # quarantined records that are more than somebody's mistake
NOBODY_OBSERVED = (
    "no broker is seen alive: is the cluster's agent (`ballast agent --runtime pulsar`) running? "
    "Pulsar itself serves on without it"
)
NO_RULES = PlacementSettings()
LOOK_BACK_MS = 600_000  # a bundle without a report for this long has no current load
Row = dict[str, Any]


def status(
    reader: Reader,
    now_ms: int,
    heard: Heard | None,
    kafka_error: str | None,
    placement: PlacementSettings = NO_RULES,
    view: EvidenceView | None = None,
    late_ms: int | None = None,
) -> Row:
    """The document of `ballast status`. `problems` lists what needs attention now. `placement`: as configured. `view`:
    one that has been read already. `late_ms`: the age at which loads and rounds are late (`late_after_ms`)."""
    outline = reader.outline()
    state = outline.state
    recent = reader.entries_since(now_ms - HOUR_MS)
    progress = loads_progress(reader.root)
    document: Row = {
        "controller": _controller(state, now_ms, heard, kafka_error),
        "journal_id": state.journal_id,
        "seq": state.seq,
        "mode": state.mode,
        "guard_frozen": state.frozen,
        "strategy_by_command": state.strategy or None,
        "overrides": len(state.overrides),
        "plan": plan_row(state.plan),
        "brokers": _broker_counts(reader, outline),
        "namespaces": outline.namespaces + len(state.observed.rings),
        "bundles": dict(sorted(count_bundles(outline).states.items())),
        "orders": order_counts(state, recent),
        "no_orders_because": find_order_obstacle(state, placement),
        "adoption": state.observed.adoption.to_json() if state.observed.adoption is not None else None,
        "in_flight": in_flight(reader, state, now_ms),
        "last_round": _last_round(view or EvidenceView(reader), now_ms),
        "loads": {
            "newest_event_ms": progress.newest_event_ms if progress else None,
            "lag_ms": max(0, now_ms - progress.newest_event_ms) if progress else None,  # read after `now_ms`
        },
        "quarantined_last_hour": _quarantined(reader, now_ms - HOUR_MS),
        "alarms_last_hour": [alarm_row(e) for e in recent if _alarms(e)],
    }
    return document | {"problems": [*find_problems(document), *find_late(document, late_ms)]}


def late_after_ms(settings: Settings) -> int:
    """The age from which loads and rounds are late: three rounds were missed, and none is about to come."""
    interval_s, pane_s = settings.rounds.round_interval_s, settings.loads.pane_s
    return max(LATE_AT_LEAST_MS, 1_000 * (ROUNDS_MISSED * interval_s + pane_s) + settings.rounds.late_allowance_ms)


def in_flight(reader: Reader, state: ClusterState, now_ms: int) -> list[Row]:
    """Bundles between two owners, oldest first, with the time since their journal entry."""
    rows = [ownership_row(r) for r in state.bundles.values() if r.state in IN_FLIGHT]
    rows += [observed_row(state.observed, name) for name in state.observed.orders if name in state.observed.bundles]
    if not rows:
        return []
    rows.sort(key=lambda row: int(row["entry_seq"]))
    entries = reader.rows("journal", "seq", above=rows[0]["entry_seq"] - 1, columns=["seq", "at_ms"])
    at_ms = dict(zip(entries["seq"].to_pylist(), entries["at_ms"].to_pylist(), strict=True))
    since = {row["bundle"]: at_ms.get(row["entry_seq"]) for row in rows}
    return [{**row, "since_ms": at, "age_ms": now_ms - (at or now_ms)} for row in rows for at in [since[row["bundle"]]]]


def plan_row(plan: KeptPlan | None) -> Row | None:
    """The plan that needs, or needed, an operator's approval; None: there is none."""
    if plan is None:
        return None
    told = {name: getattr(plan, name) for name in ("round_id", "at_ms", "seq", "who", "why")}
    moves = [{"bundle": one.bundle, "source": one.source, "target": one.target} for one in plan.moves]
    return {**told, "phase": plan.phase.value, "moves": moves}


def _alarms(entry: Entry) -> bool:
    """An alarm, or a trip of the mass-failure breaker, of which nothing else tells once it has been reset."""
    return entry.kind is Kind.ALARM or (entry.kind is Kind.GUARD and bool(entry.data.get("frozen")))


def alarm_row(entry: Entry) -> Row:
    """An alarm as `ballast status` lists it."""
    named = {"bundle": entry.bundle, "broker": entry.broker}
    words = describe_reason(entry.reason, entry.data) or None
    if entry.kind is Kind.GUARD:
        silent, alive = entry.data.get("silent") or [], entry.data.get("alive")
        words = f"the mass-failure breaker tripped: {count_text(len(silent), 'broker')} silent, {alive} alive"
    about = {"reason": entry.reason, "reason_words": words, **named, "data": dict(entry.data)}
    return {"seq": entry.seq, "at_ms": entry.at_ms, **about}


def broker_rows(reader: Reader, view: EvidenceView | None = None) -> list[Row]:
    """Every registered broker with its bundles and, while it is alive, its score in the last round. `silent`: it was
    when the mass-failure breaker tripped, which keeps its session alive. `view`: one that has been read already."""
    outline = reader.outline()
    state = outline.state
    silent = _silent(reader, state)
    evidence = view or EvidenceView(reader)
    last = evidence.last_round()
    scores = {row["broker"]: row for row in evidence.scores(last)} if last else {}
    counts = count_bundles(outline)
    rows = []
    for broker in sorted(state.brokers.values(), key=lambda b: b.id):
        alive = state.alive(broker.session)
        score = scores.get(broker.id, {}) if alive else {}  # the last round may have seen it before it went
        rows.append(
            {
                "broker": broker.id,
                "state": "alive" if alive else "gone",
                "silent": broker.id in silent,
                "incarnation": broker.session.incarnation,
                "session": str(broker.session),
                "drained": broker.drained,
                "leaving": broker.leaving,
                "runtime": broker.runtime,
                "bundles": counts.owned[broker.id],
                "coming": counts.coming[broker.id],
                "score": score.get("score"),
                "mean": score.get("mean"),
                "utilisations": {r: score.get(f"{r}_utilisation") for r in RESOURCES} if score else {},
                "hits": score.get("hits"),
                "is_source": score.get("is_source"),
                "reason": score.get("reason"),
                "reason_words": score.get("reason_words"),
                "scored_at_ms": last["at_ms"] if last and score else None,
                "lookup_url": broker.info.get("lookup_url"),
                "data_address": broker.info.get("data_address"),
                "capacity": broker.info.get("capacity"),
            }
        )
    return rows


def bundle_rows(
    reader: Reader, namespace: str | None, broker: str | None, ownership_state: str | None
) -> tuple[list[Row], int]:
    """Matching bundles, busiest first, with their short averages. Without a state: all except retired ones.

    Returns the rows and the journal seq they are from.
    """
    state = reader.state()
    chosen = [
        row
        for row in all_bundle_rows(state)
        if (row["state"] == ownership_state if ownership_state else row["state"] != "retired")
        and (namespace is None or row["bundle"].rpartition("/")[0] == namespace)
        and (broker is None or broker in (row["owner"], row["to"]))
    ]
    loads = _loads(reader)
    rows = [row | _load_of(loads.get(row["bundle"])) for row in chosen]
    return sorted(rows, key=lambda row: (-(row["throughput"] or 0.0), row["bundle"])), state.seq


def _loads(reader: Reader) -> dict[str, Row]:
    """The newest short averages by bundle; after a move, those of the broker that reported most."""
    rows = reader.newest_by("bundle_load", "as_of_ms", ("bundle",), LOOK_BACK_MS)
    return {str(row["bundle"]): row for row in rows}


def _load_of(row: Mapping[str, Any] | None) -> Row:
    if row is None:
        return {"msg_rate": None, "throughput": None, "topics": None, "sessions": None, "backlog_bytes": None}
    return {
        "msg_rate": row["msg_rate_in"] + row["msg_rate_out"],
        "throughput": row["throughput_in"] + row["throughput_out"],
        "topics": row["topics"],
        "sessions": row["sessions"],
        "backlog_bytes": row["backlog_bytes"],
    }


def _controller(state: ClusterState, now_ms: int, heard: Heard | None, kafka_error: str | None) -> Row:
    stray = heard if heard is not None and is_foreign(state.journal_id, heard.journal_id) else None
    silent_ms = max(0, now_ms - heard.at_ms) if heard and stray is None else None
    alive: bool | None = None
    if kafka_error is None:
        alive = silent_ms is not None and silent_ms <= SILENT_AFTER_MS and state.controller_running
    return {
        "instance": state.instance or None,
        "journal_says_running": state.controller_running,
        "alive": alive,
        "silent_ms": silent_ms,
        "not_asked": kafka_error,
        "engine": dict(heard.engine) if heard and heard.engine and alive else None,
        "heard_of_another_journal": stray and {"instance": stray.instance, "journal_id": stray.journal_id},
    }


def _broker_counts(reader: Reader, outline: Outline) -> Row:
    """`alive`: those with a session and not silent. `unserved`: bundles that the journal leaves with the silent ones,
    where nobody else may serve them."""
    state = outline.state
    silent = _silent(reader, state)
    living = state.live_brokers()
    alive = [b for b in living if b.id not in silent]
    owned = count_bundles(outline).owned if silent and state.authority == JOURNAL else {}
    return {
        "registered": len(state.brokers),
        "alive": len(alive),
        "silent": sorted(silent),
        "unserved": sum(owned.get(name, 0) for name in silent),
        "drained": [b.id for b in alive if b.drained],
        "leaving": [b.id for b in alive if b.leaving],
        "gone": sorted(set(state.brokers) - {b.id for b in living}),
    }


def _silent(reader: Reader, state: ClusterState) -> set[str]:
    """The brokers that were silent when the mass-failure breaker tripped, which keeps their sessions alive since. One
    that has registered again is back; of one that came back with its session the journal says nothing."""
    if not state.frozen:
        return set()
    tripped = reader.newest_entries("kind", Kind.GUARD.value, 1)
    seq = tripped[-1].seq if tripped else state.seq
    return {b.id for b in state.live_brokers() if b.id in state.silent and state.sessions[b.session] <= seq}


def _last_round(evidence: EvidenceView, now_ms: int) -> Row | None:
    """`approval`: what its moves wait for, or came to, in a word or two."""
    last = evidence.last_round()
    if last is None:
        return None
    sources, age_ms = evidence.sources(last), max(0, now_ms - last["wall_ms"])
    approval = approval_text(evidence.with_plans([last])[0]) if last["moves"] else ""
    kept = ("round_id", "at_ms", "mode", "strategy", "moves", "splits", "skips", "mean_score", "max_score", "seq")
    return {name: last[name] for name in kept} | {"approval": approval, "age_ms": age_ms, "sources": sources}


def _quarantined(reader: Reader, since_ms: int) -> Row:
    rows = reader.rows("quarantine", "detected_ms", above=since_ms, columns=["rule"])
    counts = {row["values"]: row["counts"] for row in pc.value_counts(rows["rule"]).to_pylist()}
    return {"total": rows.num_rows, "rules": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))}


def _strays(document: Mapping[str, Any]) -> list[str]:
    """Controllers, agents and commands of another journal that were seen on these topics."""
    found = []
    heard = document["controller"]["heard_of_another_journal"]
    if heard:
        found.append(
            f"these topics are used by controller {heard['instance']} of journal {heard['journal_id']}, not by that "
            "of these tables: is --conf or tables.root right? (docs/recovery.md)"
        )
    for alarm in document["alarms_last_hour"]:
        if alarm["reason"] in (STRAY_CONTROLLER, STRAY_AGENT):
            who = alarm["data"].get("instance") or alarm["data"].get("session")
            other = alarm["data"]["journal_id"]
            of = f"of journal {other}" if other else "whose tables hold no journal"
            found.append(
                f"{alarm['reason'].replace('_', ' ')}: {who} {of} spoke on these "
                f"topics, which are this journal's, {document['journal_id']}: end it (docs/recovery.md)"
            )
        elif alarm["reason"] == STRAY_COMMAND:
            stray = alarm["data"]
            found.append(
                f"stray command: {stray['who'] or 'somebody'} sent {stray['kind']} for journal {stray['journal_id']} "
                f"to these topics, which are this journal's, {document['journal_id']}: it was ignored "
                "(docs/recovery.md)"
            )
    return found


def find_late(document: Mapping[str, Any], late_ms: int | None) -> list[str]:
    """That loads or rounds have stopped, of a controller that lives and a cluster with brokers: it looks healthy, and
    balances nothing."""
    if late_ms is None or not document["controller"]["alive"] or not document["brokers"]["alive"]:
        return []
    lag_ms, last = document["loads"]["lag_ms"], document["last_round"]
    if lag_ms is not None and lag_ms > late_ms:
        text = f"the newest load report is {duration_text(lag_ms)} old, so no round can run"
    elif last is not None and last["age_ms"] > late_ms:
        text = f"the last round ran {duration_text(last['age_ms'])} ago: three or more are missing"
    else:
        return []
    return [f"{text}: `ballast doctor` says where to look"]


def find_problems(document: Mapping[str, Any]) -> list[str]:
    """What needs attention now, by a document of `status`."""
    controller, found = document["controller"], _strays(document)
    if no_kafka := failure_of_kafka(controller["not_asked"]):
        found.append(no_kafka)
    if not controller["journal_says_running"]:
        found.append(NO_CONTROLLER)
    elif controller["alive"] is False:
        found.append(f"controller {controller['instance']} is silent: it was killed or cannot reach Kafka")
    if document["no_orders_because"] and document["mode"] == LIVE:  # otherwise none are wanted
        found.append(f"no orders to brokers: {document['no_orders_because']}")
    plan, runs = document["plan"], document["controller"]["journal_says_running"]  # nobody else carries a plan out
    if plan is not None and plan["phase"] == PlanPhase.WAITING.value and runs:
        moves, name = count_text(len(plan["moves"]), "move"), plan["round_id"]
        found.append(
            f"a plan of {moves} waits: look at it with `ballast explain {name}`, then `ballast approve {name} --why "
            f"REASON` or `ballast decline {name} --why REASON`"
        )
    if document["guard_frozen"]:
        found.append("the mass-failure breaker keeps leases alive: bring the brokers back, or `ballast thaw`")
    if document["brokers"]["registered"] and not document["brokers"]["alive"] and not document["brokers"]["silent"]:
        found.append(NOBODY_OBSERVED if document["orders"] is not None else "no broker is alive")
    brokers = document["brokers"]
    closed = nobody_takes_text(brokers["alive"], brokers["drained"], brokers["leaving"])
    if closed and runs:  # without a controller nobody is granted anything in any case
        found.append(f"{closed}: {LET_ONE_TAKE}")
    bad = document["quarantined_last_hour"]["total"]
    if bad >= BAD_PER_HOUR:
        found.append(f"{bad} records broke a rule in the last hour: `ballast quarantine list` says whose")
    return found
