"""The HTTP endpoints of job and agents: where they listen, and who may ask them. Clients show what the keys name."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from controller.config.definition import DESIGN, Section, key
from controller.config.sections.control import Names
from controller.process.access.endpoints import OPENABLE


def _endpoints(names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = next((name for name in names if name not in OPENABLE), None)
    if unknown is not None:
        raise ValueError(f"{unknown!r} cannot be opened")
    return names


Endpoints = Annotated[Names, AfterValidator(_endpoints)]


class Http(Section):
    """Endpoints of agents (lookups, health, metrics) and job (health, metrics), and who may ask (docs/security.md)."""

    bind_host: str = key(
        "127.0.0.1",
        "Address at which the job serves health and metrics; that of agents is agent.bind_host.",
        source="nothing is opened to the network by default",
        pattern=r"^\S+$",
        allowed="a host name or address",
    )
    job_port: int = key(0, "Port of the job; 0 takes a free one and logs it.", source=DESIGN, lo=0, hi=65_535)
    agent_port: int = key(
        0,
        "Port of each agent (lookup, health, metrics); 0 takes a free one and registers it.",
        source=DESIGN,
        lo=0,
        hi=65_535,
    )
    token_file: str | None = key(
        None,
        "File of bearer tokens, one a line: servers accept each, clients send the first. It is read again when it "
        "changes.",
        source=DESIGN,
        allowed="a path",
        is_path=True,
    )
    tls_certificate: str | None = key(
        None,
        "Certificate (PEM) that servers show, and clients to servers that demand one; renewed without a restart. With "
        "it, agents and job serve HTTPS.",
        source=DESIGN,
        allowed="a path",
        is_path=True,
    )
    tls_key: str | None = key(
        None, "Key of that certificate (PEM), without a passphrase.", source=DESIGN, allowed="a path", is_path=True
    )
    client_authority: str | None = key(
        None,
        "Certificates (PEM) of the authority of clients: servers demand a client certificate that it signed.",
        source=DESIGN,
        allowed="a path",
        is_path=True,
    )
    server_authority: str | None = key(
        None,
        "Certificates (PEM) that clients check servers against; empty: client_authority, or without it those that the "
        "system trusts.",
        source=DESIGN,
        allowed="a path",
        is_path=True,
    )
    open: Endpoints = key(
        (),
        "Endpoints that need neither token nor client certificate, for scrapers and probes.",
        source=DESIGN,
        allowed="a list of: health, metrics",
    )
    allow_unauthenticated: bool = key(
        False,
        "Listen beyond loopback without token and mutual TLS, where the network itself keeps others out.",
        source="nothing is opened to the network by default",
    )
