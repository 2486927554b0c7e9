"""`ballast decisions`: what rounds decided and why, what they predicted, and the outcome; or a summary of a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from controller.cli.decision_text import print_decisions
from controller.cli.evidence_text import reason_text
from controller.cli.options import AsJson, Conf, Limit, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_json, emit_table, time_text
from controller.cli.times import Since, moment_ms
from controller.domain.errors import label
from controller.operations.bundles import check_names
from controller.operations.decision_summary import summarise
from controller.operations.evidence_view import EvidenceView, no_rounds_text
from controller.operations.reading import NothingNamed, Reader
from controller.operations.text import count_text
from controller.process.clock import wall_ms

app = new_app()
OfRound = Annotated[str | None, typer.Option("--round", help="Only decisions of this round.")]
OfBroker = Annotated[str | None, typer.Option("--broker", help="Only decisions with this broker as source or target.")]
OfBundle = Annotated[str | None, typer.Option("--bundle", help="Only decisions about this bundle.")]
Skips = Annotated[bool, typer.Option("--skips", help="Also what was decided against, with the reason.")]
Summary = Annotated[
    bool,
    typer.Option("--summary", help="One line for each action, however often rounds decided it, and what was left."),
]


@app.command()
@report_errors
def decisions(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    round_id: OfRound = None, broker: OfBroker = None, bundle: OfBundle = None, limit: Limit = 50, skips: Skips = False,
    since: Since = None, summary: Summary = False,
) -> None:  # fmt: skip
    """List decisions in the journal, of rounds and of the control step itself, newest first."""
    reader = Reader(settings_of(conf, profile, sets))
    view = EvidenceView(reader)
    from_ms = moment_ms(since, wall_ms(), "--since") if since is not None else 0
    rows = view.decisions(round_id, broker, bundle, skips=skips or summary, from_ms=from_ms)
    if not rows:
        _check_names(reader, view, round_id, broker, bundle)
    if summary:
        rounds = [row for row in view.rounds() if row["at_ms"] >= from_ms and round_id in (None, row["round_id"])]
        _show_summary(summarise(rows, rounds), limit, as_json)
        return
    if as_json:
        emit_json(rows[:limit])
        return
    print_decisions(rows[:limit])
    if len(rows) > limit:
        typer.echo(f"{len(rows) - limit} more; --limit shows them")


def _check_names(
    reader: Reader, view: EvidenceView, round_id: str | None, broker: str | None, bundle: str | None
) -> None:
    """Raise NothingNamed for a name that neither the cluster nor any evidence knows."""
    # what there is no more, and batches of the control step, only evidence knows: to ask it takes longest
    outline = reader.outline((bundle,) if bundle is not None else ())
    state = outline.state
    known = {row["round_id"] for row in view.rounds()} if round_id is not None else set()
    if round_id is not None and round_id not in known and not view.decisions(round_id, limit=1):
        kept = "`ballast rounds` lists those that are kept" if known else no_rounds_text(state)
        raise NothingNamed(f"no round is named {label(round_id)}: {kept}")
    if broker is not None and broker not in state.brokers and not view.decisions(broker=broker, limit=1):
        check_names(outline, broker=broker)
    there = bundle is None or bundle in state.bundles or bundle in state.observed.bundles
    if bundle is not None and not there and not view.decisions(bundle=bundle, limit=1):
        raise NothingNamed(f"no bundle is named {label(bundle)}: `ballast bundles` lists all")


def _show_summary(document: Mapping[str, Any], limit: int, as_json: bool) -> None:
    if as_json:
        emit_json(document)
        return
    rounds, actions = document["rounds"], document["actions"]
    modes = ", ".join(f"{count} in {mode}" for mode, count in rounds["by_mode"].items())
    told = f"{count_text(rounds['total'], 'round')}{f' ({modes})' if modes else ''}"
    typer.echo(f"{told}, {rounds['acting']} with moves or splits")
    decided = f"{count_text(document['decisions'], 'decision')} for {count_text(len(actions), 'action')}"
    typer.echo(f"{decided}; {document['carried_out']} carried out")
    if document["held_back"]:
        held = count_text(document["held_back"], "decision")
        typer.echo(f"{held} held back: a plan waited for approval, or was declined")
    typer.echo("")
    emit_table(
        ["kind", "bundle", "from", "to", "reason …", "times >", "done >", "first (UTC)", "last (UTC)",
         "newest outcome"],
        [
            (a["kind"], a["bundle"], a["source"], a["target"], reason_text(a["reason"]), a["count"],
             a["carried_out"], time_text(a["first_ms"]), time_text(a["last_ms"]), a["outcome"])
            for a in actions[:limit]
        ],
        empty="no round wanted anything",
    )  # fmt: skip
    if len(actions) > limit:
        typer.echo(f"{len(actions) - limit} more; --limit shows them")
    if document["brokers"]:
        typer.echo("")
        rows = [(r["broker"], r["gave"], r["took"], r["would_give"], r["would_take"]) for r in document["brokers"]]
        columns = ["broker", "gave >", "took >", "would give >", "would take >"]
        title = "gave, took: what was carried out; would give, would take: actions never carried out, each counted once"
        emit_table(columns, rows, title)
    if document["left"]:
        typer.echo("")
        left = [(reason_text(row["reason"]), row["count"]) for row in document["left"]]
        emit_table(["left alone because …", "times >"], left)
