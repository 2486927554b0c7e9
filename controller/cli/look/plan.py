"""`ballast plan`: what the next round would do now, and why. Reads the tables alone and executes nothing.

A running `ballast ui` of the same tables is asked first: it has the state at hand and decides by the same code.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.backtest.advise.advice import Advice
from controller.cli.advice_text import SHOWN_BROKERS, print_advice
from controller.cli.choices import strategy_names
from controller.cli.options import AsJson, BrokerLimit, Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_json
from controller.config.places import check_old_place
from controller.config.settings import Settings
from controller.domain.errors import without_login
from controller.operations.page_address import ask_page
from controller.process.clock import wall_ms
from controller.process.paths import place_of_tables

app = new_app()
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy", help="Plan with this strategy; by default the one in charge.", autocompletion=strategy_names
    ),
]


@app.command()
@report_errors
def plan(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False, strategy: Strategy = None,
    limit: BrokerLimit = SHOWN_BROKERS,
) -> None:  # fmt: skip
    """Show what the next round would do now, and why. Executes nothing; needs no Kafka and no controller."""
    settings = settings_of(conf, profile, sets)
    check_old_place(settings)
    named = without_login(place_of_tables(settings.tables.root))
    found = ask_page(settings, named, "/api/plan", {"strategy": strategy} if strategy else {})
    if found is None:
        found = _decide(settings, strategy)
    if as_json:
        shown = {name: value for name, value in found.items() if name != "strategies"}
        emit_json({"cluster": settings.cluster.name, "tables": named, **shown})
    else:
        print_advice(Advice.from_json(found), found["notes"], limit)


def _decide(settings: Settings, strategy: str | None) -> dict[str, Any]:
    """Decide in this process, with the tables and all strategies, which take their time to import."""
    from controller.operations.reading import Reader
    from controller.process.quick_start import settle_more_imports
    from controller.service.rounds.next_round import plan_next_round

    settle_more_imports()
    tables = Reader(settings).root  # checked: there is a journal
    return plan_next_round(settings, tables, wall_ms(), strategy).to_json()
