"""Band 2xx: what was held back for now, by hit counts, grace periods and budgets."""

from __future__ import annotations

from collections.abc import Mapping

from controller.domain.decision import Reason
from controller.domain.reasons.explained import NO_ACTION, Explained

_HITS = (
    "steady.tolerance",
    "shedding.consecutive_rounds",
    "pulsar.loadBalancerSheddingConditionHitCountThreshold",
    "pulsar.loadBalancerAvgShedderHitCountLowThreshold",
    "pulsar.loadBalancerAvgShedderHitCountHighThreshold",
)

THROTTLED: Mapping[Reason, Explained] = {
    Reason.HIT_COUNT: Explained(
        ("{gap_points} points above {partner} in {rounds}; more are needed",
         "hot in {hits} of the {rounds_needed} needed", "hot in {rounds_enough}, but not clearly enough",
         "the cluster uneven in {cycles}; more are needed", "hot in {rounds}; more are needed",
         "not hot in enough rounds yet"),
        "The broker is above its share, but not for long enough: spikes that end by themselves move nothing.",
        "Wait some rounds; `ballast unload` moves a bundle at once.",
        _HITS,
        "HitCount",
    ),
    Reason.GRACE_PERIOD: Explained(
        ("moved too recently",),
        "A round moved the bundle within the grace period (or, with Pulsar's strategies, its broker shed recently).",
        "Wait, or `ballast unload BUNDLE --to BROKER`: commands know no grace period.",
        ("shedding.grace_period_minutes", "pulsar.loadBalanceSheddingDelayInSeconds"),
        "CoolDown",
    ),
    Reason.BUDGET_SPENT: Explained(
        ("no moves left for now: {paced_by}", "no moves left in this round"),
        "The round has reached its limit of moves, or a broker, a namespace or the cluster its limit a minute.",
        "Wait for the next round; raise the budget if hand-overs are cheap in your cluster.",
        ("steady.budget", "shedding.max_moves_per_round", "pacing.broker_moves_per_min",
         "pacing.namespace_moves_per_min", "pacing.cluster_moves_per_min"),
    ),
    Reason.IN_FLIGHT: Explained(
        ("already on its way",),
        "The bundle is being handed over or split, or this round already has a decision about it.",
        "Wait; `ballast status` shows what is in flight and for how long.",
    ),
    Reason.IN_TURN: Explained(
        ("waits for its turn: as many orders are open as may be",),
        "A limit on open orders keeps the move back until others have ended. Then it is carried out if nothing else "
        "has changed; the next round decides anew about what still waits.",
        "Nothing; a higher limit carries out more moves at once, which disturbs more clients at once.",
        ("pulsar_cluster.orders_in_flight", "pulsar_cluster.orders_per_broker"),
    ),
    Reason.NOT_WORTH_MOVING: Explained(
        ("would bring too little",),
        "The move would take less off its source than it costs: sessions reconnect, and the bundle pauses.",
        "Nothing; lower `steady.churn` if small gains are wanted.",
        ("steady.churn", "steady.model_error", "pulsar.loadBalancerBundleUnloadMinThroughputThreshold",
         "pulsar.minUnloadMessage", "pulsar.minUnloadMessageThroughput"),
    ),
    Reason.ENOUGH_CHOSEN: Explained(
        ("others sufficed",),
        "The source is relieved enough without this bundle.",
        NO_ACTION,
    ),
    Reason.SETTLING: Explained(
        ("a move ended moments ago: its load reports are not current yet",),
        "Pulsar computes a broker's load once per `statsUpdateFrequencyInSecs`. Until two such periods have passed "
        "since a move, its source and target are not judged.",
        "Nothing; a shorter `statsUpdateFrequencyInSecs` on the brokers makes this time shorter.",
    ),
    Reason.BACKING_OFF: Explained(
        ("the last orders about it brought nothing",),
        "Pulsar refused the last order about the bundle, or its broker owns it still. Rounds leave it alone for a "
        "while, twice as long after each such order.",
        "`ballast journal --kind order_ended` shows what Pulsar answered; `ballast unload` tries again at once.",
    ),
    Reason.RANGE_IN_USE: Explained(
        ("an order about the same range of another namespace is open or failed",),
        "Pulsar's modular load manager keeps an order's destination by range alone, without the namespace. So a range "
        "has one order at a time, and none after one that failed until a bundle of that range was placed.",
        NO_ACTION,
    ),
    Reason.AWAITING_APPROVAL: Explained(
        ("a plan of that size waits for an operator's approval",),
        "The round has more moves than `rounds.approve_above`, or a plan that has waits or is being carried out. Moves "
        "off brokers over their limit do not wait.",
        "`ballast status` names the plan that waits: `ballast approve ROUND` or `ballast decline ROUND`, with `--why`. "
        "Afterwards `ballast explain ROUND` says what became of it.",
        ("rounds.approve_above", "rounds.approval_minutes"),
    ),
}  # fmt: skip
