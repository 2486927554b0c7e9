"""Decisions as values: kind, label, reason code, evidence. A skip is a decision too.

Reason codes come in severity bands as in TiKV PD's plan status catalogue:
1xx normal, 2xx throttled, 3xx configured so, 4xx hard. `Reason.band` says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from controller.domain.round_loads import RoundLoads

EXECUTED = "executed"  # the outcome of a decision that was carried out
FIRST_RULES = 1  # of rounds that name none: version 0.1.0 stored no number
OF_STEP = "step-"  # prefix of the ids of the control step's own decisions, and of their round id
PLACEMENT, PROPOSAL = "placement", "proposal"  # in place of their strategy


class DecisionKind(str, Enum):
    """What is to be done."""

    ASSIGN = "assign"
    TRANSFER = "transfer"
    UNLOAD = "unload"
    SPLIT = "split"
    SKIP = "skip"


MOVES = frozenset({DecisionKind.TRANSFER, DecisionKind.UNLOAD})


class Label(str, Enum):
    """Whether it is to be carried out."""

    SUCCESS = "success"
    SKIP = "skip"
    FAILURE = "failure"


class Reason(str, Enum):
    """Why. The hundreds digit is the severity band."""

    BALANCED = "100_balanced"
    OVERLOADED = "101_overloaded"
    ABOVE_MEAN = "102_above_mean"
    UNDERLOADED = "103_underloaded"
    ORPHANED = "104_orphaned"
    FIRST_LOOKUP = "105_first_lookup"
    COMMANDED = "106_commanded"
    DRAINED = "107_drained"
    OVERRIDDEN = "109_overridden"
    BELOW_MINIMUM_LOAD = "108_below_minimum_load"
    SPLIT_TOPICS = "110_split_topics"
    SPLIT_SESSIONS = "111_split_sessions"
    SPLIT_MSG_RATE = "112_split_msg_rate"
    SPLIT_BANDWIDTH = "113_split_bandwidth"
    SPLIT_SEND_ON = "114_split_send_on"
    SPLIT_TO_BALANCE = "115_split_to_balance"
    MISPLACED = "116_misplaced"
    WITHIN_LIMITS = "117_within_limits"
    SPLIT_STORAGE = "118_split_storage"
    MORE_LOADED = "119_more_loaded"
    MORE_OF_NAMESPACE = "120_more_of_namespace"
    MORE_BUNDLES = "121_more_bundles"
    HIT_COUNT = "200_hit_count"
    GRACE_PERIOD = "201_grace_period"
    BUDGET_SPENT = "202_budget_spent"
    IN_FLIGHT = "203_in_flight"
    IN_TURN = "204_in_turn"
    NOT_WORTH_MOVING = "205_not_worth_moving"
    ENOUGH_CHOSEN = "206_enough_chosen"
    SETTLING = "207_settling"
    BACKING_OFF = "208_backing_off"
    RANGE_IN_USE = "209_range_in_use"
    AWAITING_APPROVAL = "210_awaiting_approval"
    SWITCHED_OFF = "300_switched_off"
    SHADOW_MODE = "301_shadow_mode"
    PAUSED_MODE = "302_paused_mode"
    BUNDLE_LIMIT = "303_namespace_bundle_limit"
    BROKER_CAP = "304_broker_cap"
    BROKER_DRAINED = "305_broker_drained"
    EXCLUDED = "306_excluded"
    PINNED = "307_pinned"
    FROZEN = "308_frozen"
    AVOIDED = "309_avoided_broker"
    ISOLATION = "310_isolation"
    ANTI_AFFINITY = "311_anti_affinity"
    FAILURE_DOMAIN = "312_failure_domain"
    BROKER_VERSION = "313_broker_version"
    ANOTHER_BALANCER = "314_another_balancer"
    NON_PERSISTENT = "315_non_persistent"
    RELEASED = "316_released"
    PLAN_DECLINED = "317_plan_declined"
    NO_LOAD_DATA = "400_no_load_data"
    OUTDATED_LOAD_DATA = "401_outdated_load_data"
    NO_BROKERS = "402_no_brokers"
    NO_BUNDLES = "403_no_bundles"
    NO_TARGET = "404_no_target"
    WOULD_NOT_IMPROVE = "405_would_not_improve"
    TARGET_ABOVE_MEAN = "406_target_above_mean"
    UNSPLITTABLE = "407_unsplittable"
    STALE_DECISION = "408_state_has_moved_on"
    LAGGING = "409_lagging_broker"
    BROKER_GONE = "410_broker_gone"
    UNDER_PROVISIONED = "411_under_provisioned"
    EXTERNAL_LOAD = "412_external_load"
    SLOW_BROKER = "413_slow_broker"
    TARGET_OVER_LIMIT = "414_target_over_limit"
    SUSPECT_BROKER = "415_suspect_broker"
    OWNER_UNKNOWN = "416_owner_unknown"
    NOT_AUTHORISED = "417_not_authorised"
    MASS_FAILURE = "418_mass_failure"
    GAINS_MISSED = "419_gains_missed"

    @property
    def band(self) -> str:
        """normal, throttled, config or hard."""
        return ("", "normal", "throttled", "config", "hard")[int(self.value[0])]


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of a round, or the skip of one broker.

    `epoch` is the bundle's epoch that the decision was made on; once the bundle has another, the decision is void.
    `evidence` holds the quantised figures behind it, `before` and `after` what its strategy judges the brokers by, now
    and as predicted.
    """

    id: str
    kind: DecisionKind
    label: Label
    reason: Reason
    bundle: str | None = None
    source: str | None = None
    target: str | None = None
    epoch: int | None = None
    boundary: int | None = None
    strategy: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)

    @property
    def swapped_with(self) -> str | None:
        """The bundle that goes the other way in a swap, where both move or neither does; None: no swap."""
        other = self.evidence.get("swapped_with")
        return None if other is None else str(other)


@dataclass(frozen=True, slots=True)
class Gains:
    """What `moves` together took off their sources, as shares of limits: as `predicted`, and as `realised`."""

    moves: int
    predicted: float
    realised: float


EARLY = "-early"  # the end of the id of an early round


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of one evaluation of the whole cluster, which the control step receives as an event.

    `at_ms` is the round's event time (that of the load reports), `state_seq` the journal seq its ownership was read at.
    `scores` has a row for each broker: broker, score, mean, hits, eligible, source, reason, utilisations.
    `memory` is journaled and passed to the next round. `plan_hash` covers inputs and decisions.
    `loads` are the basis of placements until the next round; they are not part of the plan. `usage_hash` names the
    usage model after the round; "" where none is kept. `missed`: the last moves brought too little, even by the prior.
    `because`: why it is early, or doubts readings; as plain values.
    """

    round_id: str
    at_ms: int
    state_seq: int
    strategy: str
    decisions: tuple[Decision, ...]
    scores: tuple[Mapping[str, Any], ...]
    memory: Mapping[str, Any]
    plan_hash: str
    challenger: bool = False
    inputs: Mapping[str, Any] = field(default_factory=dict)
    loads: RoundLoads | None = field(default=None, compare=False, repr=False)
    usage_hash: str = ""
    missed: Gains | None = field(default=None, compare=False)
    because: Mapping[str, Any] | None = field(default=None, compare=False)


class PlanPhase(str, Enum):
    """What became of a plan that needs an operator's approval."""

    WAITING = "waiting"
    APPROVED = "approved"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """The moves of a round that was too large to be carried out by itself. A fold of entries of kind PLAN.

    `moves`: those still to be carried out, without their evidence; none once it was declined. `decided_seq`: of the
    entry with which it began to wait, `seq` of that of its phase. `who` decided about it, and `why`.
    """

    round_id: str
    at_ms: int
    phase: PlanPhase
    moves: tuple[Decision, ...]
    seq: int = 0
    decided_seq: int = 0
    who: str = ""
    why: str = ""

    def without(self, outcomes: Mapping[str, str]) -> KeptPlan:
        """The plan when these of its moves have an outcome."""
        return replace(self, moves=tuple(one for one in self.moves if one.id not in outcomes))

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them back."""
        plain = {name: getattr(self, name) for name in ("round_id", "at_ms", "seq", "decided_seq", "who", "why")}
        return {**plain, "phase": self.phase.value, "moves": [_to_row(one) for one in self.moves]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> KeptPlan:
        """Read what `to_json` returned; fields of newer versions are ignored."""
        known = {name: stored[name] for name in cls.__dataclass_fields__ if name in stored}
        return cls(**{**known, "phase": PlanPhase(stored["phase"]), "moves": tuple(map(_of_row, stored["moves"]))})


def _to_row(move: Decision) -> list[Any]:
    what = move.kind.value, move.reason.value, move.bundle, move.source, move.target, move.epoch
    return [move.id, *what, move.swapped_with, move.strategy]


def _of_row(row: Sequence[Any]) -> Decision:
    decision_id, kind, reason, bundle, source, target, epoch, swapped_with, strategy = row
    return Decision(
        decision_id, DecisionKind(kind), Label.SUCCESS, Reason(reason), bundle, source, target, epoch,
        strategy=strategy, evidence={} if swapped_with is None else {"swapped_with": swapped_with},
    )  # fmt: skip
