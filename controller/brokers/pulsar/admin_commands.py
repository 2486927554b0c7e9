"""The `pulsar-admin` command that does what a decision says (Pulsar 4.0: CmdNamespaces)."""

from __future__ import annotations

import shlex

from controller.domain.ids import Bundle

UNLOAD = "pulsar-admin namespaces unload"
SPLIT = "pulsar-admin namespaces split-bundle"


def unload_command(bundle: Bundle, target: str | None) -> str:
    """Unload a bundle; its next owner is `target`, or whom Pulsar chooses."""
    to = ["--destinationBroker", target] if target is not None else []
    return shlex.join([*UNLOAD.split(), "--bundle", _range(bundle), *to, bundle.namespace])


def split_command(bundle: Bundle, boundary: int | None) -> str:
    """Split a bundle at a hash, or in the middle of its range; both parts stay where they are."""
    how = ["range_equally_divide"]
    if boundary is not None:
        how = ["specified_positions_divide", "--split-boundaries", str(boundary)]
    return shlex.join([*SPLIT.split(), "--bundle", _range(bundle), "--split-algorithm-name", *how, bundle.namespace])


def _range(bundle: Bundle) -> str:
    return str(bundle).rpartition("/")[2]
