"""`ballast repair`: says what is damaged in the tables and how it would be mended; `--execute` does it.

Exit code 0 if nothing is damaged or lost, or everything was mended; 1 otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from controller.cli.options import PROBLEM, AsJson, Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_facts, emit_json, emit_text
from controller.config.places import check_old_place
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.errors import ConfigError, describe_error, without_login
from controller.domain.state_codec import encode
from controller.ledger.repair.execute import carry_out
from controller.ledger.repair.heard import NOTHING, Heard
from controller.ledger.repair.missing import BEFORE_IT, NEXT_STEP
from controller.ledger.repair.plan import Plan, make_plan
from controller.ledger.tables import TableRoot
from controller.operations.capture.about import slice_end_ms
from controller.operations.reading import no_tables
from controller.process.clock import wall_ms
from schemas.catalog import TABLES

GIVE_UP = "--execute --new-journal"
app = new_app()
Tables = Annotated[
    list[str] | None, typer.Option("--table", help="Only this table, read whole; repeatable.", show_default=False)
]
Execute = Annotated[bool, typer.Option("--execute", help="Carry the plan out. No controller may run.")]
NewJournal = Annotated[
    bool, typer.Option("--new-journal", help="Give up a journal that cannot be mended; it is kept as a copy.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Do not ask Kafka what it has of the journal; only plan.")]


@app.command()
@report_errors
def repair(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False, table: Tables = None,
    execute: Execute = False, new_journal: NewJournal = False, offline: Offline = False,
) -> None:  # fmt: skip
    """Find files of the tables that are truncated, unreadable or missing, and say how they would be mended; with
    --execute, do so. Copies what it touches first, and drops nothing that can be read."""
    settings = settings_of(conf, profile, sets)
    only = _known_tables(table or ())
    if execute and offline:
        raise ConfigError("--execute asks Kafka whether a controller lives: leave --offline out")
    check_old_place(settings)
    root = table_root(settings)
    if not any(root.exists(name) for name in TABLES):
        raise no_tables(root.root, settings.file)
    heard, silence = _ask_kafka(settings, root, execute, offline)
    now_ms = wall_ms()
    plan = make_plan(root, heard, only=only, new_journal=new_journal, now_ms=now_ms)
    copies = None
    if execute and plan.steps and (not plan.impossible or new_journal):
        copies = carry_out(plan, root, now_ms)
    _show(plan, root, copies, silence, as_json)
    if (plan.damage and copies is None) or any(each.lost for each in plan.missing):
        raise typer.Exit(PROBLEM)


def _known_tables(names: Sequence[str]) -> list[str]:
    unknown = sorted(set(names) - set(TABLES))
    if unknown:
        raise ConfigError(f"--table {unknown[0]}: give one of {', '.join(TABLES)}")
    return list(names)


def _ask_kafka(settings: Settings, root: TableRoot, execute: bool, offline: bool) -> tuple[Heard, str]:
    """What Kafka has of the journal, and why it was not asked. With `execute`, raises AnotherController while a
    controller lives, and KafkaUnavailable; else a Kafka that does not answer only leaves the plan with less."""
    if offline:
        return NOTHING, "Kafka was not asked (--offline): what only the journal feed has is taken for lost"
    if slice_end_ms(root.root) is not None:
        return NOTHING, "a captured slice has no Kafka to ask: what only the journal feed had is taken for lost"
    from controller.bus.cluster import KafkaUnavailable, check_reachable  # the client library, not with --offline
    from controller.bus.failures import TopicUnreadable
    from controller.service.repair_checks import check_no_controller, hear_of_journal, journal_of_tables

    try:
        check_reachable(settings.kafka.bootstrap_servers)
        journal_id = journal_of_tables(settings, root)
        if execute:
            check_no_controller(settings, journal_id)
        return hear_of_journal(settings, journal_id), ""
    except (KafkaUnavailable, TopicUnreadable) as error:
        if execute:
            raise
        return NOTHING, f"{describe_error(error)}: what only the journal feed has is taken for lost"


def _ways_out(plan: Plan) -> str:
    return (
        f"nothing was changed. The journal cannot be mended: {plan.impossible}. Restore a backup of the tables; if "
        f"there is none, stop all agents, run `ballast repair {GIVE_UP}`, then `ballast run --new-journal` "
        "(docs/recovery.md#the-tables-are-gone-and-kafka-is-not)"
    )


def _show(plan: Plan, root: TableRoot, copies: str | None, silence: str, as_json: bool) -> None:
    if as_json:
        emit_json(_document(plan, root, copies, silence))
        return
    if not plan.damage:
        emit_text(
            "no table is damaged" if not plan.missing else "no file of a table is damaged, but tables are missing"
        )
    else:
        emit_text("damaged")
    if plan.damage or plan.missing:
        emit_facts(
            [
                *((f"  {each.table}", f"{each.file} {each.what}") for each in plan.damage),
                *((f"  {each.table}", each.what) for each in plan.missing),
            ]
        )
    if plan.steps:
        emit_text("\nsteps")
        emit_facts(
            (f"  {number}  {step.table}", f"{step.what} (loses {step.loses})")
            for number, step in enumerate(plan.steps, start=1)
        )
    for line in _outcome(plan, copies, silence):
        emit_text(f"\n{line}")


def _outcome(plan: Plan, copies: str | None, silence: str) -> Sequence[str]:
    """What was done, or is to be done next, and what to know of it."""
    said = [*plan.notes, *([silence] if silence else [])]
    if plan.missing:
        lost = any(each.lost for each in plan.missing)
        said.append(f"{NEXT_STEP}{f'; {BEFORE_IT}' if lost else ''}")
    if silence and plan.impossible:
        said.append("ask again when Kafka answers, before anything else: the feed may have what is missing")
    if plan.state is not None:
        said.append(f"the journal then tells the state of entry {plan.state.seq}")
    if copies is not None:
        said.append(f"done; copies of what was touched are at {without_login(copies)}")
        if plan.new_journal:
            said.append("now start the controller once with `ballast run --new-journal`, all agents being stopped")
    elif plan.impossible and not plan.new_journal:
        said.append(_ways_out(plan))
    elif plan.steps:
        said.append("nothing was changed: stop the controller, then run `ballast repair --execute`")
    return said


def _document(plan: Plan, root: TableRoot, copies: str | None, silence: str) -> dict[str, Any]:
    state = plan.state
    return {
        "tables": without_login(root.root),
        "damage": [{"table": each.table, "file": each.file, "what": each.what} for each in plan.damage],
        "missing": [{"table": each.table, "what": each.what, "lost": each.lost} for each in plan.missing],
        "steps": [{"table": step.table, "what": step.what, "loses": step.loses} for step in plan.steps],
        "impossible": plan.impossible or None,
        "notes": [*plan.notes, *([silence] if silence else [])],
        "seq": state.seq if state else None,
        "state_sha256": hashlib.sha256(encode(state).encode()).hexdigest() if state else None,
        "executed": copies is not None,
        "copies": without_login(copies) if copies else None,
    }
