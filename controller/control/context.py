"""The batch in progress: the state, and the entries emitted so far.

Every emitted entry is applied at once, so that later parts of the batch see its effect. The first one copies the state,
so that a batch without entries costs no copy. The parts of the step (sessions, hand-over, commands, …) are functions of
a `Context`; none of them reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from controller.control.step_decisions import Cause, Choice, StepEvidence, describe_choice, predict_scores
from controller.control.watch import Watch
from controller.domain.apply import apply_in_place
from controller.domain.decision import PLACEMENT, DecisionKind, Reason, RoundResult
from controller.domain.entries import Entry, Kind, ownership_fields
from controller.domain.events import Event
from controller.domain.facts import is_suspect
from controller.domain.ids import Bundle, Session
from controller.domain.overrides import Override, wishes_for
from controller.domain.ownership import IN_FLIGHT, Ownership, State
from controller.domain.settings.placement import PlacementSettings
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import Broker, ClusterState
from controller.policy.placement.assignment import Assigner
from controller.policy.placement.assignment_rules import AssignmentRules
from controller.policy.placement.loads import ExpectedLoads

_CHANGES_TARGETS = frozenset({Kind.REGISTERED, Kind.SESSION_ENDED, Kind.DRAIN, Kind.ROUND, Kind.SPLIT, Kind.FACT})
_NO_RULES = PlacementSettings()


@dataclass(slots=True)
class Batch:
    """The input of one micro-batch. `events` are ordered by (topic, partition, offset).

    `offsets`: topic -> partition -> next offset after this batch. `at_ms` is wall-clock time, for people.
    Leases and deadlines expire only if `read_to_end`. `read_ms` is the boot clock after the records had been read, from
    which heartbeats count (None: from the step's `now_ms`). `note_offsets`: journal the offsets in any case.
    """

    events: list[Event]
    offsets: dict[str, dict[str, int]]
    batch_id: int
    instance: str
    at_ms: int
    read_to_end: bool = True
    kafka: dict[str, Any] = field(default_factory=dict)
    read_ms: int | None = None
    note_offsets: bool = False


@dataclass(slots=True)
class Evidence:
    """A round's result and the outcome of each of its decisions (decision id -> outcome). `behind`: the plan of an
    earlier round is kept, so moves of this one that are held back wait for no approval of their own."""

    result: RoundResult
    outcomes: dict[str, str]
    attempt_id: str
    mode: str
    behind: bool = False


class Context:
    """The batch in progress."""

    def __init__(self, state: ClusterState, watch: Watch, batch: Batch, now_ms: int, settings: ControlSettings) -> None:
        self.state = state  # do not keep a reference: the first entry replaces it
        self.watch = watch
        self.batch = batch
        self.now_ms = now_ms  # leases and deadlines are judged as of this time
        self.read_ms = now_ms if batch.read_ms is None else batch.read_ms  # deadlines that this batch sets start here
        self.settings = settings
        self.entries: list[Entry] = []
        self.evidence: list[Evidence] = []
        self.decided: StepEvidence | None = None
        self.release_follows = False  # a command of this batch that is still to come releases the cluster
        self._private = False
        watch.mark(self.read_ms, state.seq)
        self._placement: Assigner | None = None
        self._quiet: frozenset[str] | None = None
        self._wishes: dict[str, list[Override]] | None = None

    def emit(self, kind: Kind, **fields: Any) -> Entry:
        """Append an entry and apply it to the state."""
        entry = Entry(
            seq=self.state.seq + 1,
            kind=kind,
            instance=self.batch.instance,
            batch=self.batch.batch_id,
            at_ms=self.batch.at_ms,
            **fields,
        )
        if not self._private:
            self.state, self._private = self.state.copy(), True
        apply_in_place(self.state, entry)
        self.entries.append(entry)
        if kind is Kind.REGISTERED:
            self._note_loads(partial(ExpectedLoads.note_restart, broker=fields["broker"]))
        elif kind is Kind.SPLIT:
            halves = tuple(fields["data"]["children"])
            self._note_loads(partial(ExpectedLoads.note_split, parent=fields["bundle"], children=halves))
        if kind in _CHANGES_TARGETS:
            self._placement = None
        if kind is Kind.OVERRIDE:
            self._wishes = None
        return entry

    def move(
        self,
        record: Ownership,
        state: State,
        *,
        by: Session | None = None,
        to: Session | None = None,
        burn: bool = False,
        reason: str = "",
        decision_id: str | None = None,
        command_id: str | None = None,
        attempt_id: str | None = None,
        **more: Any,
    ) -> Ownership:
        """Emit the bundle's next ownership entry and return its new record; `burn` takes the next epoch."""
        underway = record.state in IN_FLIGHT
        moving_at_ms = more.pop("moving_at_ms", record.moving_at_ms if underway else 0)
        completed = state is State.OWNED and by == record.to and moving_at_ms
        wanted = replace(
            record,
            state=state,
            epoch=record.epoch + burn,
            by=by,
            to=to,
            released=bool(more.pop("released", False)),
            fence=bool(more.pop("fence", False)),
            fencer=more.pop("fencer", None),
            boundary=more.pop("boundary", None),
            send_on=bool(more.pop("send_on", False)),
            ever_owned=record.ever_owned or state in (State.ASSIGNING, State.OWNED),
            moved_at_ms=moving_at_ms if completed else record.moved_at_ms,
            moving_at_ms=moving_at_ms if state in IN_FLIGHT else 0,
        )
        fields = ownership_fields(wanted)
        fields["data"].update(more)
        if decision_id is None and command_id is None and underway:
            decision_id, command_id = self.cause_of(record)
        fields |= {"decision_id": decision_id, "command_id": command_id, "attempt_id": attempt_id}
        self.emit(Kind.OWNERSHIP, reason=reason or None, **fields)
        result = self.state.bundles[str(record.bundle)]
        before, after = record.to or record.by, result.to or result.by
        if before != after:
            self._count_move(record.bundle, before, after)
        self.watch.follow(result, self.read_ms, self.settings)
        return result

    def _count_move(self, bundle: Bundle, before: Session | None, after: Session | None) -> None:
        """The bundle counts for another session: update the loads that placements are based on. A session that has
        ended is not relieved, because the loads are then those of its successor."""
        left, taken = before.broker if before else None, after.broker if after else None
        lighter = left if left is not None and self.state.session_of(left) == before else None
        if lighter or taken:
            self._note_loads(partial(ExpectedLoads.note_move, bundle=str(bundle), source=lighter, target=taken))
        if self._placement is not None:
            self._placement.note_move(bundle.namespace, left, taken)

    def note_observed_move(self, bundle: Bundle, before: str | None, now: str | None) -> None:
        """An observed bundle counts for another broker: update the loads that placements are based on."""
        if before or now:
            self._note_loads(partial(ExpectedLoads.note_move, bundle=str(bundle), source=before, target=now))
        if self._placement is not None:
            self._placement.note_move(bundle.namespace, before, now)

    def _note_loads(self, change: Callable[[ExpectedLoads], None]) -> None:
        self.watch.loads.note(change, self.now_ms, self.state.seq, self.settings.round_interval_ms)

    @property
    def loads(self) -> ExpectedLoads | None:
        """The newest round's loads with all moves since; None when there are none, or they are too old."""
        return self.watch.loads.model(self.now_ms, self.settings.round_interval_ms)

    def next_attempt(self) -> str:
        """An attempt id for evidence of this batch."""
        self.watch.evidence_serial += 1
        return f"{self.batch.instance}-{self.batch.batch_id}-{self.watch.evidence_serial}"

    def decisions(self) -> StepEvidence:
        """The decisions that the step itself makes in this batch."""
        if self.decided is None:
            batch = self.batch
            self.decided = StepEvidence(batch.instance, batch.batch_id, self.next_attempt(), batch.at_ms)
        return self.decided

    def decide_place(self, record: Ownership, choice: Choice, kind: DecisionKind, reason: Reason) -> Cause:
        """Record the decision to place the bundle."""
        loads = self.loads
        before, after = predict_scores(choice, loads, record)
        return self.decisions().add(
            kind,
            reason,
            record,
            target=choice.session.broker,
            strategy=PLACEMENT,
            evidence=describe_choice(choice, loads, self.watch.loads.why_none, str(record.bundle)),
            before=before,
            after=after,
        )

    def cause_of(self, record: Ownership) -> tuple[str | None, str | None]:
        """Decision id and command id behind the record's newest transition; at most one of them is not None."""
        if record.cause in self.state.commands:
            return None, record.cause
        return record.cause or None, None

    def bundle(self, name: str | Bundle | None) -> Ownership | None:
        """The newest record of a bundle; None when no namespace has it."""
        return self.state.bundles.get(str(name)) if name is not None else None

    @property
    def placement(self) -> Assigner:
        """The brokers that may be granted a bundle now."""
        if self._placement is None:
            scores = {b.id: self._score(b) for b in self.state.live_brokers() if self._may_be_granted(b)}
            limits = self._limits(scores)
            self._placement = Assigner(lambda: self.state.holdings, scores, limits, self.loads)
        return self._placement

    def choose_target(
        self, bundle: Bundle, *without: Session | None, among: Collection[str] | None = None
    ) -> Session | None:
        """The session that should get the bundle; None when no broker is eligible. `among`: consider these brokers
        only."""
        choice = self.weigh_targets(bundle, *without, among=among)
        return choice.session if choice is not None else None

    def weigh_targets(
        self, bundle: Bundle, *without: Session | None, among: Collection[str] | None = None
    ) -> Choice | None:
        """The session that should get the bundle, and why; None when no broker is eligible.

        That is the broker it is pinned to, if eligible. One that may be dying is chosen only when there is no other but
        those that it should avoid, one of these only when there is no other at all, and one that isolation forbids
        never.
        """
        barred = {session.broker for session in without if session is not None}
        pinned, avoided = wishes_for(self._wishes_of(bundle.namespace), bundle)
        placement, namespace = self.placement, bundle.namespace
        pinned_there = pinned is not None and pinned in placement and placement.allows(namespace, pinned)
        if pinned_there and pinned not in barred and (among is None or pinned in among):
            return Choice(self.state.brokers[str(pinned)].session, "pin")
        leaving = self._holder(bundle) if placement.rules is not None else None
        rank = partial(placement.rank_candidates, namespace, among=among, leaving=leaving, bundle=str(bundle))
        shunned = dict.fromkeys((avoided | self.quiet, avoided, frozenset[str]()))
        found = next(filter(None, (rank(barred | names) for names in shunned)), [])
        by = "count" if placement.loads is None else "load"
        return Choice(self.state.brokers[found[0].broker].session, by, found) if found else None

    def _limits(self, eligible: Iterable[str]) -> AssignmentRules | None:
        """The placement rules for these brokers; None when none are configured."""
        rules = self.watch.placement.settings(self.state, self.settings.placement)
        most = self.settings.max_bundles
        if rules == _NO_RULES and most is None:
            return None
        given = {broker: self.state.brokers[broker].info.get("version") for broker in eligible}
        versions = {broker: None if version is None else str(version) for broker, version in given.items()}
        return AssignmentRules(rules, most, versions, lambda: self.state.holdings)

    def _holder(self, bundle: Bundle) -> str | None:
        """The broker that the bundle counts for now: its grantee, else its owner."""
        record = self.bundle(bundle)
        if record is None:
            return self.state.observed.holder(str(bundle))
        session = record.to or record.by
        return session.broker if session is not None else None

    def _wishes_of(self, namespace: str) -> list[Override]:
        """The overrides of a namespace and its bundles; cached until an override is added or ends."""
        if self._wishes is None:
            self._wishes = {}
            for wish in self.state.overrides.values():
                self._wishes.setdefault(wish.of_namespace, []).append(wish)
        return self._wishes.get(namespace, [])

    def lags(self, session: Session) -> bool:
        """Whether the session is too far behind the journal to be granted anything."""
        return self.watch.lags(session, self.settings)

    @property
    def quiet(self) -> frozenset[str]:
        """Brokers not heard of for half a lease. Of several that die together one expires first, and its bundles would
        go to those that expire next."""
        if self._quiet is None:
            since_ms = self.now_ms - self.settings.lease_ms // 2
            self._quiet = frozenset(session.broker for session, at in self.watch.heard.items() if at < since_ms)
        return self._quiet

    def _may_be_granted(self, broker: Broker) -> bool:
        """Whether the broker may get bundles: by assignment, or by an order where its own metadata decides."""
        if broker.session not in self.state.sessions or is_suspect(self.state.observed.facts, broker.id):
            return False
        return not (broker.drained or broker.leaving or self.lags(broker.session))

    def _score(self, broker: Broker) -> float:
        """The broker's score in the newest round; 0 for one that has registered since and so lost its bundles."""
        scores = self.state.round_memory.get("scores", {})
        stale = broker.seq > self.state.round_seq
        return 0.0 if stale or not isinstance(scores, dict) else float(scores.get(broker.id, 0.0))
