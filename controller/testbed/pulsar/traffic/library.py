"""pulsar-client, imported when a program needs it; and how a program connects. It is an optional dependency."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

from controller.testbed.pulsar.spec import PulsarFailed

OPERATION_TIMEOUT_S = 30


def import_pulsar() -> Any:
    """The module `pulsar`. Raises PulsarFailed where pulsar-client is not installed."""
    try:
        return importlib.import_module("pulsar")
    except ImportError as error:
        raise PulsarFailed(
            f"traffic needs pulsar-client, which cannot be imported ({error}): run `make setup`, or"
            " `pip install pulsar-client`"
        ) from None


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Where to connect, and as whom. Secrets are in files, so that no process list shows them."""
    parser.add_argument("--service-url", required=True, help="pulsar:// or pulsar+ssl:// address of the brokers")
    parser.add_argument("--authority", type=Path, help="PEM file with the certificate of the authority")
    parser.add_argument("--token", type=Path, help="file with a token")
    parser.add_argument("--certificate", type=Path, help="PEM file with the client's certificate")
    parser.add_argument("--key", type=Path, help="PEM file with the key of that certificate")


def connect(pulsar: Any, options: argparse.Namespace) -> Any:
    """A client with these options."""
    authentication = None
    if options.token is not None:
        authentication = pulsar.AuthenticationToken(lambda: options.token.read_text().strip())
    elif options.certificate is not None:
        authentication = pulsar.AuthenticationTLS(str(options.certificate), str(options.key))
    return pulsar.Client(
        options.service_url,
        authentication=authentication,
        operation_timeout_seconds=OPERATION_TIMEOUT_S,
        io_threads=1,
        message_listener_threads=1,
        tls_trust_certs_file_path=str(options.authority) if options.authority else None,
        tls_validate_hostname=options.authority is not None,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn),
    )
