"""Where the replay puts bundles without an owner: the controller's own placement, based on what the replay knows.

Every step that needs one creates its own `Placing`, which also counts the bundles placed in this step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

import numpy as np

from controller.backtest.recording.prepared import Mask
from controller.backtest.recording.recording import Floats
from controller.domain.holdings import Holdings
from controller.domain.settings.placement import PlacementSettings
from controller.domain.settings.policy import PolicySettings
from controller.policy.placement.assignment import Assigner
from controller.policy.placement.assignment_rules import AssignmentRules
from controller.policy.view.frame import namespace_of_bundle

_NO_RULES = PlacementSettings()


class Placing:
    """Chooses a broker among those that are present."""

    def __init__(
        self, brokers: tuple[str, ...], there: Mask, scores: Floats, held: Mapping[str, int], settings: PolicySettings
    ) -> None:
        """`there` and `scores` are by index of the broker. `held`: bundle -> index of its owner."""
        self._names = brokers
        self._index = {name: at for at, name in enumerate(brokers)}
        self._counts = _Counts()
        for bundle, at in held.items():
            self._counts.note(namespace_of_bundle(bundle), brokers[at])
        eligible = {brokers[at]: float(scores[at]) for at in np.flatnonzero(there).tolist()}
        limits = None
        if settings.placement != _NO_RULES or settings.caps.max_bundles is not None:
            versions = dict.fromkeys(eligible)  # recordings have no versions
            limits = AssignmentRules(settings.placement, settings.caps.max_bundles, versions, lambda: self._counts)
        self._placement = Assigner(lambda: self._counts, eligible, limits)

    def choose(self, bundle: str, barred: Set[str] = frozenset()) -> int | None:
        """The index of the broker that receives the bundle, or None if none may."""
        found = self._placement.choose(namespace_of_bundle(bundle), barred)
        return None if found is None else self._index[found]

    def note(self, bundle: str, target: int) -> None:
        """Count the bundle at its new broker."""
        namespace, broker = namespace_of_bundle(bundle), self._names[target]
        self._counts.note(namespace, broker)
        self._placement.note_move(namespace, None, broker)


class _Counts(Holdings):
    """The two counts that placement needs, without sessions."""

    __slots__ = ("_by_broker", "_by_space")

    def __init__(self) -> None:
        super().__init__()
        self._by_broker: Counter[str] = Counter()
        self._by_space: dict[str, Counter[str]] = {}

    def note(self, namespace: str, broker: str) -> None:
        """Count one more bundle."""
        self._by_broker[broker] += 1
        self._by_space.setdefault(namespace, Counter())[broker] += 1

    def total(self, broker: str) -> int:
        return self._by_broker[broker]

    def spread(self, namespace: str) -> Mapping[str, int]:
        return self._by_space.get(namespace, {})
