"""`ballast explain ID`: the evidence behind a decision, a round, a broker's standing or a bundle's place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from controller.domain.entries import Entry
from controller.domain.load import RESOURCES
from controller.ops.cli_options import AsJson, Conf, Profile, Sets, new_app, settings_of, told
from controller.ops.cmd_decisions import predicted_text, print_decisions
from controller.ops.cmd_journal import print_entries
from controller.ops.evidence_text import (
    kind_text,
    print_as_target,
    print_evidence,
    print_round_candidates,
    reason_text,
)
from controller.ops.explain import explain as explain_document
from controller.ops.reading import Reader
from controller.ops.show import emit_facts, emit_json, emit_table, percent_text, time_text

app = new_app()
Name = Annotated[str, typer.Argument(metavar="DECISION|ROUND|BROKER|BUNDLE", help="An id as other commands print it.")]


@app.command()
@told
def explain(name: Name, conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False) -> None:
    """Why: what was seen, which rule fired, what was predicted and what the journal says happened."""
    document = explain_document(Reader(settings_of(conf, profile, sets)), name)
    if as_json:
        emit_json(document)
    else:
        _PRINTERS[document["about"]](document)


def _print_decision(document: Mapping[str, Any]) -> None:
    decision, of_round = document["decision"], document["round"] or {}
    emit_facts(
        [
            ("decision", decision["decision_id"]),
            ("round", f"{decision['round_id']} at {time_text(decision['at_ms'])}, mode {of_round.get('mode', '?')}"),
            ("strategy", decision["strategy"] + (" (challenger)" if decision["challenger"] else "")),
            ("kind", f"{kind_text(decision)}, {decision['label']}"),
            ("reason", reason_text(decision["reason"])),
            ("bundle", decision["bundle"] and f"{decision['bundle']} at epoch {decision['epoch']}"),
            ("boundary", decision["boundary"] and f"0x{decision['boundary']:08x}"),
            ("from", _end_text(decision, decision["source"])),
            ("to", _end_text(decision, decision["target"])),
            ("outcome", reason_text(decision["outcome"]) or "nothing to carry out"),
        ]
    )
    print_evidence(decision)
    if document["journal"]:
        typer.echo("")
        print_entries([Entry.from_row(row) for row in document["journal"]], "what the journal says")


def _end_text(decision: Mapping[str, Any], broker: str | None) -> str | None:
    """One end of a move with what it should become: `b1:8080  47.0 % → 36.2 %`."""
    return f"{broker}  {predicted_text(decision, broker)}".rstrip() if broker else None


def _print_round(document: Mapping[str, Any]) -> None:
    for found in document["rounds"]:
        of_round = found["round"]
        facts = ("round_id", "strategy", "challenger", "mode", "state_seq", "seq", "plan_hash", "config_version")
        emit_facts([("at (UTC)", time_text(of_round["at_ms"])), *((name, of_round[name]) for name in facts)])
        typer.echo("")
        _print_scores(found["scores"])
        typer.echo("")
        print_decisions(found["decisions"], "it decided nothing")
        print_round_candidates(found["decisions"])


def _print_broker(document: Mapping[str, Any]) -> None:
    if document["score"]:
        typer.echo(f"in round {document['last_round']['round_id']} at {time_text(document['last_round']['at_ms'])}:")
        _print_scores([document["score"]])
    else:
        typer.echo(f"{document['broker']}: no score in the last round")
    if document["considered"]:
        typer.echo(f"\n{document['considered']['decision_id']}: {reason_text(document['considered']['reason'])}")
        print_evidence(document["considered"])
    print_as_target(document["as_target"])
    typer.echo("")
    print_decisions(document["decisions"], "no round decided anything about it")


def _print_bundle(document: Mapping[str, Any]) -> None:
    now = dict(document["now"])
    moved_at_ms = now.pop("moved_at_ms", None)
    emit_facts([*now.items(), ("moved (UTC)", time_text(moved_at_ms) if moved_at_ms else None)])
    typer.echo("")
    print_decisions(document["decisions"], "no round decided anything about it")
    typer.echo("")
    print_entries([Entry.from_row(row) for row in document["journal"]], "what the journal says")


def _print_scores(rows: Sequence[Mapping[str, Any]]) -> None:
    known = [r for r in RESOURCES if any(row[f"{r}_utilisation"] is not None for row in rows)]
    emit_table(
        ["broker", "score >", "mean >", "hits >", "source", "eligible", "reason", *(f"{r} >" for r in known)],
        [
            (
                row["broker"],
                percent_text(row["score"]),
                percent_text(row["mean"]),
                row["hits"],
                "yes" if row["is_source"] else "no",
                "yes" if row["eligible"] else "no",
                reason_text(row["reason"]),
                *(percent_text(row[f"{r}_utilisation"]) for r in known),
            )
            for row in rows
        ],
    )


_PRINTERS = {"decision": _print_decision, "round": _print_round, "broker": _print_broker, "bundle": _print_bundle}
