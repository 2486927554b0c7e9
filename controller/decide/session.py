"""What `ballast decide` keeps between two lines, and the decisions of one line.

A line is a moment of the whole cluster as its brokers report it. It becomes the same `Frame` that a round of the job
reads from its tables, though without a journal, and the same plan is made of it. Kept between lines:

- what was learned of brokers and bundles (`policy/usage`)
- the strategy's own memory (rolling averages, hits, plans), as the journal would keep it
- moves decided and not seen yet: for a few minutes they count as under way, as reports may be older than the move; a
  move counts as carried out, at the time of its decision, once a line shows it
- when bundles moved, for their grace period
- names and their order: while the bundles stay the same, a line costs no sorting
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from controller.decide.line import BUNDLE_FIGURES, Line
from controller.decide.names import Names
from controller.domain.decision import Decision, DecisionKind
from controller.domain.errors import BadRecord
from controller.domain.load import BUNDLE_FIELDS, FIELD_SCALES, RESOURCE_SCALES, RESOURCES, UNKNOWN
from controller.domain.settings.policy import MIB, PolicySettings
from controller.domain.state import LIVE
from controller.policy.placement.constraints import MIN_REPORTS
from controller.policy.plan import make_plan
from controller.policy.strategies import get
from controller.policy.strategies.weighted.target_choice import PARTITION
from controller.policy.usage.model import UsageModel
from controller.policy.usage.observe import observe
from controller.policy.view.frame import MOVING, OWNED, Frame, Ints
from controller.policy.view.snapshot import Snapshot, from_frame
from controller.policy.view.tabulate import quantise

REPORTS = 6 * MIN_REPORTS  # a line covers a whole window: as many reports as a minute has
UNDERWAY_MS = 180_000  # brokers report once a minute (Pulsar's shortest interval); a report or two may be lost
MOST_AHEAD_MS = 24 * 3_600_000  # of the line before
HARDLY_ANY = 0.25  # of a broker's bundles
EPOCH = 1  # nobody else decides between two lines, so every decision is made on the newest epoch
SMALLEST_MEMORY_BYTES = 1e6  # a smaller limit of memory is in MiB, as Pulsar's brokers report it
LARGEST_SUM = 2.0**61  # in quantised units
_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
_FIGURE_FIELDS = ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out", "topics", "producers", "consumers")
_FIGURE_SCALES = [float(FIELD_SCALES[_F[name]]) for name in _FIGURE_FIELDS]
_MEMORY = [RESOURCES.index("memory"), RESOURCES.index("direct_memory")]
assert len(_FIGURE_FIELDS) == len(BUNDLE_FIGURES)


class Underway(NamedTuple):
    """A move that was decided and that no line has shown yet. `target` None: to any other broker."""

    source: str
    target: str | None
    at_ms: int


class DecideSession:
    """One strategy's rounds over a stream of lines. `snapshot` then `decide`, once each for every line."""

    def __init__(self, strategy: str, settings: PolicySettings) -> None:
        self._strategy = get(strategy).name
        self._settings = settings
        self._doubted_ms: int | None = None  # the time of the line before, if it was refused for that
        self._begin()

    @property
    def usage(self) -> UsageModel:
        """What was learned so far."""
        return self._usage

    def _begin(self) -> None:
        """Know nothing of earlier lines."""
        self._memory: Mapping[str, Any] = {}
        self._usage = UsageModel()
        self._now_ms = -1
        self._incarnations: dict[str, int] = {}
        self._held: dict[str, int] = {}  # of the line before
        self._names = Names.of([])
        self._owners: dict[str, str] = {}  # of bundles that two brokers reported in the line before
        self._underway: dict[str, Underway] = {}
        self._moved_at_ms: Ints = np.zeros(0, np.int64)  # [N] 0: not within its grace period
        self._out_of_sight: dict[str, int] = {}  # the same of bundles that the line lacks, as their broker is silent

    def snapshot(self, line: Line) -> Snapshot:
        """The line as a strategy sees it. Raises BadRecord for a line older than the one before, or far ahead."""
        self._check_time(line.now_ms)
        frame = self._frame(line)
        self._now_ms = line.now_ms
        self._usage, estimates = observe(self._usage, frame, grace_ms=self._settings.shed.grace_period_ms)
        return from_frame(replace(frame, estimates=estimates), self._settings)

    def _check_time(self, now_ms: int) -> None:
        """Refuse a line out of order, and one with a time so far ahead that all later ones would be out of order. Of
        two such lines in a row that follow each other the second is believed: the stream's time has changed."""
        doubted_ms, before_ms = self._doubted_ms, self._now_ms
        back, ahead = now_ms < before_ms, before_ms >= 0 and now_ms - before_ms > MOST_AHEAD_MS
        if not (back or ahead):
            self._doubted_ms = None
            return
        if doubted_ms is None or not 0 <= now_ms - doubted_ms <= MOST_AHEAD_MS:
            self._doubted_ms = now_ms
            said = "is before" if back else "is more than a day after"
            then = "begins anew without what was learned" if back else "goes on there"
            raise BadRecord(
                "now",
                f"now = {now_ms} {said} {before_ms} of the line before: give lines in order. If the time of the line "
                f"before was wrong, go on: a second line at the new time {then}",
            )
        self._doubted_ms = None
        if back:
            self._begin()

    def decide(self, snapshot: Snapshot) -> tuple[Decision, ...]:
        """The round on this line; its moves are expected to show in later lines."""
        plan = make_plan(snapshot, self._strategy, self._memory, self._settings)
        self._memory = plan.outcome.memory
        for decision in plan.decisions:
            if decision.kind in (DecisionKind.TRANSFER, DecisionKind.UNLOAD) and decision.bundle and decision.source:
                self._underway[decision.bundle] = Underway(decision.source, decision.target, snapshot.at_ms)
        return plan.decisions

    def _frame(self, line: Line) -> Frame:
        """The frame of a line: everybody registered and alive, nothing in flight, every bundle owned."""
        order = np.argsort(np.array(line.brokers, object), kind="stable")
        brokers = tuple(line.brokers[at] for at in order.tolist())
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        by_name = self._settings.weighted.max_partitions_per_broker is not None  # nothing else needs partitions
        reporter = np.repeat(place, line.held)
        self._follow_names(line)
        at = self._names.at
        rows = np.lexsort((reporter, at)) if len(at) != len(self._names.sorted) else _inverse(at)
        bundle, reporter = at[rows], reporter[rows]
        fields, totals = _quantised_fields(line, rows, by_name)
        facts = self._broker_facts(line)
        owner = self._owner(bundle, reporter, brokers)
        self._note_moves(owner, brokers, line.now_ms)
        status = self._carry_on(owner, brokers, line.now_ms)
        usage, limit = _quantised_resources(line)
        return Frame.of(
            line.now_ms,
            LIVE,
            brokers,
            self._names.sorted,
            broker={name: values[order] for name, values in facts.items()},
            bundle={"owner": owner, "status": status, "epoch": EPOCH, "moved_at_ms": self._moved_at_ms},
            row={"bundle": bundle, "reporter": reporter, "reports": REPORTS},
            usage=usage[order],
            limit=limit[order],
            totals=totals[order],
            row_fields=fields,
            namespace_bundles=self._names.spaces,
        )

    def _follow_names(self, line: Line) -> None:
        """The names of this line, and what is remembered of them in their order."""
        before, self._names = self._names, self._names.follow(line.bundles)
        if self._names.sorted is before.sorted:
            return
        for old in np.flatnonzero(self._moved_at_ms).tolist():
            self._out_of_sight[before.sorted[old]] = int(self._moved_at_ms[old])
        self._moved_at_ms = np.zeros(len(self._names.sorted), np.int64)
        for name in list(self._out_of_sight):
            at = self._names.place_of(name)
            if at is not None:
                self._moved_at_ms[at] = self._out_of_sight.pop(name)

    def _owner(self, bundle: Ints, reporter: Ints, brokers: tuple[str, ...]) -> Ints:
        """[N] the reporter of each bundle; of two the one that it is on its way to, else the one that had it before."""
        count = len(self._names.sorted)
        owner = np.empty(count, np.int64)
        owner[bundle[::-1]] = reporter[::-1]  # the first of several wins
        twice = np.flatnonzero(np.bincount(bundle, minlength=count) > 1)
        kept: dict[str, str] = {}
        for at in twice.tolist():
            name = self._names.sorted[at]
            reporters = {brokers[b]: b for b in reporter[bundle == at].tolist()}
            move = self._underway.get(name)
            wanted = move.target if move is not None else self._owners.get(name)
            owner[at] = reporters.get(wanted or "", owner[at])
            kept[name] = brokers[owner[at]]
        self._owners = kept
        return owner

    def _note_moves(self, owner: Ints, brokers: tuple[str, ...], now_ms: int) -> None:
        """Settle the moves that this line shows; forget bundles that are past their grace period."""
        grace_ms = self._settings.shed.grace_period_ms
        for name, move in list(self._underway.items()):
            at = self._names.place_of(name)
            here = brokers[owner[at]] if at is not None else None
            target_died = move.target is not None and move.target not in brokers
            seen = at is not None and (here != move.source or target_died)  # it may be back where it came from
            if at is not None and seen:
                self._moved_at_ms[at] = max(1, move.at_ms)
            if seen or now_ms - move.at_ms >= max(grace_ms, UNDERWAY_MS):
                del self._underway[name]
        self._moved_at_ms[now_ms - self._moved_at_ms >= grace_ms] = 0
        self._out_of_sight = {name: at for name, at in self._out_of_sight.items() if now_ms - at < grace_ms}

    def _carry_on(self, owner: Ints, brokers: tuple[str, ...], now_ms: int) -> Ints:
        """[N] status; moves under way count as done, in `owner` as well."""
        status = np.full(len(owner), OWNED, np.int64)
        places = {name: at for at, name in enumerate(brokers)} if self._underway else {}
        for name, move in self._underway.items():
            at = self._names.place_of(name)
            if at is not None and move.source in places and now_ms - move.at_ms < UNDERWAY_MS:
                status[at] = MOVING
                owner[at] = places.get(move.target or "", owner[at])
        return status

    def _broker_facts(self, line: Line) -> dict[str, Ints]:
        """[B] columns in the line's order. A broker that comes back is another process. So is one that has lost nearly
        all of its bundles while members changed; moves of this session do not count."""
        held = dict(zip(line.brokers, line.held.tolist(), strict=True))
        left = Counter(move.source for move in self._underway.values())
        for name in line.brokers:
            stayed = self._held.get(name, 0) - left[name]
            lost = held[name] < HARDLY_ANY * stayed
            if name not in self._held or (line.members_changed and self._held[name] and lost):
                self._incarnations[name] = self._incarnations.get(name, 0) + 1
        self._held = held
        here = np.ones(len(line.brokers), np.int64)
        return {
            "incarnation": np.array([self._incarnations[name] for name in line.brokers], np.int64),
            "registered": here,
            "alive": here,
            "reports": np.where(line.readable, REPORTS, 0),
            "last_event_ms": np.where(line.readable, line.now_ms, 0),
        }


def _inverse(at: Ints) -> Ints:
    """The order that sorts a permutation."""
    rows = np.empty(len(at), np.int64)
    rows[at] = np.arange(len(at))
    return rows


def _quantised_fields(line: Line, rows: Ints, partitions_by_name: bool) -> tuple[Ints, Ints]:
    """[M x F] of the bundles in the order of these rows, and [B x F] of their sums in the line's order.

    Column by column in memory; columns of zeros, which a line has, cost nothing.
    """
    fields = np.zeros((len(BUNDLE_FIELDS), len(line.bundles)), np.int64)
    totals = np.zeros((len(line.held), len(BUNDLE_FIELDS)), np.int64)
    ends = np.cumsum(line.held)
    sums = np.zeros(len(line.bundles) + 1, np.int64)
    for column, values in _quantised_columns(line, partitions_by_name):
        if values.any():
            np.cumsum(values, out=sums[1:])
            totals[:, column] = sums[ends] - sums[ends - line.held]
            fields[column] = values[rows]
    return fields.T, totals


def _quantised_columns(line: Line, partitions_by_name: bool) -> Iterator[tuple[int, Ints]]:
    """The columns that a line has figures for, with their values [M] in its order.

    A line has no number of partitions; where it is needed, topics of a bundle with a partition's name are partitions.
    """
    most = LARGEST_SUM / max(1, len(line.bundles))  # their sums, in + out of all, have to fit into 64 bits
    sessions = np.zeros(len(line.bundles), np.int64)
    for at, (name, scale) in enumerate(zip(_FIGURE_FIELDS, _FIGURE_SCALES, strict=True)):
        values = np.rint(np.minimum(line.figures[:, at] * scale, most)).astype(np.int64)
        yield _F[name], values
        if name in ("producers", "consumers"):
            sessions += values
        if name == "topics" and partitions_by_name:
            named = (PARTITION.search(bundle) is not None for bundle in line.bundles)
            yield _F["partitions"], np.where(np.fromiter(named, bool, len(values)), values, 0)
    yield _F["sessions"], sessions


def _quantised_resources(line: Line) -> tuple[Ints, Ints]:
    """Usage and limit [B x R] as `tabulate` would have them; all UNKNOWN for a broker with unreadable figures."""
    scale = np.tile(np.array(RESOURCE_SCALES, np.float64), (len(line.brokers), 1))
    scale[:, _MEMORY] *= np.where(line.limit[:, _MEMORY] < SMALLEST_MEMORY_BYTES, MIB, 1)
    known = np.isfinite(line.limit) & line.readable[:, None]
    usage, limit = (quantise(values, scale, UNKNOWN) for values in (line.usage, line.limit))
    return np.where(known, usage, UNKNOWN), np.where(known & (line.limit * scale >= 0.5), limit, UNKNOWN)
