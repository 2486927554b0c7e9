"""What the usage model made of a frame (`policy/usage`), as integers, so that a replay needs no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import BadRecord
from controller.domain.load import RESOURCES

Ints = NDArray[np.int64]

BROKER_ESTIMATES = ("cpu_used", "cpu_error", "cpu_base", "speed_permille")
NETWORKS = ("bandwidth_in", "bandwidth_out")
BUNDLE_ESTIMATES = ("cpu_cost", "cpu_error", "lasting_permille", "burst_rounds")
PERMILLE = 1000
# Rounds of earlier versions have none of these.
_OPTIONAL = ("cpu_settled", "cpu_read", "cpu_spike", "network_spike", "base_tested", "held")
_BROKER_COLUMNS = [
    *BROKER_ESTIMATES,
    *(f"{name}_burst" for name in RESOURCES),
    *(f"{name}_correction" for name in NETWORKS),
]


@dataclass(frozen=True, eq=False)
class Estimates:
    """B brokers, N bundles. CPU in thousandths of a percent of a core, errors as standard deviations.

    `cpu_used`: by a broker for the bundles that it owns, base included. `cpu_base`: without any traffic.
    `speed_permille`: what work costs there, PERMILLE at the usual broker. `burst`: [B x R] usage not expected to last.
    `correction`: [B x NETWORKS] what to add to a reading of bandwidth, in bytes/s.
    `cpu_cost`: of a bundle on the usual broker. `lasting_permille`: the part of its load that is expected to last.
    `burst_rounds`: how long its bursts last; 0: it has none.

    `cpu_settled`: [B] of what brokers use, the part for bundles whose last move is long enough ago for another one.
    `cpu_read`: [B] the reading that was believed, 0 without one.
    `cpu_spike`, `network_spike` [B x NETWORKS]: of `burst`, what has come and gone before. `base_tested`: [B]
    whether bundles that left have told what keeps the broker busy, see `usage/departed.py`. `held`: [B] how many
    bundles each owns, of which a stored round names some. None: the round did not ask for any of these.

    `rounds`: so many the model has seen, this one included. `wander_permille`: how far brokers' loads stray from one
    round to the next with nothing moved, as a share of their mean usage.
    """

    brokers: Ints  # [B x BROKER_ESTIMATES]
    burst: Ints  # [B x R]
    correction: Ints  # [B x NETWORKS]
    bundles: Ints  # [N x BUNDLE_ESTIMATES]
    rounds: int = 1
    wander_permille: int = 0
    cpu_settled: Ints | None = None
    cpu_read: Ints | None = None
    cpu_spike: Ints | None = None
    network_spike: Ints | None = None
    base_tested: Ints | None = None
    held: Ints | None = None

    def broker(self, column: str) -> Ints:
        """[B] a column of BROKER_ESTIMATES."""
        return self.brokers[:, BROKER_ESTIMATES.index(column)]

    def bundle(self, column: str) -> Ints:
        """[N] a column of BUNDLE_ESTIMATES."""
        return self.bundles[:, BUNDLE_ESTIMATES.index(column)]

    def select(self, kept: Ints) -> Estimates:
        """Only these bundles."""
        return replace(self, bundles=self.bundles[kept])

    def insert(self, places: Ints) -> Estimates:
        """With bundles of which nothing is known, before these places."""
        unknown = [0, 0, PERMILLE, 0]
        return replace(self, bundles=np.insert(self.bundles, places, unknown, axis=0))

    def to_json(self) -> dict[str, Any]:
        """Columns and rows, in the order of the frame's brokers and bundles."""
        return {
            "rounds": self.rounds,
            "wander_permille": self.wander_permille,
            "broker_columns": list(_BROKER_COLUMNS),
            "brokers": np.hstack([self.brokers, self.burst, self.correction]).tolist(),
            "bundle_columns": list(BUNDLE_ESTIMATES),
            "bundles": self.bundles.tolist(),
            **{name: kept.tolist() for name in _OPTIONAL if (kept := getattr(self, name)) is not None},
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Estimates:
        """Read what `to_json` wrote. Raises BadRecord for columns of another version."""
        wanted = _BROKER_COLUMNS, list(BUNDLE_ESTIMATES)
        found = list(stored["broker_columns"]), list(stored["bundle_columns"])
        if found != wanted:
            raise BadRecord("estimate_columns", f"{found} were stored, this version reads {wanted}")
        ends = np.cumsum([len(BROKER_ESTIMATES), len(RESOURCES)])
        own, burst, correction = np.split(_matrix(stored["brokers"], len(wanted[0])), ends, axis=1)
        bundles = _matrix(stored["bundles"], len(wanted[1]))
        rounds, wander_permille = int(stored["rounds"]), int(stored["wander_permille"])
        optional = {name: np.array(stored[name], np.int64) for name in _OPTIONAL if name in stored}
        return cls(own, burst, correction, bundles, rounds, wander_permille, **optional)


def _matrix(rows: Sequence[Sequence[int]], width: int) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)
