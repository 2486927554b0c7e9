"""The frame that a round of the replay reads: that of its window, as the job would have it from its tables.

Everything recorded is quantised already; only the sums by owner are new in each round. A broker that reported nothing
in the window is there but unheard, and nothing is known of its bundles.
"""

from __future__ import annotations

import numpy as np

from controller.backtest.point.bundle_set import BundleSet, namespace_counts
from controller.backtest.recording.prepared import Prepared
from controller.backtest.recording.recording import Floats
from controller.domain.load import BUNDLE_FIELDS, FIELD_SCALES, RESOURCE_SCALES, UNKNOWN
from controller.domain.state import LIVE
from controller.policy.view.frame import NOBODY, OWNED, Frame, Ints
from controller.policy.view.tabulate import quantise

REPORTS = 12  # a window counts as fully reported when anything was: recordings often have one report a step
NEWEST_REPORT_MS = 1_000  # before the round
_SCALES = np.array(RESOURCE_SCALES, np.float64)
assert len(FIELD_SCALES) == len(BUNDLE_FIELDS)


class Frames:
    """Frames of one replay, round after round."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        joined = np.diff(prepared.member.astype(np.int64), axis=0, prepend=0) == 1
        self._incarnation = np.maximum(np.cumsum(joined, axis=0), 1)  # [S x B] another process after each absence

    def frame(self, round_: int, bundles: BundleSet, owner: Ints) -> Frame:
        """The frame of a round; `owner` [U] as `ReplayWorld.owners_at` gives it."""
        prepared = self._prepared
        step = int(prepared.round_step[round_])
        at_ms = int(prepared.at_ms[step])
        heard = prepared.round_heard[round_]
        members = np.flatnonzero(prepared.member[step])
        rows, names = bundles.present()
        known = np.append(heard, False)[owner[rows]]
        if not known.all():
            rows, names = rows[known], tuple(name for name, kept in zip(names, known.tolist(), strict=True) if kept)
        held = owner[rows]
        fields, cost = self._figures(round_, bundles, rows)
        usage = prepared.round_base[round_] + sums(held, cost, len(heard), prepared.used_resources)
        totals = prepared.round_tail[round_] + sums(held, fields, len(heard), prepared.used_fields).astype(np.int64)
        usage[~heard], totals[~heard] = np.nan, 0
        place = np.full(len(heard), NOBODY, np.int64)
        place[members] = np.arange(len(members))
        owner_here = place[held]
        return Frame.of(
            at_ms,
            LIVE,
            prepared.brokers if len(members) == len(heard) else tuple(prepared.brokers[at] for at in members),
            names,
            broker={
                "incarnation": self._incarnation[step, members],
                "registered": 1,
                "alive": 1,
                "reports": np.where(heard[members], REPORTS, 0),
                "last_event_ms": np.where(heard[members], at_ms - NEWEST_REPORT_MS, 0),
            },
            bundle={
                "owner": owner_here,
                "status": OWNED,
                "epoch": bundles.epoch[rows],
                "moved_at_ms": bundles.moved_at_ms[rows],
            },
            row={"bundle": np.arange(len(rows)), "reporter": owner_here, "reports": REPORTS},
            usage=quantise(usage[members], _SCALES, UNKNOWN),
            limit=_limits(prepared.round_limit[round_][members], heard[members]),
            totals=totals[members],
            row_fields=fields,
            latencies=prepared.round_latency[round_][members],
            namespace_bundles=bundles.namespaces() if len(rows) == len(known) else namespace_counts(names),
        )

    def _figures(self, round_: int, bundles: BundleSet, rows: Ints) -> tuple[Ints, Floats]:
        """Fields [n x F] and costs [n x R] of these rows; the recorded arrays themselves where all rows are wanted."""
        fields, cost = self._prepared.round_fields[round_], self._prepared.round_cost[round_]
        if len(rows) == bundles.recorded and len(bundles.names) == bundles.recorded:
            return fields, cost.astype(np.float64)
        root, share = bundles.root[rows], bundles.share[rows, None]
        return np.rint(fields[root] * share).astype(np.int64), cost[root] * share


def sums(owner: Ints, values: np.ndarray, brokers: int, columns: Ints) -> Floats:
    """[B x columns of the values] sums over the bundles of each owner; columns that are not named are 0."""
    result = np.zeros((brokers, values.shape[1]))
    for column in columns.tolist():
        result[:, column] = np.bincount(owner, values[:, column], brokers)
    return result


def _limits(limit: Floats, heard: np.ndarray) -> Ints:
    known = quantise(np.where(heard[:, None], limit, np.nan), _SCALES, UNKNOWN)
    known[known == 0] = UNKNOWN
    return known
