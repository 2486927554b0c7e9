"""`ballast`: a table of commands. A command's module is imported only when that command is called, so help is fast.

Every command is a typer app of its own, in the room of its kind (`look`, `act`, `run`, `tryout`). What Ballast refuses
ends in one line on stderr and exit code 2, mistyped options as well; a traceback means a bug.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import typer

import controller
from controller.domain.errors import BallastError

# what the parser of the command line raises; typer exports only a leaf of it
UsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])


class Command(NamedTuple):
    """Where a command's typer app is, and its line in the help."""

    module: str
    help: str
    app: str = "app"  # the typer app's name in the module


COMMANDS: Mapping[str, Command] = {
    "demo": Command(
        "controller.cli.tryout.demo", "a whole cluster on this machine, skewed, split, shot at and audited"
    ),
    "replay-reports": Command(
        "controller.cli.tryout.replay_reports", "what would have been decided on recorded load reports"
    ),
    "decide": Command("controller.cli.tryout.decide", "a strategy as a filter: loads in, decisions out, a line each"),
    "backtest": Command("controller.cli.tryout.backtest", "strategies and knobs over recorded load: a scoreboard"),
    "sim": Command("controller.cli.tryout.sim", "scenario files in the load simulator: balance, thrash, moves"),
    "kafka": Command("controller.cli.run.kafka", "start and stop a local Kafka: up, down, status"),
    "run": Command("controller.cli.run.job", "the Spark job: loads query and control query"),
    "agent": Command("controller.cli.run.agent", "the agent of one broker"),
    "store": Command("controller.cli.run.store", "the segment store of the reference brokers"),
    "status": Command("controller.cli.look.status", "how things stand"),
    "brokers": Command("controller.cli.look.brokers", "brokers with what they own and how loaded they are"),
    "bundles": Command("controller.cli.look.bundles", "bundles with owner, state and load"),
    "rounds": Command("controller.cli.look.rounds", "evaluations of the cluster"),
    "decisions": Command("controller.cli.look.decisions", "what rounds decided, and what became of it"),
    "replay": Command("controller.cli.look.replay", "decide stored rounds again: is it the same plan?"),
    "explain": Command("controller.cli.look.explain", "the evidence behind a decision, round, broker or bundle"),
    "journal": Command("controller.cli.look.journal", "everything decided and everything that happened"),
    "namespace": Command("controller.cli.act.namespace", "create, list"),
    "topic": Command("controller.cli.act.topic", "create, unload, lookup"),
    "unload": Command("controller.cli.act.unload", "move a bundle or a namespace off its owners"),
    "split": Command("controller.cli.act.split", "cut a bundle in two"),
    "drain": Command("controller.cli.act.drain", "empty a broker and keep it empty"),
    "undrain": Command("controller.cli.act.drain", "let a drained broker take bundles again", "undrain_app"),
    "mode": Command("controller.cli.act.mode", "print or set the mode: shadow, live, paused"),
    "strategy": Command("controller.cli.act.strategy", "print or set the strategy that decides, and its challengers"),
    "override": Command("controller.cli.act.override", "pin, avoid, freeze, exclude-namespace; list, end"),
    "round-now": Command("controller.cli.act.round_now", "evaluate the cluster now"),
    "thaw": Command("controller.cli.act.round_now", "overrule the mass-failure guard", "thaw_app"),
    "maintain": Command("controller.cli.run.maintain", "expire, merge and clean up the load and evidence tables"),
    "config": Command("controller.cli.look.config", "show and check the configuration"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the installed script; always ends in SystemExit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("--help", "-h", "help"):
        print(overview())
        raise SystemExit(0)
    if given[0] == "--version":
        print(f"ballast {controller.__version__}")
        raise SystemExit(0)
    command = COMMANDS.get(given[0])
    if command is None:
        print(f"ballast: no command {given[0]!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        raise SystemExit(2)
    try:
        app = getattr(importlib.import_module(command.module), command.app)
        code = app(args=given[1:], prog_name=f"ballast {given[0]}", standalone_mode=False)
    except BallastError as error:
        print(f"ballast {given[0]}: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    except UsageError as error:
        print(_usage_text(error, given[0]), file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:  # while modules are imported; from then on typer does the same
        raise SystemExit(130) from None
    raise SystemExit(code or 0)


def _usage_text(error: BaseException, command: str) -> str:
    """One line for a mistyped option or argument; the help of a group that was called without a sub-command."""
    text: str = error.format_message()  # type: ignore[attr-defined]
    if "\n" in text:
        return text
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else f"ballast {command}"
    return f"{path}: {text.rstrip('.')}; `{path} --help` tells what there is"


def overview() -> str:
    """The list of commands as text."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join(["usage: ballast COMMAND …   (`ballast COMMAND --help` tells more)", "", *lines])


if __name__ == "__main__":
    main()
