"""`ballast status`: the state of the cluster on one page. Exit code 1 if something needs attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from controller.cli.evidence_text import reason_text
from controller.cli.options import PROBLEM, AsJson, Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import (
    duration_text,
    emit_facts,
    emit_json,
    emit_table,
    emit_text,
    percent_text,
    time_text,
)
from controller.config.placement_values import placement_settings
from controller.config.settings import Settings
from controller.domain.decision import PlanPhase
from controller.domain.errors import BallastError, few_text, without_login
from controller.domain.observed import Adoption
from controller.domain.state import LIVE
from controller.operations.adoption_text import adoption_text
from controller.operations.liveness import OFFLINE, SLICE, Heard, engine_text, last_word
from controller.operations.overview import late_after_ms
from controller.operations.overview import status as status_of
from controller.operations.plans.plan_end import with_plan_end
from controller.operations.reading import Reader
from controller.operations.stopped import with_stop
from controller.operations.text import count_text
from controller.process.clock import wall_ms

app = new_app()
Offline = Annotated[bool, typer.Option("--offline", help="Do not ask Kafka whether the controller is alive.")]


@app.command()
@report_errors
def status(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False, offline: Offline = False
) -> None:
    """Show the state of the cluster: controller, brokers, bundles, last round, load data, alarms."""
    settings = settings_of(conf, profile, sets)
    reader = Reader(settings, at_once=True)
    until_ms = reader.slice_end_ms
    heard, kafka_error = (None, OFFLINE) if offline or until_ms is not None else _ask_kafka(settings)
    now_ms = wall_ms() if until_ms is None else min(wall_ms(), until_ms)
    document: dict[str, Any] = {
        "cluster": settings.cluster.name,
        "tables": without_login(reader.root.root),
        **with_stop(reader, _read(reader, settings, heard, kafka_error, now_ms), settings.profile, now_ms),
    }
    running = document["controller"]["journal_says_running"]
    document["plan"] = with_plan_end(reader, document["plan"], settings, running)
    document["page"] = (
        None if offline or until_ms is not None else _find_page(settings, document["journal_id"], document["tables"])
    )
    if as_json:
        emit_json(document)
    else:
        _print(document)
    if document["problems"]:
        raise typer.Exit(PROBLEM)


def _read(
    reader: Reader, settings: Settings, heard: Heard | None, kafka_error: str | None, now_ms: int
) -> dict[str, Any]:
    placement, late_ms = placement_settings(settings), late_after_ms(settings)
    return status_of(reader, now_ms, heard, kafka_error, placement, late_ms=late_ms)


def _ask_kafka(settings: Settings) -> tuple[Heard | None, str | None]:
    kafka = settings.kafka
    try:
        return last_word(kafka.bootstrap_servers, kafka.client, kafka.topics), None
    except BallastError as error:
        return None, str(error)


def _find_page(settings: Settings, journal_id: str | None, tables: str) -> str | None:
    from controller.operations.page_address import find_page  # an HTTP client, which takes its time to import

    return find_page(settings, journal_id, tables)


def _print(document: Mapping[str, Any]) -> None:
    emit_facts(_facts(document))
    if document["in_flight"]:
        rows = [
            (r["bundle"], r["state"], r["epoch"], r["owner"], r["to"], duration_text(r["age_ms"]), r["cause"])
            for r in document["in_flight"]
        ]
        typer.echo("")
        emit_table(["bundle", "state", "epoch >", "owner", "to", "for >", "cause"], rows, "in flight")
    if document["alarms_last_hour"]:
        alarms = [(time_text(a["at_ms"]), _alarm_text(a), _alarm_about(a)) for a in document["alarms_last_hour"]]
        typer.echo("")
        emit_table(["at (UTC)", "reason …", "about"], alarms, "alarms of the last hour")
    for problem in document["problems"]:
        typer.echo("")
        emit_text(f"! {problem}")


def _alarm_text(alarm: Mapping[str, Any]) -> str:
    text, words = reason_text(alarm["reason"], alarm["data"]), alarm["reason_words"]
    return text if not words or words in text else f"{text}: {words}"


def _alarm_about(alarm: Mapping[str, Any]) -> str | None:
    return alarm["bundle"] or alarm["broker"] or ", ".join(alarm["data"].get("silent") or ())


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    brokers, bundles = document["brokers"], document["bundles"]
    yield "cluster", f"{document['cluster']}  ({document['tables']})"
    if document.get("slice_until_ms"):
        end = time_text(document["slice_until_ms"])
        yield "slice", f"captured, until {end} UTC: all below is as it was then, and nothing runs on these tables"
    yield "page", document.get("page")
    yield "controller", _controller_text(document["controller"])
    identity = f", id {document['journal_id']}" if document["journal_id"] else ""
    yield "journal", f"seq {document['seq']}, {count_text(document['namespaces'], 'namespace')}{identity}"
    yield "mode", document["mode"] + ("  (mass-failure breaker tripped)" if document["guard_frozen"] else "")
    if document["adoption"]:
        yield "Pulsar", adoption_text(Adoption.from_json(document["adoption"]))
    if document["strategy_by_command"]:
        yield "strategy", f"{document['strategy_by_command']}  (by command: `ballast strategy configured` ends it)"
    if document["plan"]:
        yield "plan", plan_text(document["plan"], document["controller"]["journal_says_running"])
    if document["overrides"]:
        yield "overrides", f"{document['overrides']} hold  (`ballast override list`)"
    named = [(word, brokers[word]) for word in ("drained", "leaving", "gone")]
    more = [f"{len(ids)} {word}: {', '.join(ids[:5])}" for word, ids in named if ids]
    alive = f"{brokers['alive']} alive" + (" until the demo's end" if document.get("demo_is_over") else "")
    silent = [_silent_text(brokers)] if brokers["silent"] else []
    yield "brokers", ", ".join([alive, *silent, *more])
    yield "bundles", ", ".join(f"{count} {state}" for state, count in bundles.items()) or "none"
    if document["orders"] is not None:
        yield "orders", orders_text(document["orders"], document["no_orders_because"], document["mode"])
    yield "last round", round_text(document["last_round"])
    lag_ms = document["loads"]["lag_ms"]
    yield "load data", "no reports yet" if lag_ms is None else f"newest report {duration_text(lag_ms)} ago"
    quarantined = document["quarantined_last_hour"]
    rules = ", ".join(f"{count} {rule}" for rule, count in quarantined["rules"].items())
    which = f": {rules}  (`ballast quarantine list`)" if rules else ""
    yield "quarantined", f"{quarantined['total']} in the last hour{which}"
    yield "alarms", f"{len(document['alarms_last_hour'])} in the last hour"


def _silent_text(brokers: Mapping[str, Any]) -> str:
    """The brokers whose sessions the breaker keeps alive, and what is left with them."""
    ids, unserved = brokers["silent"], brokers["unserved"]
    left = f" ({count_text(unserved, 'bundle')} unserved until {'it is' if len(ids) == 1 else 'they are'} back)"
    return f"{len(ids)} silent when the breaker tripped: {few_text(ids)}{left if unserved else ''}"


def plan_text(plan: Mapping[str, Any], runs: bool) -> str:
    """The plan that needs an approval, in one line. `runs`: whether a controller runs."""
    by = f" by {plan['who']}" if plan["who"] else ""
    if plan["phase"] == PlanPhase.DECLINED.value:
        return f"that of round {plan['round_id']} was declined{by}; {_held_back_text(plan)}"
    waits = "waits for approval" if runs else "waited for approval when the controller stopped"
    what = waits if plan["phase"] == PlanPhase.WAITING.value else f"was approved{by}; these are to come"
    end = f", expires at about {time_text(plan['until_ms'])} UTC" if plan.get("until_ms") else ""
    return f"{count_text(len(plan['moves']), 'move')} of round {plan['round_id']}: {what}{end}"


def _held_back_text(plan: Mapping[str, Any]) -> str:
    """What a declined plan holds back, and until when."""
    above = plan.get("approve_above")
    which = "of its size" if above is None else f"of more than {count_text(above, 'move')} (rounds.approve_above)"
    until = f"until about {time_text(plan['until_ms'])} UTC" if plan.get("until_ms") else "for a while"
    return f"plans {which} are held back {until}"


def orders_text(orders: Mapping[str, Any], obstacle: str | None, mode: str) -> str:
    """Open orders, those of the last hour by outcome, and what keeps more from being sent, in one line."""
    ended = ", ".join(f"{count} {outcome}" for outcome, count in orders["ended_last_hour"].items())
    text = f"{orders['open']} open; in the last hour {ended or 'none ended'}"
    why_none = obstacle or (f"mode is {mode}" if mode != LIVE else None)
    return f"{text}; none are sent: {why_none}" if why_none else text


def _controller_text(controller: Mapping[str, Any]) -> str:
    instance = controller["instance"]
    if not controller["journal_says_running"]:
        return _stopped_text(controller) if instance else "never started"
    if controller["not_asked"] == SLICE:
        return f"{instance} ran"
    if controller["alive"] is None:
        return f"{instance} started and did not say it stopped (not asked: {controller['not_asked']})"
    if controller["alive"]:
        return f"running: {instance}, heard {duration_text(controller['silent_ms'])} ago{_engine_text(controller)}"
    silent = duration_text(controller["silent_ms"])
    return f"SILENT: {instance}" + (f", last heard {silent} ago" if silent else ", never heard on this Kafka")


def _engine_text(controller: Mapping[str, Any]) -> str:
    engine = controller.get("engine")
    if not engine:
        return ""  # an older controller, or one that has just started
    return f"; {engine_text(engine)}"


def _stopped_text(controller: Mapping[str, Any]) -> str:
    at_ms = controller.get("stopped_at_ms")
    if at_ms is None:
        return f"stopped (last: {controller['instance']})"
    when = f"{time_text(at_ms)} UTC, {duration_text(controller['stopped_ms_ago'])} ago"
    how = "FAILED" if controller.get("failed") else "stopped in good order"
    return f"{how} at {when} (last: {controller['instance']}); all below is as it was then"


def round_text(last: Mapping[str, Any] | None) -> str:
    """The last round in one line."""
    if last is None:
        return "none yet"
    sources = ", ".join(last["sources"]) or "none"
    when = f"at {time_text(last['at_ms'])} UTC"  # the id of a round is its time, too, but nobody reads milliseconds
    who = f"{last['round_id']} {when} by {last['strategy']}, decided {duration_text(last['age_ms'])} ago"
    approval = f" ({last['approval']})" if last["approval"] else ""
    deeds = f"{count_text(last['moves'], 'move')}{approval}, {count_text(last['splits'], 'split')}"
    scores = f"mean load {percent_text(last['mean_score'])}, highest {percent_text(last['max_score'])}"
    if not percent_text(last["mean_score"]):
        scores = "no broker had a score"
    return f"{who}: sources {sources}; {deeds}; {scores}"
