"""Whether a host to listen on is this machine's loopback alone."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable


def resolve(host: str) -> list[str]:
    """The addresses of a host as the system resolves it to listen on. Raises OSError."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def is_loopback(host: str, resolve: Callable[[str], Iterable[str]] = resolve) -> bool:
    """Whether every address that the host stands for is loopback; False for a host that cannot be resolved.

    Names are resolved, `localhost` too, because what counts is the address that is listened on.
    """
    if not host:
        return False  # every interface
    try:
        addresses = list(resolve(host))
    except (OSError, UnicodeError):  # UnicodeError: no name at all, such as one with an empty label
        return False
    return bool(addresses) and all(map(_is_loopback_address, addresses))


def _is_loopback_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
