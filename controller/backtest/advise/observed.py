"""The input of a round from a recording: who owns what as brokers reported it, and the averages of a window. Pure.

There is no journal. A broker is registered and alive while it was heard in one of the last `REMEMBERED` windows; a
bundle belongs to the broker that reported it last. A change of owner within the recording counts as a move at that
time, so grace periods hold for what Pulsar or an operator has moved.
"""

from __future__ import annotations

import numpy as np

from controller.backtest.recording.recording import NOBODY, Ints, Recording
from controller.domain.ids import Bundle, Session
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.ownership import Ownership, State
from controller.domain.state import SHADOW, Broker, ClusterState
from controller.policy.placement.constraints import MIN_REPORTS
from controller.policy.view.frame import LATENCIES
from controller.policy.view.tabulate import Columns

REMEMBERED = 5
NONCE = "observed"


class ObservedOwners:
    """Owners of a growing recording, step after step."""

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}
        self._moved: dict[str, tuple[int, int]] = {}  # bundle -> number of moves, time of the last
        self._until_ms = 0

    def follow(self, recording: Recording, last: int) -> None:
        """Take in the steps up to `last` that have not been seen yet."""
        for step in np.flatnonzero(recording.at_ms[: last + 1] > self._until_ms).tolist():
            held = np.flatnonzero(recording.owner[step] != NOBODY)
            for at, by in zip(held.tolist(), recording.owner[step, held].tolist(), strict=True):
                bundle, broker = recording.bundles[at], recording.brokers[by]
                before = self._owner.get(bundle)
                if before != broker:
                    self._owner[bundle] = broker
                    if before is not None:
                        moves, _ = self._moved.get(bundle, (0, 0))
                        self._moved[bundle] = moves + 1, int(recording.at_ms[step])
        self._until_ms = int(recording.at_ms[last])

    def state(self, recording: Recording, first: int, last: int) -> ClusterState:
        """The cluster's state at the end of a window of steps; `follow` has seen them."""
        state = ClusterState(mode=SHADOW)
        heard = recording.member[max(0, last + 1 - REMEMBERED * (last + 1 - first)) : last + 1].any(axis=0)
        for at in np.flatnonzero(heard).tolist():
            session = Session(recording.brokers[at], 1, NONCE, 1)
            state.brokers[session.broker] = Broker(session.broker, session, {"runtime": "pulsar"})
            state.sessions[session] = 1
        shown = np.flatnonzero((recording.owner[first : last + 1] != NOBODY).any(axis=0))
        for bundle in (recording.bundles[at] for at in shown.tolist()):
            owner = state.session_of(self._owner[bundle])
            moves, moved_at_ms = self._moved.get(bundle, (0, 0))
            if owner is not None:
                parsed = Bundle.parse(bundle)
                state.put(Ownership(parsed, State.OWNED, 1 + moves, by=owner, moved_at_ms=moved_at_ms))
        return state


def broker_columns(recording: Recording, first: int, last: int) -> Columns:
    """Averages of the brokers heard in a window of steps, as `ledger.loads.average_brokers` gives them.

    Pulsar's figures are averages already, so each counts as the reports that a round asks for at least.
    """
    window = slice(first, last + 1)
    member = recording.member[window]
    heard = np.flatnonzero(member.any(axis=0))
    counts = member.sum(axis=0)[heard]
    newest = last - np.argmax(member[::-1], axis=0)[heard]
    columns = {
        "broker": np.array(recording.brokers, object)[heard],
        "incarnation": np.ones(len(heard), np.int64),
        "reports": counts * MIN_REPORTS,
        "last_event_ms": recording.at_ms[newest] - 1,
    }
    with np.errstate(invalid="ignore"):
        for at, resource in enumerate(RESOURCES):
            columns[f"{resource}_usage"] = _mean(recording.usage[window, heard, at])
            columns[f"{resource}_limit"] = _mean(recording.limit[window, heard, at])
        for at, name in enumerate(LATENCIES):
            columns[name] = _mean(recording.latency[window, heard, at])
        totals = np.where(member[:, :, None], recording.totals[window], 0.0).sum(axis=0)[heard] / counts[:, None]
    return columns | {name: totals[:, at] for at, name in enumerate(BUNDLE_FIELDS)}


def bundle_columns(recording: Recording, first: int, last: int) -> Columns:
    """Averages of the bundles in a window of steps, a row for each broker that reported one."""
    owner = recording.owner[first : last + 1]
    step, bundle = np.nonzero(owner != NOBODY)
    pair = bundle * len(recording.brokers) + owner[step, bundle]
    pairs, row, reports = np.unique(pair, return_inverse=True, return_counts=True)
    sums = np.zeros((len(pairs), len(BUNDLE_FIELDS)))
    np.add.at(sums, row, recording.fields[first : last + 1][step, bundle].astype(np.float64))
    columns: dict[str, np.ndarray] = {
        "bundle": np.array(recording.bundles, object)[pairs // len(recording.brokers)],
        "broker": np.array(recording.brokers, object)[pairs % len(recording.brokers)],
        "reports": reports * MIN_REPORTS,
    }
    return columns | {name: sums[:, at] / reports for at, name in enumerate(BUNDLE_FIELDS)}


def window_start(at_ms: Ints, last: int, horizon_ms: int) -> int:
    """The first step of the window that ends with step `last`."""
    return int(np.searchsorted(at_ms[: last + 1], at_ms[last] - horizon_ms, side="right"))


def _mean(values: np.ndarray) -> np.ndarray:
    """[columns] mean of the known values of each, NaN without any."""
    known = np.isfinite(values)
    return np.asarray(np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0))
