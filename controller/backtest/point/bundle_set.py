"""The bundles of a replay: those of the recording, and the halves of what the replay has split.

A half is a share of a recorded bundle: it carries that share of everything its root is recorded with. The recording
does not know single topics, so the shares go by the width of the hash ranges. When the recording shows the root no
longer, the halves are gone with it.
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
    """U rows: first the N recorded bundles, then halves in the order in which they came to be."""

    def __init__(self, names: Sequence[str]) -> None:
        self.recorded = len(names)
        self.names = list(names)
        self.root: Ints = np.arange(len(names))  # [U] the recorded bundle
        self.share: Floats = np.ones(len(names))  # [U] of the root
        self.owner: Ints = np.full(len(names), NOBODY, np.int64)  # [U] index into brokers; kept while it is not there
        self.moved_at_ms: Ints = np.zeros(len(names), np.int64)  # [U]
        self.epoch: Ints = np.ones(len(names), np.int64)  # [U]
        self.split: Mask = np.zeros(len(names), bool)  # [U] its halves are there instead
        self.there: Mask = np.zeros(len(names), bool)  # [U]
        self._listed: tuple[Ints, tuple[str, ...]] | None = None
        self._counted: tuple[Ints, Mapping[str, int]] | None = None  # of these rows

    def show(self, recorded: Mask) -> None:
        """From now on these recorded bundles [N] are there. Halves yield to a recorded bundle of the same name."""
        if len(self.names) == self.recorded:
            there = recorded & ~self.split
        else:
            there = recorded[self.root] & ~self.split
            shown = {self.names[at] for at in np.flatnonzero(there[: self.recorded]).tolist()}
            for at in range(self.recorded, len(self.names)):
                there[at] = there[at] and self.names[at] not in shown
        if not np.array_equal(there, self.there):
            self.there, self._listed = there, None

    def listed(self) -> tuple[Ints, tuple[str, ...]]:
        """Rows of the bundles that are there and their names, in order of name."""
        if self._listed is None:
            rows = np.flatnonzero(self.there)
            if len(self.names) > self.recorded:
                rows = np.array(sorted(rows.tolist(), key=self.names.__getitem__), np.int64)
            self._listed = rows, tuple(map(self.names.__getitem__, rows.tolist()))
        return self._listed

    def namespaces(self) -> Mapping[str, int]:
        """Namespace -> how many of its bundles are there."""
        rows, names = self.listed()
        if self._counted is None or self._counted[0] is not rows:
            self._counted = rows, namespace_counts(names)
        return self._counted[1]

    def row_of(self, name: str) -> int | None:
        """The row of a bundle that is there."""
        rows, names = self.listed()
        at = _index(names).get(name)
        return None if at is None else int(rows[at])

    def cut(self, row: int, boundary: int | None) -> tuple[int, int] | None:
        """Replace the bundle by its two halves, lower first; None where its range cannot be cut there."""
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
        """Namespace -> those of the rows that are its bundles."""
        result: dict[str, list[int]] = {}
        for row in rows.tolist():
            result.setdefault(namespace_of_bundle(self.names[row]), []).append(row)
        return result

    def ancestor(self, row: int, among: Sequence[int]) -> int | None:
        """Of some rows the one whose range holds the middle of this bundle's: what it was cut out of."""
        bundle = range_of(self.names[row])
        if bundle is None:
            return None
        return next((at for at in among if at != row and _holds(self.names[at], bundle)), None)


def namespace_counts(names: tuple[str, ...]) -> Mapping[str, int]:
    """Bundles of every namespace."""
    spaces, codes = namespaces_of(names)
    return dict(zip(spaces, np.bincount(codes, minlength=len(spaces)).tolist(), strict=True))


@lru_cache(maxsize=4)
def _index(names: tuple[str, ...]) -> Mapping[str, int]:
    return {name: at for at, name in enumerate(names)}


def _holds(name: str, inner: Bundle) -> bool:
    outer = range_of(name)
    return outer is not None and outer.namespace == inner.namespace and outer.contains(inner.middle())
