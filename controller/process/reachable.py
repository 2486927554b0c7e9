"""Whether anybody listens at an address: asked before a client is started that would go on trying for a minute."""

from __future__ import annotations

import socket
from collections.abc import Sequence


def why_unreachable(addresses: Sequence[str], timeout_s: float) -> list[str]:
    """Why no address, as HOST:PORT, accepts a connection, one reason for each; empty as soon as one does."""
    reasons = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
            return []
        except (OSError, OverflowError, ValueError) as error:  # no number; a host name with an overlong label
            reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
    return reasons
