"""Options that all commands share, and how commands end.

Exit codes: 0 done, 1 rejected or a problem found, 2 usage or configuration error. Errors are one line on stderr;
stdout only carries the answer.
"""

from __future__ import annotations

import functools
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer

from controller.cli.choices import profile_names
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.config.variables import ENV_CONF
from controller.domain.errors import BadRecord, BallastError, ConfigError, describe_error

OK, PROBLEM, USAGE = 0, 1, 2
SILENCED_LOGGERS = ("kafka", "httpx", "controller.bus.producer", "controller.bus.undelivered")

Conf = Annotated[
    Path | None, typer.Option("--conf", help=f"Configuration file; by default ${ENV_CONF}.", show_default=False)
]
Profile = Annotated[
    str | None,
    typer.Option("--profile", help="Configuration profile.", show_default=False, autocompletion=profile_names),
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="Override a value: section.key=value; repeatable.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Why = Annotated[str, typer.Option("--why", help="The reason, stored in the journal.", show_default=False)]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for the journal's answer.", min=0.1)]
Limit = Annotated[int, typer.Option("--limit", help="Maximum number of rows.", min=1)]
BrokerLimit = Annotated[int, typer.Option("--limit", help="Maximum number of brokers shown; --json has all.", min=1)]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def settings_of(conf: Path | None, profile: str | None, sets: list[str] | None) -> Settings:
    """The effective settings of a command. Raises ConfigError."""
    return load_settings(conf, profile, sets or [])


def report_errors(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make errors of a command end in one line on stderr and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for library in SILENCED_LOGGERS:
            logging.getLogger(library).setLevel(logging.CRITICAL)  # the command itself reports errors, once
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:
            raise  # the reader of our output has closed it (`| head`): nothing to report
        except Exception as error:
            if isinstance(error, BallastError | OSError) or _is_of_library(error):
                raise report_error(error) from None
            raise

    return wrapped


def _is_of_library(error: Exception) -> bool:
    """Whether delta-rs or Kafka's client raised it; a command that uses neither does not import them for this."""
    known = [(sys.modules.get("deltalake.exceptions"), "DeltaError"), (sys.modules.get("kafka.errors"), "KafkaError")]
    return any(module is not None and isinstance(error, getattr(module, name)) for module, name in known)


def report_error(error: Exception) -> typer.Exit:
    """Print the error as one line; return the exit to raise."""
    typer.echo(f"ballast: {describe_error(error)}", err=True)
    return typer.Exit(USAGE if isinstance(error, ConfigError | BadRecord) else PROBLEM)


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Let SIGTERM act like Ctrl-C: it also ends the processes that the command started, and keeps finished results."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def new_app(help_text: str = "") -> typer.Typer:
    """An app without shell-completion options, which would hide the few that matter."""
    return _plain(help_text or None)


def _plain(help_text: str | None, no_args_is_help: bool = False) -> typer.Typer:
    """An app with Python's own tracebacks: typer's can show values of variables, including passwords."""
    return typer.Typer(
        add_completion=False,
        help=help_text,
        no_args_is_help=no_args_is_help,
        pretty_exceptions_enable=False,
        pretty_exceptions_show_locals=False,
        rich_markup_mode=None,
    )


def new_group(help_text: str) -> typer.Typer:
    """An app with sub-commands, as in `ballast topic create`."""
    app = _plain(help_text, no_args_is_help=True)

    @app.callback()
    def group() -> None:
        """Keeps the sub-command's name even when there is only one."""

    group.__doc__ = None
    app.info.help = help_text
    return app
