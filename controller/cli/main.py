"""`ballast`: the table of commands. A command's module is only imported when that command runs, so help is fast.

Every command is a typer app of its own, in a folder by purpose (`look`, `act`, `run`, `tryout`, `pulsar`). Errors
end in one line on stderr: with exit code 2 if another start cannot change it, as a mistyped option, else with 1. A
traceback means a bug.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import typer

import controller
from controller.domain.errors import (
    BadRecord,
    BallastError,
    ConfigError,
    IncompatibleTable,
    InvariantBroken,
    JavaNotFit,
    shown,
    without_login,
)
from controller.process.quick_start import import_quickly

# the base of what the command line parser raises; typer exports only a subclass
UsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])


# What another start cannot change: after code 2, systemd starts nothing again. A Kafka, store or cluster that did not
# answer may answer the next time, and a right that is missing may be granted.
LASTING = (ConfigError, BadRecord, IncompatibleTable, InvariantBroken, JavaNotFit)
QUICK = "controller.cli.look."  # commands that read and end


class Command(NamedTuple):
    """The location of a command's typer app, and its line in the help."""

    module: str
    help: str
    app: str = "app"  # name of the typer app in the module


COMMANDS: Mapping[str, Command] = {
    "demo": Command(
        "controller.cli.tryout.demo", "run a cluster on this machine: skew, split, kill, check every topic"
    ),
    "replay-reports": Command(
        "controller.cli.tryout.replay_reports", "show what would have been decided on recorded load reports"
    ),
    "decide": Command("controller.cli.tryout.decide", "run a strategy as a filter: loads in, decisions out, by line"),
    "backtest": Command("controller.cli.tryout.backtest", "score strategies and settings on recorded load"),
    "pulsar": Command(
        "controller.cli.pulsar",
        "Pulsar clusters: record their load, say what Ballast would do, adopt one, run one",
    ),
    "produce": Command("controller.cli.tryout.produce", "send lines of stdin to a topic of the reference brokers"),
    "consume": Command("controller.cli.tryout.consume", "print the messages of a topic of the reference brokers"),
    "sim": Command("controller.cli.tryout.sim", "run scenario files in the load simulator: balance, thrash, moves"),
    "setup": Command("controller.cli.run.setup", "check Java, and fetch the JARs that Spark and Kafka need"),
    "init": Command("controller.cli.run.init", "write a configuration, Spark settings and systemd units into a folder"),
    "package": Command("controller.cli.run.package", "write the code as one zip, for Spark's executors"),
    "kafka": Command("controller.cli.run.kafka", "start and stop a local Kafka: up, down, status"),
    "spark": Command("controller.cli.run.spark", "start and stop a local Spark cluster: up, down, status"),
    "run": Command("controller.cli.run.job", "run the Spark job: loads query and control query"),
    "agent": Command("controller.cli.run.agent", "run the agent of one broker, or of a Pulsar cluster"),
    "store": Command("controller.cli.run.store", "run the segment store of the reference brokers"),
    "ui": Command("controller.cli.run.ui", "serve the operators' page: the cluster in a browser"),
    "status": Command("controller.cli.look.status", "show the state of the cluster, and what needs attention"),
    "brokers": Command("controller.cli.look.brokers", "list brokers with their bundles and their load"),
    "bundles": Command("controller.cli.look.bundles", "list bundles with owner, state and load"),
    "plan": Command("controller.cli.look.plan", "show what the next round would do now; executes nothing"),
    "rounds": Command("controller.cli.look.rounds", "list rounds"),
    "decisions": Command("controller.cli.look.decisions", "list what rounds decided, and the outcome"),
    "replay": Command("controller.cli.look.replay", "decide stored rounds again: is it the same plan?"),
    "diff": Command("controller.cli.look.diff", "show what another strategy would have done in a stored round"),
    "explain": Command("controller.cli.look.explain", "show the evidence behind a decision, round, broker or bundle"),
    "journal": Command("controller.cli.look.journal", "list everything decided and everything that happened"),
    "doctor": Command("controller.cli.look.doctor", "check tables, Kafka, clocks, disk, lag; what to do about it"),
    "capture": Command("controller.cli.look.capture", "write an incident's slice of the tables into a folder"),
    "quarantine": Command("controller.cli.look.quarantine", "list and show records that broke a rule"),
    "namespace": Command("controller.cli.act.namespace", "create, list"),
    "topic": Command("controller.cli.act.topic", "create, unload, lookup"),
    "unload": Command("controller.cli.act.unload", "move a bundle or a namespace off its owners"),
    "split": Command("controller.cli.act.split", "split a bundle in two"),
    "drain": Command("controller.cli.act.drain", "empty a broker and keep it empty"),
    "undrain": Command("controller.cli.act.drain", "let a drained broker take bundles again", "undrain_app"),
    "mode": Command("controller.cli.act.mode", "print or set the mode: shadow, live, paused"),
    "strategy": Command("controller.cli.act.strategy", "print or set the strategy that decides, and its challengers"),
    "override": Command("controller.cli.act.override", "pin, avoid, freeze, exclude-namespace; list, end"),
    "approve": Command("controller.cli.act.approve", "have a plan carried out that waits for it"),
    "decline": Command("controller.cli.act.approve", "drop a plan that waits for approval", "decline_app"),
    "round-now": Command("controller.cli.act.round_now", "run a round now"),
    "thaw": Command("controller.cli.act.round_now", "reset the mass-failure breaker", "thaw_app"),
    "maintain": Command("controller.cli.run.maintain", "expire rows and merge files of the load and evidence tables"),
    "repair": Command("controller.cli.run.repair", "say what is damaged in the tables; --execute mends it"),
    "config": Command("controller.cli.look.config", "show and check the configuration"),
    "completion": Command("controller.cli.completion", "print a script that completes commands: bash, zsh, fish"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the installed script; always raises SystemExit."""
    _replace_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _run(given, quick=arguments is None)
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EPIPE):
            raise
        sys.stdout = None  # otherwise its last flush fails as well
        if error.errno != errno.EPIPE:  # else whoever reads it has had enough
            print(
                f"ballast: cannot write the output: {error.strerror}; make room, or send it elsewhere", file=sys.stderr
            )
        raise SystemExit(1) from None


def _run(given: Sequence[str], quick: bool) -> None:
    """Run a command, or print what there is; raises SystemExit. `quick`: import modules of commands quickly."""
    if not given or given[0] in ("--help", "-h", "help"):
        print(overview(), flush=True)
        raise SystemExit(0)
    if given[0] == "--version":
        print(f"ballast {controller.__version__}", flush=True)
        raise SystemExit(0)
    command = COMMANDS.get(given[0])
    if command is None:
        near = difflib.get_close_matches(given[0], COMMANDS, n=1)
        hint = f"the nearest is {near[0]}; `ballast --help` lists all" if near else f"there are {', '.join(COMMANDS)}"
        print(f"ballast: no command {given[0]!r}; {hint}", file=sys.stderr)
        raise SystemExit(2)
    try:
        quick = quick and command.module.startswith(QUICK)
        app = getattr((import_quickly if quick else importlib.import_module)(command.module), command.app)
        code = app(args=given[1:], prog_name=f"ballast {given[0]}", standalone_mode=False)
    except BallastError as error:
        print(f"ballast {given[0]}: {without_login(str(error))}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, LASTING) else 1) from error
    except UsageError as error:
        print(without_login(_usage_text(error, given[0])), file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:  # during the import of modules; afterwards typer does the same
        raise SystemExit(130) from None
    raise SystemExit(code or 0)


def _replace_closed_streams() -> None:
    """Read nothing from an input that was closed (`<&-`), and write an output (`>&-`) to nowhere. The next file would
    get its number otherwise."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _usage_text(error: BaseException, command: str) -> str:
    """One line for a mistyped option or argument, or the help of a group called without a sub-command."""
    from controller.config.arguments import unknown_option_text  # help does not need the configuration

    text: str = error.format_message()  # type: ignore[attr-defined]
    if "\n" in text:
        return text
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else f"ballast {command}"
    option, near = getattr(error, "option_name", None), getattr(error, "possibilities", None)
    if option is not None and near is not None:  # a mistyped option, with those that look like it
        text = unknown_option_text(option, difflib.get_close_matches(option, near, n=1))
    refused = getattr(error.__cause__, "errors", None)  # pydantic, by which typer checks a value, does not quote it
    if refused is not None:
        text = text.replace("Input should", f"{shown(refused()[0]['input'])} should")
    return f"{path}: {text.rstrip('.')}; `{path} --help` tells what there is"


def overview() -> str:
    """The list of commands."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join(["usage: ballast COMMAND …   (`ballast COMMAND --help` tells more)", "", *lines])


if __name__ == "__main__":
    main()
