"""What can be done about a bundle that is too big to move: split it, or say what would help, once an hour.

A split needs a bundle that carries at least half of its broker's excess, two topics, two hashes, room below the
namespace's maximum, and splitting switched on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.decision import Reason
from controller.domain.errors import BallastError
from controller.domain.ids import Bundle
from controller.domain.load import BUNDLE_FIELDS
from controller.domain.settings.policy import SplitSettings
from controller.policy.split import unsplittable
from controller.policy.strategies.steady.model import Model
from controller.policy.strategies.steady.pairs import Candidates
from controller.policy.view.frame import namespace_of_bundle
from controller.policy.view.snapshot import Snapshot

AGAIN_MS = 3_600_000
CARRIES = 0.5  # of the excess: a smaller bundle is not what makes its broker hot
_TOPICS = BUNDLE_FIELDS.index("topics")
ADVICE = {
    Reason.UNSPLITTABLE: "a single topic is too hot for any broker: add partitions, or give it a broker of its own",
    Reason.BUNDLE_LIMIT: "the namespace is at its maximum of bundles: raise split.namespace_maximum_bundles",
    Reason.SWITCHED_OFF: "splitting is switched off (split.enabled): cut the bundle by hand with `ballast split`",
}


class Advice:
    """Remembers what was said of which bundle; `memory` is what `to_json` gave the round before."""

    def __init__(self, snapshot: Snapshot, settings: SplitSettings, memory: Mapping[str, Any]) -> None:
        self._snapshot, self._settings = snapshot, settings
        said: Mapping[str, Any] = memory.get("advised", {})
        self._said = {name: int(at) for name, at in said.items() if snapshot.at_ms - int(at) < AGAIN_MS}
        self._splitting: dict[str, int] = {}

    def split(self, model: Model, source: int, found: Candidates, row: int, excess: float) -> int | Reason | None:
        """Where to cut the row's bundle, why it cannot be cut, or None when a cut would not help.

        In the middle of its range: its owner, who knows the topics' loads, puts the boundary where they are parted
        (`domain/even_cut.py`).
        """
        alone = float((found.work[row] * model.rate[source]).max())
        bundle = int(found.bundles[row])
        if alone < CARRIES * excess or alone <= 0:
            return None
        obstacle = self.obstacle(bundle)
        if obstacle is not None:
            return obstacle
        name = self._snapshot.bundles[bundle]
        space = namespace_of_bundle(name)
        self._splitting[space] = self._splitting.get(space, 0) + 1
        return Bundle.parse(name).middle()

    def obstacle(self, bundle: int) -> Reason | None:
        """Why this bundle cannot be cut, if it cannot."""
        name = self._snapshot.bundles[bundle]
        if not self._settings.enabled:
            return Reason.SWITCHED_OFF
        parsed = _parsed(name)
        if parsed is None or unsplittable(parsed, float(self._snapshot.fields[bundle, _TOPICS])):
            return Reason.UNSPLITTABLE
        space = namespace_of_bundle(name)
        held = self._snapshot.frame.namespace_bundles.get(space, 0) + self._splitting.get(space, 0)
        return Reason.BUNDLE_LIMIT if held >= self._settings.namespace_maximum_bundles else None

    def for_bundle(self, bundle: int, reason: Reason) -> dict[str, Any]:
        """The evidence of a bundle that cannot be cut; the advice itself only once an hour."""
        name = self._snapshot.bundles[bundle]
        told: dict[str, Any] = {"too_big": name}
        if name not in self._said and reason in ADVICE:
            self._said[name] = self._snapshot.at_ms
            told["advice"] = ADVICE[reason]
        return told

    def to_json(self) -> dict[str, int]:
        """What was said within the hour."""
        return dict(sorted(self._said.items()))


def _parsed(name: str) -> Bundle | None:
    """None for a name that is no range, as `ballast decide` may get."""
    try:
        return Bundle.parse(name)
    except (BallastError, ValueError):
        return None
