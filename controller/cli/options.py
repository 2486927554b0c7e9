"""Options that every command shares, and how a command ends.

Exit codes: 0 done, 1 rejected or a problem found, 2 a usage or configuration error. Whatever Ballast refuses is one
line on stderr; stdout carries the answer only.
"""

from __future__ import annotations

import functools
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer
from deltalake.exceptions import DeltaError

from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.config.sources import ENV_CONF
from controller.domain.errors import BadRecord, BallastError, ConfigError

OK, PROBLEM, USAGE = 0, 1, 2
CHATTY = ("kafka", "httpx", "controller.bus.producer")

Conf = Annotated[Path | None, typer.Option("--conf", help=f"Configuration file; else ${ENV_CONF}.", show_default=False)]
Profile = Annotated[str | None, typer.Option("--profile", help="Configuration profile.", show_default=False)]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="section.key=value over everything else.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Why = Annotated[str, typer.Option("--why", help="The reason, kept in the journal.", show_default=False)]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for the journal's answer.", min=0.1)]
Limit = Annotated[int, typer.Option("--limit", help="At most so many rows.", min=1)]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def settings_of(conf: Path | None, profile: str | None, sets: list[str] | None) -> Settings:
    """The effective settings of a command. Raises ConfigError."""
    return load_settings(conf, profile, sets or [])


def told(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """A command whose refusals become one line on stderr and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for library in CHATTY:
            logging.getLogger(library).setLevel(logging.CRITICAL)  # what failed is said once, by the command
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:
            raise  # whoever read our output has enough (`| head`): the end, and nothing to tell
        except (BallastError, DeltaError, OSError) as error:
            raise refused(error) from None

    return wrapped


def refused(error: Exception) -> typer.Exit:
    """Say what was refused; returns the exit to raise."""
    text = error.text if isinstance(error, BadRecord) else str(error)
    typer.echo(f"ballast: {' '.join(text.split())}", err=True)
    return typer.Exit(USAGE if isinstance(error, ConfigError | BadRecord) else PROBLEM)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does: with the processes that it has started, and keeping what is finished."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def new_app(help_text: str = "") -> typer.Typer:
    """An app without shell-completion options: they would hide the few that matter."""
    return _plain(help_text or None)


def _plain(help_text: str | None, no_args_is_help: bool = False) -> typer.Typer:
    """Tracebacks are Python's own: typer's can show the values of variables, passwords among them."""
    return typer.Typer(
        add_completion=False,
        help=help_text,
        no_args_is_help=no_args_is_help,
        pretty_exceptions_enable=False,
        pretty_exceptions_show_locals=False,
        rich_markup_mode=None,
    )


def new_group(help_text: str) -> typer.Typer:
    """An app of several sub-commands, as in `ballast topic create`."""
    app = _plain(help_text, no_args_is_help=True)

    @app.callback()
    def group() -> None:
        """Keeps the sub-command's name even when there is only one."""

    group.__doc__ = None
    app.info.help = help_text
    return app
