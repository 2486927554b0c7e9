"""Options of the commands that talk to a Pulsar cluster, once for all of them.

`Connection` lists the options; each of the cluster's sets a key of the section `pulsar_cluster`. A command takes a
`Connection` as its first parameter, and `takes_connection` shows typer the options in its place.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer

from controller.cli.options import Conf, Profile, Sets, settings_of
from controller.config.settings import Settings
from controller.pulsar.address import check_web_address

_T = TypeVar("_T")
_P = ParamSpec("_P")

ServiceUrl = Annotated[
    str | None,
    typer.Option(
        "--service-url", help="Web service address of the cluster, or several separated by commas.",
        metavar="URL[,URL]", show_default=False,
    ),
]  # fmt: skip
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="File with a token of a super-user.", show_default=False)
]
TlsCaFile = Annotated[
    Path | None, typer.Option("--tls-ca-file", help="Certificate authority of the brokers.", show_default=False)
]
TlsCertFile = Annotated[
    Path | None, typer.Option("--tls-cert-file", help="Client certificate, for mutual TLS.", show_default=False)
]
TlsKeyFile = Annotated[
    Path | None, typer.Option("--tls-key-file", help="Key of the client certificate.", show_default=False)
]
OAuth2KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--oauth2-key-file", help="OAuth2 client credentials; other OAuth2 keys by --set.", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class Connection:
    """What was given to reach a cluster, and the configuration around it."""

    service_url: ServiceUrl = None
    token_file: TokenFile = None
    tls_ca_file: TlsCaFile = None
    tls_cert_file: TlsCertFile = None
    tls_key_file: TlsKeyFile = None
    oauth2_key_file: OAuth2KeyFile = None
    conf: Conf = None
    profile: Profile = None
    sets: Sets = None

    def settings(self, *chosen: str) -> Settings:
        """The effective settings. `chosen`: more overrides, `section.key=value`. Raises ConfigError."""
        urls = [check_web_address(url) for url in (self.service_url or "").split(",") if url.strip()]
        given = [f"pulsar_cluster.service_urls={','.join(urls)}"] if urls else []
        for name in ("token_file", "tls_ca_file", "tls_cert_file", "tls_key_file", "oauth2_key_file"):
            path: Path | None = getattr(self, name)
            given += [f"pulsar_cluster.{name}={path.expanduser().absolute()}"] if path else []
        return settings_of(self.conf, self.profile, [*(self.sets or []), *chosen, *given])


def takes_connection(command: Callable[Concatenate[Connection, _P], _T]) -> Callable[..., _T]:
    """A command that has the options of `Connection` behind its own, and gets them as its first argument.

    typer reads the signature of a command and has no groups of options.
    """
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    shared = inspect.signature(Connection, eval_str=True).parameters

    @functools.wraps(command)
    def wrapped(**given: Any) -> _T:
        connection = Connection(**{name: given.pop(name) for name in shared if name in given})
        return command(connection, **given)  # type: ignore[call-arg]

    wrapped.__signature__ = inspect.Signature([*own, *shared.values()])  # type: ignore[attr-defined]
    return wrapped


def run_until_stopped(work: Coroutine[Any, Any, _T], stop: asyncio.Event) -> _T:
    """Run a coroutine; the first SIGTERM or Ctrl-C sets `stop`, the second ends the process."""

    async def run() -> _T:
        with _stop_on_signals(stop):
            return await work

    return asyncio.run(run())


@contextmanager
def _stop_on_signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def on_signal() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
