"""`ballast explain ID`: prints why: the evidence behind a decision, a round, a broker, a bundle or a command; a reason.

About a bundle it prints when rounds moved it, and when and why they left it where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from controller.cli.command_text import command_facts, print_commands
from controller.cli.decision_text import predicted_text, print_decisions
from controller.cli.entry_text import print_entries
from controller.cli.evidence_text import (
    evidence_lines,
    kind_text,
    print_as_target,
    print_evidence,
    print_round_candidates,
    reason_text,
    scores_text,
    why_text,
)
from controller.cli.look.realised_text import print_realised
from controller.cli.options import AsJson, Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_facts, emit_json, emit_table, emit_text, percent_text, time_text
from controller.domain.decision import OF_STEP
from controller.domain.entries import Entry
from controller.domain.load import RESOURCES
from controller.domain.reasons.words import find_reason
from controller.operations.explain import LOOK_BACK, is_broker, nobody_text, reason_document
from controller.operations.explain import explain as explain_document
from controller.operations.plans.plan_words import became_text, part_sentence, plan_text
from controller.operations.reading import Reader
from controller.operations.text import count_text, minute_text
from controller.operations.why.commanded import commanded_texts

app = new_app()
_NO_DEED = "nothing to carry out"
Name = Annotated[
    str,
    typer.Argument(
        metavar="DECISION|ROUND|BROKER|BUNDLE|COMMAND|REASON",
        help="An id as other commands print it, or a reason code.",
    ),
]
Rounds = Annotated[int, typer.Option("--rounds", help="For a bundle: rounds searched for it as a candidate.", min=1)]


@app.command()
@report_errors
def explain(
    name: Name, conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    rounds: Rounds = LOOK_BACK,
) -> None:  # fmt: skip
    """Explain why: what was seen, which rule applied, what was predicted, what the journal says happened."""
    settings, note = settings_of(conf, profile, sets), ""
    reason = find_reason(name)
    if reason is not None and is_broker(settings, name):
        note, reason = f"{name} is also the reason {reason.value}, which is explained in docs/reasons.md", None
    document = (
        explain_document(Reader(settings, at_once=True), name, rounds)
        if reason is None
        else reason_document(settings, reason)
    )
    if as_json:
        emit_json(document)
    else:
        _PRINTERS[document["about"]](document)
        if note:
            emit_text(note)


def _print_decision(document: Mapping[str, Any]) -> None:
    decision, of_round = document["decision"], document["round"] or {}
    emit_facts(
        [
            ("decision", decision["decision_id"]),
            ("round", _round_text(decision, of_round)),
            ("strategy", _strategy_text(decision, of_round)),
            ("kind", ", ".join(dict.fromkeys([kind_text(decision), str(decision["label"])]))),  # not `skip, skip`
            ("reason", why_text(decision)),
            ("bundle", decision["bundle"] and f"{decision['bundle']} at epoch {decision['epoch']}"),
            ("boundary", boundary_text(decision)),
            ("from", _end_text(decision, decision["source"])),
            ("to", _end_text(decision, decision["target"])),
            ("outcome", _outcome_text(decision)),
            ("approval", part_sentence(decision["plan"]) if decision["plan"] else document["ahead"]),
        ]
    )
    print_realised(document["realised"])
    print_evidence(decision)
    if document["journal"]:
        typer.echo("")
        _print_journal(document["journal"], [decision])


def boundary_text(decision: Mapping[str, Any]) -> str | None:
    """The boundary that was decided, and the one that was used if the owner's topics told a better one."""
    decided, used = decision["boundary"], (decision["order"] or {}).get("boundary")
    if decided is None:
        return None
    return f"0x{decided:08x}" + (f", cut at 0x{used:08x}" if used not in (None, decided) else "")


def _outcome_text(decision: Mapping[str, Any]) -> str:
    became = became_text(decision)
    return (reason_text(became) if became == decision["outcome"] else became) if decision["outcome"] else _NO_DEED


def _strategy_text(decision: Mapping[str, Any], of_round: Mapping[str, Any]) -> str:
    """The strategy that decided, and the version of its rules."""
    words = [decision["strategy"], f"by rules {of_round['rules']}" if of_round else ""]
    return " ".join([*filter(None, words), *(["(challenger)"] if decision["challenger"] else [])])


def _round_text(decision: Mapping[str, Any], of_round: Mapping[str, Any]) -> str:
    """When it was decided. Decisions of the control step belong to no round and are the same in every mode."""
    when = f"{decision['round_id']} at {time_text(decision['at_ms'])}"
    if str(decision["round_id"]).startswith(OF_STEP):
        return f"{when}, a batch of the control step"
    return f"{when}, mode {of_round.get('mode', '?')}"


def _print_batch(document: Mapping[str, Any]) -> None:
    print_decisions(document["decisions"])


def _print_journal(
    rows: Sequence[Mapping[str, Any]],
    decisions: Sequence[Mapping[str, Any]],
    commands: Sequence[Mapping[str, Any]] = (),
) -> None:
    words = {decision["decision_id"]: why_text(decision) for decision in decisions} | commanded_texts(commands)
    print_entries([Entry.from_row(row) for row in rows], "what the journal says", words)


def _end_text(decision: Mapping[str, Any], broker: str | None) -> str | None:
    """One broker of a move with its predicted score: `b1:8080  47.0 % → 36.2 %`."""
    return f"{broker}  {predicted_text(decision, broker)}".rstrip() if broker else None


def _print_round(document: Mapping[str, Any]) -> None:
    for found in document["rounds"]:
        of_round = found["round"]
        facts = (
            "round_id",
            "strategy",
            "rules",
            "challenger",
            "mode",
            "state_seq",
            "seq",
            "plan_hash",
            "config_version",
        )
        told = [("at (UTC)", time_text(of_round["at_ms"])), *((name, of_round[name]) for name in facts)]
        plan = plan_text(of_round["plan"]) if of_round["plan"] else None
        emit_facts([*told, ("because", of_round["because"]), ("plan", plan)])
        typer.echo("")
        _print_scores(found["scores"])
        typer.echo("")
        print_decisions(found["decisions"], "it decided nothing")
        print_realised(found["realised"])
        print_round_candidates(found["decisions"])


def _print_broker(document: Mapping[str, Any]) -> None:
    if document["state"] == "gone":
        told = "below is what rounds decided about it; `ballast decisions` lists who got its bundles"
        emit_text(f"{document['broker']} is gone: its session has ended; {told}")
        typer.echo("")
    if document["score"]:
        typer.echo(f"in round {document['last_round']['round_id']} at {time_text(document['last_round']['at_ms'])}:")
        _print_scores([document["score"]])
    else:
        typer.echo(f"{document['broker']}: no score in the last round")
    if document["considered"]:
        typer.echo("")
        emit_text(f"{document['considered']['decision_id']}: {why_text(document['considered'])}")
        print_evidence(document["considered"])
    print_as_target(document["as_target"])
    typer.echo("")
    print_decisions(document["decisions"], "nothing was decided about it", join_skips=True)
    typer.echo("")
    print_commands(document["commands"], "commands about it")


def _print_command(document: Mapping[str, Any]) -> None:
    command = document["command"]
    emit_facts(command_facts(command))
    typer.echo("")
    _print_journal(document["journal"], [], [command])


def _print_bundle(document: Mapping[str, Any]) -> None:
    now = dict(document["now"])
    moved_at_ms, entry_at_ms = now.pop("moved_at_ms", None), now.pop("entry_at_ms")
    # The grace period counts from the time of a round, not of the move: seconds would look exact.
    times = [("since (UTC)", time_text(entry_at_ms)), ("grace period from (UTC)", minute_text(moved_at_ms))]
    emit_facts([*now.items(), *((name, text or None) for name, text in times)])
    typer.echo("")
    _print_overrides(document["overrides"])
    print_decisions(document["decisions"], "nothing was decided about it")
    print_realised(document["realised"])
    typer.echo("")
    _print_not_moved(document["candidate"], now["owner"], document["split_into"])
    typer.echo("")
    print_commands(document["commands"], "commands about it")
    _print_journal(document["journal"], document["decisions"], document["commands"])


def _print_overrides(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the overrides in force on a bundle, with what each comes to."""
    if rows:
        columns = ["override", "kind", "on", "broker", "until (UTC)", "by", "it comes to …"]
        emit_table(columns, [_override_cells(row) for row in rows], "overrides in force")
        typer.echo("")


def _override_cells(row: Mapping[str, Any]) -> tuple[Any, ...]:
    until = time_text(row["until_ms"])
    return row["id"], row["kind"], row["bundle"] or row["namespace"], row["broker"], until, row["who"], row["effect"]


def _print_not_moved(found: Mapping[str, Any], owner: str | None, split_into: Sequence[str]) -> None:
    """Print when rounds considered the bundle and left it, and why; else why none considered it."""
    since = f"(since {time_text(found['since_ms'])}; --rounds N looks further back)"
    rounds = f"the last {count_text(found['rounds'], 'round')} {since}"
    none = f"none of {rounds} considered it and left it"
    if found["times"]:
        emit_table(
            ["at (UTC)", "round", "from", "best target", "source after >", "target after >", "result …"],
            [
                (time_text(r["at_ms"]), r["round_id"], r["source"], r.get("target"), *scores_text(r), r["result"])
                for r in found["times"]
            ],
            title=f"considered and left in {len(found['times'])} of {rounds}",
        )
    elif not found["rounds"]:
        emit_text("no kept round could have considered it")
    elif owner is None:
        emit_text(f"{none}: {nobody_text(split_into)}")
    elif found["held_by"] is not None:
        emit_text(f"{none}: {found['held_by']}")
    elif found["why_not"] is None:
        emit_text(f"{none}: the last one knew nothing of its broker {owner}")
    else:
        emit_text(f"{none}: {_why_not_text(found['why_not'])}")


def _why_not_text(row: Mapping[str, Any]) -> str:
    """Why the last round did not consider the bundle: how it saw the bundle's broker."""
    what = "was a source, without this bundle among its best" if row["is_source"] else "was no source"
    load, level = percent_text(row["score"]) or "unknown", percent_text(row["mean"]) or "unknown"
    lost = "".join(f"; {line}" for line in evidence_lines({"bundles_lost": row["bundles_lost"]}) if row["bundles_lost"])
    broker = f"in round {row['round_id']} its broker {row['broker']} {what}: {_in_words(row)}"
    return f"{broker} (load {load}, level {level}, hits {row['hits']}){lost}"


def _in_words(row: Mapping[str, Any]) -> str:
    """The reason of a broker's score, as code and in words."""
    return f"{row['reason']}: {row['reason_words']}" if row["reason_words"] else str(row["reason"] or "")


def _print_scores(rows: Sequence[Mapping[str, Any]]) -> None:
    known = [r for r in RESOURCES if any(row[f"{r}_utilisation"] is not None for row in rows)]
    emit_table(
        ["broker", "load >", "level >", "hits >", "source", "eligible", "reason", *(f"{r} >" for r in known)],
        [
            (
                row["broker"],
                percent_text(row["score"]),
                percent_text(row["mean"]),
                row["hits"],
                "yes" if row["is_source"] else "no",
                "yes" if row["eligible"] else "no",
                _in_words(row),
                *(percent_text(row[f"{r}_utilisation"]) for r in known),
            )
            for row in rows
        ],
    )


def _print_reason(document: Mapping[str, Any]) -> None:
    facts = [
        ("reason", f"{document['code']} ({document['band']}): {document['words']}"),
        ("it means", document["meaning"]),
        ("Pulsar's name", document["pulsar"]),
        ("to do", document["act"]),
    ]
    keys = [(key, "none" if value is None else value) for key, value in document["keys"].items()]
    emit_facts(facts)
    if keys:
        typer.echo("")
        emit_table(["key", "value"], keys, "keys of the configuration that change it")


_PRINTERS = {
    "reason": _print_reason,
    "decision": _print_decision,
    "round": _print_round,
    "broker": _print_broker,
    "bundle": _print_bundle,
    "batch": _print_batch,
    "command": _print_command,
}
