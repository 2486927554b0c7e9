"""Band 4xx: what cannot be done, whatever is configured."""

from __future__ import annotations

from collections.abc import Mapping

from controller.domain.decision import Reason
from controller.domain.reasons.explained import BROKER_CAPS, Explained

HARD: Mapping[Reason, Explained] = {
    Reason.NO_LOAD_DATA: Explained(
        ("no usable load reports",),
        "The broker's load is unknown: no reports, fewer than two, or no resource with usage and limit.",
        "Wait after a start; else see `ballast status` for quarantined reports, and the agent's log.",
        ("agent.report_interval_ms", "loads.short_horizon_s"),
        "NoLoadData",
    ),
    Reason.OUTDATED_LOAD_DATA: Explained(
        ("its newest load report is too old",),
        "The broker is alive, but its load reports have stopped or come late.",
        "See the agent's log, and `load data` in `ballast status`.",
        ("rounds.max_report_age_s", "pulsar.loadBalancerBrokerLoadDataTTLInSeconds"),
        "OutDatedData",
    ),
    Reason.NO_BROKERS: Explained(
        ("too few brokers",),
        "There are no brokers to compare or to move between.",
        "Start brokers.",
        (),
        "NoBrokers",
    ),
    Reason.NO_BUNDLES: Explained(
        ("it has no bundle that may move",),
        "The broker is hot but owns no bundle that may move (Pulsar's strategies keep a broker's only bundle).",
        "Split its bundle: `ballast split BUNDLE --unload`.",
        (),
        "NoBundles",
    ),
    Reason.NO_TARGET: Explained(
        ("no broker could take anything",),
        "All others are drained, at caps, silent, hot themselves or forbidden by rules.",
        "`ballast explain ROUND` shows the reason for each; add brokers, or lift the rules that forbid them.",
        (*BROKER_CAPS, "placement.isolation"),
    ),
    Reason.WOULD_NOT_IMPROVE: Explained(
        ("{too_big} is too big to help elsewhere", "would not improve the balance"),
        "After the move the two brokers would differ as much as before, or more.",
        "Nothing; split the bundle if it alone makes its broker hot.",
        ("steady.tolerance", "shedding.target_margin_pct"),
    ),
    Reason.TARGET_ABOVE_MEAN: Explained(
        ("the target would be above its share",),
        "After the move the target would be above the mean, and the next to give something away.",
        "Nothing, or add brokers.",
        ("steady.tolerance", "shedding.target_margin_pct"),
    ),
    Reason.UNSPLITTABLE: Explained(
        ("{too_big} cannot be cut: one topic or one hash", "cannot be cut: one topic or one hash"),
        "The bundle is too big, and holds a single topic or covers a single hash.",
        "Give the topic more partitions, or a broker of its own (`ballast override pin`).",
    ),
    Reason.STALE_DECISION: Explained(
        ("things have changed since it was decided",),
        "The journal advanced before the decision was carried out: the bundle moved, was split or lost its owner, the "
        "target is gone, or an operator changed the strategy.",
        "Nothing: the next round decides again.",
    ),
    Reason.LAGGING: Explained(
        ("the broker is behind the journal",),
        "The broker's agent is too many entries behind the journal, and is given nothing until it has caught up.",
        "See the agent's log and its access to the tables.",
        ("control.lag_limit_entries",),
    ),
    Reason.BROKER_GONE: Explained(
        ("the broker is gone",),
        "The broker's session has ended, or it never registered.",
        "Start its agent if it should be there.",
        ("control.lease_ms",),
    ),
    Reason.UNDER_PROVISIONED: Explained(
        ("the cluster as a whole is too small: {mean} on average", "the cluster as a whole is too small"),
        "Even spread evenly, the load would be at the overload threshold: moves can share it out, but not cure it.",
        "Add brokers, or take load off the cluster.",
        ("shedding.overloaded_threshold_pct",),
    ),
    Reason.EXTERNAL_LOAD: Explained(
        ("at {score}, most of it not from its bundles", "something other than its bundles keeps it busy"),
        "The broker is far busier than the traffic of its bundles explains, and none that it has left is worth a move.",
        "Look at the machine: other processes, compaction, garbage collection; on its network, backups and reads of "
        "old messages.",
    ),
    Reason.SLOW_BROKER: Explained(
        (
            "the backlogs of its bundles have grown to {backlog} of their traffic",
            "{speed} of the median's cost for the same traffic",
            "slower than the others",
        ),
        "The same traffic costs the broker much more CPU than the others, or most of its bundles fall behind and those "
        "of others do not: it is given nothing.",
        "Look at the machine: throttled, older, a slow disk, a noisy neighbour; and at those who read from it.",
    ),
    Reason.TARGET_OVER_LIMIT: Explained(
        ("every target would go over one of its limits",),
        "No broker could take the load that has to go and stay within its own limits.",
        "Add brokers, or raise the limit.",
        ("weighted.cpu_threshold_pct", "weighted.bandwidth_threshold_pct"),
    ),
    Reason.SUSPECT_BROKER: Explained(
        ("the broker does not answer",),
        "Pulsar lists the broker, but it has not answered for some polls. Nothing is ordered from it or to it.",
        "See the broker's log; it counts again after two answers.",
    ),
    Reason.OWNER_UNKNOWN: Explained(
        ("its owner is not known for certain",),
        "Nobody lists the bundle, several brokers do, or the last order about it ended without an answer. It gets no "
        "order until exactly one broker lists it.",
        "Nothing; see the agent's log if it lasts.",
    ),
    Reason.NOT_AUTHORISED: Explained(
        ("the credentials do not suffice",),
        "The cluster answered 401 or 403, so no orders are sent.",
        "`ballast pulsar check` names the role that is needed.",
    ),
    Reason.GAINS_MISSED: Explained(
        ("{judged_moves} moves brought {brought} of what was predicted", "moves bring far less than predicted"),
        "The last 50 moves brought less than `rounds.least_realised` of what was predicted, and the 50 before, too, "
        "after which what was learned of usage was dropped.",
        "Look at `ballast explain ROUND` of rounds with moves, and at what else uses the brokers' CPU; "
        "`ballast mode shadow` while you look.",
        ("rounds.least_realised", "rounds.shadow_when_missed"),
    ),
    Reason.MASS_FAILURE: Explained(
        ("many brokers are silent at once",),
        "The mass-failure breaker has tripped: orders wait until brokers are back.",
        "Bring brokers back, or `ballast thaw`.",
    ),
}  # fmt: skip
