"""The bundles of a replay: those of the recording, and the halves of bundles that the replay has split.

A half carries a share of everything recorded for its root bundle. The recording does not know single topics, so shares
follow the width of the hash ranges. When the root disappears from the recording, its halves disappear with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from controller.backtest.recording.recording import NOBODY, Floats, Ints
from controller.domain.ids import RING_END, Bundle
from controller.policy.split import range_of
from controller.policy.view.frame import namespace_of_bundle, namespaces_of

Mask = NDArray[np.bool_]


class BundleSet:
    """U rows: the N recorded bundles, then halves in the order of their creation."""

    def __init__(self, names: Sequence[str]) -> None:
        self.recorded = len(names)
        self.names = list(names)
        self.root: Ints = np.arange(len(names))  # [U] the recorded bundle
        self.share: Floats = np.ones(len(names))  # [U] of the root
        self.owner: Ints = np.full(len(names), NOBODY, np.int64)  # [U] index into brokers; kept while it is absent
        self.moved_at_ms: Ints = np.zeros(len(names), np.int64)  # [U]
        self.epoch: Ints = np.ones(len(names), np.int64)  # [U]
        self.split: Mask = np.zeros(len(names), bool)  # [U] replaced by its halves
        self.there: Mask = np.zeros(len(names), bool)  # [U]
        self._listed: tuple[Ints, tuple[str, ...]] | None = None
        self._counted: tuple[Ints, Mapping[str, int]] | None = None  # of these rows

    def show(self, recorded: Mask) -> None:
        """Make these recorded bundles [N] present. Halves give way to a recorded bundle of the same name."""
        if len(self.names) == self.recorded:
            there = recorded & ~self.split
        else:
            there = recorded[self.root] & ~self.split
            shown = {self.names[at] for at in np.flatnonzero(there[: self.recorded]).tolist()}
            for at in range(self.recorded, len(self.names)):
                there[at] = there[at] and self.names[at] not in shown
        if not np.array_equal(there, self.there):
            self.there, self._listed = there, None

    def present(self) -> tuple[Ints, tuple[str, ...]]:
        """The rows and names of the bundles that are present, ordered by name."""
        if self._listed is None:
            rows = np.flatnonzero(self.there)
            if len(self.names) > self.recorded:
                rows = np.array(sorted(rows.tolist(), key=self.names.__getitem__), np.int64)
            self._listed = rows, tuple(map(self.names.__getitem__, rows.tolist()))
        return self._listed

    def namespaces(self) -> Mapping[str, int]:
        """Namespace -> number of its bundles that are present."""
        rows, names = self.present()
        if self._counted is None or self._counted[0] is not rows:
            self._counted = rows, namespace_counts(names)
        return self._counted[1]

    def row_of(self, name: str) -> int | None:
        """The row of a bundle; None if it is not present."""
        rows, names = self.present()
        at = _index(names).get(name)
        return None if at is None else int(rows[at])

    def split_at(self, row: int, boundary: int | None) -> tuple[int, int] | None:
        """Replace a bundle by its halves; return their rows, lower half first, or None if it cannot be split there."""
        bundle = range_of(self.names[row])
        if bundle is None or boundary is None or not bundle.lower < boundary < bundle.upper:
            return None
        part = (boundary - bundle.lower) / (bundle.upper + (bundle.upper == RING_END) - bundle.lower)
        halves = bundle.split_at(boundary)
        self.names += map(str, halves)
        self.root = np.append(self.root, [self.root[row]] * 2)
        self.share = np.append(self.share, self.share[row] * np.array([part, 1.0 - part]))
        self.owner = np.append(self.owner, [self.owner[row]] * 2)
        self.moved_at_ms = np.append(self.moved_at_ms, [self.moved_at_ms[row]] * 2)
        self.epoch = np.append(self.epoch, [self.epoch[row] + 1] * 2)
        self.split = np.append(self.split, [False, False])
        self.there = np.append(self.there, [True, True])
        self.split[row], self.there[row], self._listed = True, False, None
        return len(self.names) - 2, len(self.names) - 1

    def by_namespace(self, rows: Ints) -> Mapping[str, Sequence[int]]:
        """Group rows by namespace."""
        result: dict[str, list[int]] = {}
        for row in rows.tolist():
            result.setdefault(namespace_of_bundle(self.names[row]), []).append(row)
        return result

    def ancestor(self, row: int, among: Sequence[int]) -> int | None:
        """The row among `among` whose range contains the middle of this bundle: the bundle it was split from."""
        bundle = range_of(self.names[row])
        if bundle is None:
            return None
        return next((at for at in among if at != row and _holds(self.names[at], bundle)), None)


def namespace_counts(names: tuple[str, ...]) -> Mapping[str, int]:
    """The number of bundles of every namespace."""
    spaces, codes = namespaces_of(names)
    return dict(zip(spaces, np.bincount(codes, minlength=len(spaces)).tolist(), strict=True))


@lru_cache(maxsize=4)
def _index(names: tuple[str, ...]) -> Mapping[str, int]:
    return {name: at for at, name in enumerate(names)}


def _holds(name: str, inner: Bundle) -> bool:
    outer = range_of(name)
    return outer is not None and outer.namespace == inner.namespace and outer.contains(inner.middle())
