"""Options of the commands that talk to a Pulsar cluster. Each sets a key of the section `pulsar_cluster`."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from controller.cli.options import settings_of
from controller.config.settings import Settings
from controller.domain.pulsar_address import check_web_address

_T = TypeVar("_T")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}

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


def duration(text: str | float) -> float:
    """Seconds of `10s`, `5m`, `1h`, `2d`, or of a plain number; typer parses an option's default as well."""
    match = _DURATION.fullmatch(str(text).strip())
    seconds = float(match[1]) * _SECONDS[match[2] or "s"] if match else 0.0
    if seconds <= 0:
        raise typer.BadParameter(f"{text!r} is no duration above 0: give one such as 10s, 5m or 1h")
    return seconds


def cluster_settings(
    conf: Path | None, profile: str | None, sets: list[str] | None, service_url: str | None, **files: Path | None
) -> Settings:
    """The effective settings; `files` are options with a path, by the name of their key. Raises ConfigError."""
    urls = [check_web_address(url) for url in (service_url or "").split(",") if url.strip()]
    given = [f"pulsar_cluster.service_urls={','.join(urls)}"] if urls else []
    given += [f"pulsar_cluster.{name}={path.expanduser().absolute()}" for name, path in files.items() if path]
    return settings_of(conf, profile, [*(sets or []), *given])


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
