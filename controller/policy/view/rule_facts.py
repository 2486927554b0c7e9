"""What the rules of placement ask of the journal beside a frame's rows: exact counts, also of what nobody reports yet.

Reckoned only for what is configured, and stored with the frame, so that a replay needs no more. A grant under way
counts for its grantee, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """[B] each, in the order of the frame's brokers; None: not asked for.

    `held`: bundles. `versions`: as brokers registered them, "" unknown. `spread`: bundles of a namespace.
    """

    held: tuple[int, ...] | None = None
    versions: tuple[str, ...] | None = None
    spread: Mapping[str, tuple[int, ...]] | None = None

    def to_json(self) -> dict[str, Any]:
        """Only what was asked for."""
        told: dict[str, Any] = {}
        if self.held is not None:
            told["held"] = list(self.held)
        if self.versions is not None:
            told["versions"] = list(self.versions)
        if self.spread is not None:
            told["spread"] = {namespace: list(counts) for namespace, counts in sorted(self.spread.items())}
        return told

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RuleFacts:
        """What `to_json` gave."""
        spread = stored.get("spread")
        return cls(
            tuple(stored["held"]) if "held" in stored else None,
            tuple(stored["versions"]) if "versions" in stored else None,
            {namespace: tuple(counts) for namespace, counts in spread.items()} if spread is not None else None,
        )
