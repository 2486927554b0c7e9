"""What every reason code means in words: the one table behind views, `ballast explain CODE` and docs/reasons.md.

`words` go from the most telling to the plainest; the first whose figures are all in the evidence is shown
(`reason_words.py` has the figures), the last needs none. `keys` are configuration keys that change the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from controller.domain.decision import Reason


class Explained(NamedTuple):
    """A reason: the words shown beside the code, what it means, what an operator can do, which keys matter.

    `pulsar`: what Pulsar's strategies call it.
    """

    words: tuple[str, ...]
    meaning: str
    act: str
    keys: tuple[str, ...] = ()
    pulsar: str = ""


_HITS = (
    "steady.tolerance",
    "shedding.consecutive_rounds",
    "pulsar.loadBalancerSheddingConditionHitCountThreshold",
    "pulsar.loadBalancerAvgShedderHitCountLowThreshold",
    "pulsar.loadBalancerAvgShedderHitCountHighThreshold",
)
_LEVEL = ("steady.tolerance", "shedding.overloaded_threshold_pct", "shedding.difference_points")
_CAPS = ("broker.max_topics", "broker.max_bundles", "broker.max_memory", "broker.max_net_usage")
_NOTHING = "Nothing."
_DECIDES = "Nothing, while splits are welcome; raise the limit if such bundles are fine."

_NORMAL = {
    Reason.BALANCED: Explained(
        ("not hot: at {score} against {mean} on average", "not hot"),
        "The broker has about its share of the load, or is not loaded enough to matter.",
        "Nothing; lower the tolerance to have smaller differences evened out.",
        _LEVEL,
    ),
    Reason.OVERLOADED: Explained(
        ("{fullest} at {fullest_pct} of its limit", "at {usage} with the threshold at {threshold}",
         "at {score} against {mean} on average: overloaded", "at {average} against {mean} on average: overloaded",
         "overloaded"),
        "The broker is at or above the overload threshold, or over one of its limits, so it gives something away.",
        "Nothing, if moves follow; add brokers if it comes back round after round.",
        ("shedding.overloaded_threshold_pct", "weighted.cpu_threshold_pct", "pulsar.loadBalancerBrokerLoadTargetStd"),
        "Overloaded",
    ),
    Reason.ABOVE_MEAN: Explained(
        ("{gap_points} points above {partner}", "at {score} against {mean} on average",
         "at {history}, more than {threshold} above the mean", "above the mean"),
        "The broker has more than its share of the load, for long enough, so it gives something away.",
        "Nothing; raise the tolerance if moves for such differences are not wanted.",
        (*_LEVEL, "pulsar.loadBalancerMsgRateDifferenceShedderThreshold"),
    ),
    Reason.UNDERLOADED: Explained(
        ("the target has far less than its share; the source is at {score}", "the target has far less than its share"),
        "A broker that is idle, as after a start, is filled from those above the level.",
        _NOTHING,
        ("steady.tolerance", "pulsar.lowerBoundarySheddingEnabled"),
        "Underloaded",
    ),
    Reason.ORPHANED: Explained(
        ("its broker is gone",),
        "The bundle's owner is gone: its lease ran out, it left, or it came back as a new process.",
        "Nothing; look after the broker that is gone.",
        ("control.lease_ms",),
    ),
    Reason.FIRST_LOOKUP: Explained(
        ("looked up for the first time",),
        "A client asked for a topic of a bundle that nobody owned, so it got an owner.",
        _NOTHING,
    ),
    Reason.COMMANDED: Explained(
        ("an operator's command",),
        "An operator asked for it, as by `ballast unload` or `ballast split`.",
        "`ballast journal --kind command_accepted` tells who, and why.",
        (),
        "Admin",
    ),
    Reason.DRAINED: Explained(
        ("its broker is being emptied",),
        "The owner is drained, or leaves: all it owns is handed over.",
        "`ballast undrain BROKER` lets it take bundles again.",
    ),
    Reason.BELOW_MINIMUM_LOAD: Explained(
        ("at {score} against {mean} on average: too little load to matter", "too little load to matter"),
        "The broker is above its share, but the whole cluster has so little load that moving it is not worth it.",
        _NOTHING,
    ),
    Reason.OVERRIDDEN: Explained(
        ("an operator's override",),
        "A pin brings the bundle to its broker, or an avoid takes it away from one.",
        "`ballast override list` tells which; `ballast override end ID` ends it.",
    ),
    Reason.SPLIT_TOPICS: Explained(
        ("{limit_pct} of the topics that a bundle may hold", "more topics than a bundle may hold"),
        "The bundle holds too many topics, so it is cut in two.", _DECIDES, ("split.max_topics",), "Topics",
    ),
    Reason.SPLIT_SESSIONS: Explained(
        ("{limit_pct} of the sessions that a bundle may have", "more sessions than a bundle may have"),
        "The bundle has too many producers and consumers, so it is cut in two.", _DECIDES, ("split.max_sessions",),
        "Sessions",
    ),
    Reason.SPLIT_MSG_RATE: Explained(
        ("{limit_pct} of the messages/s that a bundle may have", "more messages/s than a bundle may have"),
        "The bundle has too many messages a second, in and out, so it is cut in two.", _DECIDES,
        ("split.max_msg_rate_per_s",), "MsgRate",
    ),
    Reason.SPLIT_BANDWIDTH: Explained(
        ("{limit_pct} of the bytes/s that a bundle may have", "more bytes/s than a bundle may have"),
        "The bundle has too many bytes a second, in and out, so it is cut in two.", _DECIDES,
        ("split.max_bandwidth_mbytes",), "Bandwidth",
    ),
    Reason.SPLIT_SEND_ON: Explained(
        ("the quieter half after a split",),
        "After a split one half is sent to another broker; the busier one stays.",
        "Nothing; `split.auto_unload: false` keeps both where they are.",
        ("split.auto_unload",),
    ),
    Reason.SPLIT_TO_BALANCE: Explained(
        ("too big to move whole: cut, so that a part can move",),
        "No bundle of the broker fits anywhere as it is, so the one that makes it hot is cut in two.",
        "Nothing; more bundles a namespace, or more partitions a topic, make such cuts rare.",
        ("split.enabled", "split.namespace_maximum_bundles"),
    ),
    Reason.MISPLACED: Explained(
        ("the rule {isolation} wants it elsewhere", "its isolation policy wants it elsewhere"),
        "A rule of placement forbids the bundle where it is, so it goes where it may be.",
        "Nothing; change the policy if it should stay.",
        ("placement.isolation",),
    ),
    Reason.WITHIN_LIMITS: Explained(
        ("{fullest} at {fullest_pct} of its limit: within all", "within all its limits"),
        "No limit of strategy `weighted` is exceeded; it moves nothing to even out load.",
        "Nothing; `ballast strategy steady` evens out load.",
        ("weighted.cpu_threshold_pct",),
    ),
    Reason.SPLIT_STORAGE: Explained(
        ("{limit_pct} of the bytes that a bundle may store", "more bytes stored than a bundle may have"),
        "Too many bytes are stored in the bundle's topics, so it is cut in two.", _DECIDES,
        ("split.max_storage_bytes",),
    ),
    Reason.MORE_LOADED: Explained(
        ("more loaded",),
        "Another broker would have been less loaded with the bundle than this one, so it got it.", _NOTHING,
    ),
    Reason.MORE_OF_NAMESPACE: Explained(
        ("has more bundles of the namespace",),
        "Of brokers that are about as loaded, the one with the fewest bundles of the namespace gets the bundle; where "
        "no loads are known, that is the first thing looked at.", _NOTHING,
    ),
    Reason.MORE_BUNDLES: Explained(
        ("has more bundles",),
        "Of brokers between which nothing else decides, the one with the fewest bundles gets the bundle.", _NOTHING,
    ),
}  # fmt: skip

_THROTTLED = {
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
        "The round has made as many moves as it may, or a broker, a namespace or the cluster as many a minute.",
        "Wait for the next round; raise the budget if hand-overs are cheap in your cluster.",
        ("steady.budget", "shedding.max_moves_per_round", "pacing.broker_moves_per_min",
         "pacing.namespace_moves_per_min", "pacing.cluster_moves_per_min"),
    ),
    Reason.IN_FLIGHT: Explained(
        ("already on its way",),
        "The bundle is being handed over or split, or this round has named it already.",
        "Wait; `ballast status` tells what is in flight and for how long.",
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
        "The source gives away enough without this bundle.",
        _NOTHING,
    ),
}  # fmt: skip

_CONFIG = {
    Reason.SWITCHED_OFF: Explained(
        ("switched off in the configuration",),
        "Moves are switched off (`shedding.enabled`), or splits (`split.enabled`).",
        "Switch it on; `ballast unload` and `ballast split` work either way.",
        ("shedding.enabled", "split.enabled"),
    ),
    Reason.SHADOW_MODE: Explained(
        ("rounds only watch in mode shadow",),
        "In mode shadow rounds decide and record, and nothing is carried out.",
        "`ballast mode live` lets rounds act.",
        ("rounds.mode",),
    ),
    Reason.PAUSED_MODE: Explained(
        ("nothing moves in mode paused",),
        "In mode paused rounds decide and record, and nothing is carried out.",
        "`ballast mode live` lets rounds act.",
        ("rounds.mode",),
    ),
    Reason.BUNDLE_LIMIT: Explained(
        ("the namespace has as many bundles as it may",),
        "A split would give the namespace more bundles than it may have, splits in flight counted.",
        "Raise `split.namespace_maximum_bundles`.",
        ("split.namespace_maximum_bundles",),
    ),
    Reason.BROKER_CAP: Explained(
        ("the broker is at one of its caps",),
        "The target is at a cap on what one broker holds, or the move would go beyond one.",
        "Raise the cap, or add brokers.",
        (*_CAPS, "reference.max_bundles", "reference.max_topics"),
    ),
    Reason.BROKER_DRAINED: Explained(
        ("the broker is drained or leaves",),
        "The broker is drained or leaves: it is emptied by the control step, rounds leave it alone.",
        "`ballast undrain BROKER` lets it take bundles again.",
    ),
    Reason.EXCLUDED: Explained(
        ("rounds leave its namespace alone",),
        "The namespace is a system one (heartbeats, SLA monitors, `pulsar/system`) or an override excludes it.",
        "`ballast override list` tells of overrides.",
        ("pulsar.loadBalancerSheddingExcludedNamespaces",),
    ),
    Reason.PINNED: Explained(
        ("pinned to its broker",),
        "An override pins the bundle.",
        "`ballast override list` tells which; `ballast override end ID` ends it.",
    ),
    Reason.FROZEN: Explained(
        ("frozen by an override",),
        "An override says that no round moves or splits the bundle.",
        "`ballast override list` tells which; `ballast override end ID` ends it.",
    ),
    Reason.AVOIDED: Explained(
        ("to be kept away from that broker",),
        "An override keeps the bundle away from the target.",
        "`ballast override list` tells which; `ballast override end ID` ends it.",
    ),
    Reason.ISOLATION: Explained(
        ("its isolation policy does not allow that broker",),
        "An isolation policy keeps the namespace away from the target; as an alarm: none that is allowed is there.",
        "Bring brokers of the policy back, or change it.",
        ("placement.isolation",),
    ),
    Reason.ANTI_AFFINITY: Explained(
        ("others of its anti-affinity group are there",),
        "The target serves more of the namespaces of its anti-affinity group than others do.",
        "Nothing, or change the group.",
        ("placement.anti_affinity",),
    ),
    Reason.FAILURE_DOMAIN: Explained(
        ("others of its anti-affinity group are in that failure domain",),
        "The target's failure domain has more of the namespaces of its anti-affinity group than others have.",
        "Nothing, or change the domains.",
        ("placement.failure_domains", "placement.failure_domains_enabled"),
    ),
    Reason.BROKER_VERSION: Explained(
        ("the broker runs an older version",),
        "Only brokers of the newest version take bundles.",
        "Finish the upgrade, or `placement.prefer_later_versions: false`.",
        ("placement.prefer_later_versions",),
    ),
}  # fmt: skip

_HARD = {
    Reason.NO_LOAD_DATA: Explained(
        ("no usable load reports",),
        "Nothing is known of the broker's load: no reports, fewer than two, or no resource with usage and limit.",
        "Wait after a start; else see `ballast status` for quarantined reports, and the agent's log.",
        ("agent.report_interval_ms", "loads.short_horizon_s"),
        "NoLoadData",
    ),
    Reason.OUTDATED_LOAD_DATA: Explained(
        ("its newest load report is too old",),
        "The broker lives and its load reports stopped, or come late.",
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
        "The broker is hot and owns nothing that could move (Pulsar's strategies keep a broker's only bundle).",
        "Split its bundle: `ballast split BUNDLE --unload`.",
        (),
        "NoBundles",
    ),
    Reason.NO_TARGET: Explained(
        ("no broker could take anything",),
        "All others are drained, at caps, silent, hot themselves or forbidden by rules.",
        "`ballast explain ROUND` tells the reason of each; add brokers or lift what forbids them.",
        (*_CAPS, "placement.isolation"),
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
        "The journal went on between the decision and its turn: the bundle moved, was split or is nobody's, the "
        "target is gone, or an operator changed the strategy.",
        "Nothing: the next round decides anew.",
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
        "Shared out evenly, the load would still be at the overload threshold: moves only share a shortage.",
        "Add brokers, or take load off the cluster.",
        ("shedding.overloaded_threshold_pct",),
    ),
    Reason.EXTERNAL_LOAD: Explained(
        ("at {score}, most of it not from its bundles", "something other than its bundles keeps it busy"),
        "The broker is far busier than the traffic of its bundles explains, so moving them would not help.",
        "Look at the machine: other processes, compaction, garbage collection.",
    ),
    Reason.SLOW_BROKER: Explained(
        ("{speed} of the median's cost for the same traffic", "slower than the others"),
        "The same traffic costs the broker much more CPU than the others, so it is given nothing.",
        "Look at the machine: throttled, older, a noisy neighbour.",
    ),
    Reason.TARGET_OVER_LIMIT: Explained(
        ("every target would go over one of its limits",),
        "No broker could take what would have to go and stay within its own limits.",
        "Add brokers, or raise the limit.",
        ("weighted.cpu_threshold_pct", "weighted.bandwidth_threshold_pct"),
    ),
}  # fmt: skip

REASON_TABLE: Mapping[Reason, Explained] = MappingProxyType({**_NORMAL, **_THROTTLED, **_CONFIG, **_HARD})
