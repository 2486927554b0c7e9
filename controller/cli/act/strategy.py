"""`ballast strategy`: print or set the strategy in charge, and the challengers that decide in shadow next to it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.choices import strategy_lists, strategy_or_configured
from controller.cli.options import AsJson, Conf, Profile, Sets, Timeout, Why, new_app, report_errors, settings_of
from controller.cli.send_command import ANSWER_S, carry_out
from controller.cli.show import emit_facts, emit_json
from controller.config.policy_values import policy_settings
from controller.control.policy_commands import CONFIGURED
from controller.domain.errors import BadRecord
from controller.operations.reading import Reader
from controller.policy.round import as_commanded
from controller.policy.strategies import get, names
from controller.policy.strategies.registry import ALIASES

app = new_app()
To = Annotated[
    str | None,
    typer.Argument(metavar=f"[NAME|{CONFIGURED}]", show_default=False, autocompletion=strategy_or_configured),
]
Challengers = Annotated[
    str | None,
    typer.Option(
        "--challengers",
        metavar="NAME,…",
        help=f"Names by commas; '{CONFIGURED}', or '' for none.",
        autocompletion=strategy_lists,
    ),
]


@app.command()
@report_errors
def strategy(
    to: To = None,
    challengers: Challengers = None,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Print the strategy in charge, or set it from the next round on; the choice survives restarts."""
    if to is None and challengers is None:
        _print(conf, profile, sets, as_json)
        return
    args: dict[str, Any] = {"strategy": to, "challengers": _names(challengers)}
    # `get`: or a ConfigError that names those there are
    rivals = [] if args["challengers"] in (None, CONFIGURED) else [get(name).name for name in args["challengers"]]
    if to is not None and to != CONFIGURED and get(to).name in rivals:
        raise BadRecord("challengers", f"{to!r} is the strategy in charge, so it is no challenger: name each once")
    carry_out(conf, profile, sets, as_json, "strategy", why, timeout, args)


def _names(text: str | None) -> list[str] | str | None:
    if text is None or text == CONFIGURED:
        return text
    given = [name.strip() for name in text.split(",") if name.strip()]
    if len(set(given)) < len(given):
        raise BadRecord("challengers", f"{text!r} names a strategy twice")
    return given


def _with_aliases(name: str) -> str:
    others = [alias for alias, meant in ALIASES.items() if meant == name]
    return f"{name} (also {', '.join(others)})" if others else name


def _print(conf: Any, profile: Any, sets: Any, as_json: bool) -> None:
    settings = settings_of(conf, profile, sets)
    state = Reader(settings).outline().state
    policy = as_commanded(policy_settings(settings), state)
    document = {
        "strategy": get(policy.strategy).name,
        "strategy_by": "command" if policy.strategy == state.strategy else "configuration",
        "challengers": [get(name).name for name in policy.challengers],
        "challengers_by": "configuration" if state.challengers is None else "command",
        "known": names(),
        "aliases": ALIASES,
        "seq": state.seq,
    }
    if as_json:
        emit_json(document)
        return
    others = ", ".join(document["challengers"]) or "none"  # type: ignore[arg-type]
    emit_facts(
        [
            ("strategy", f"{document['strategy']} (by {document['strategy_by']})"),
            ("challengers", f"{others} (by {document['challengers_by']})"),
            ("known", ", ".join(map(_with_aliases, names()))),
        ]
    )
