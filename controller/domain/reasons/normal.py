"""Band 1xx: the normal reasons for moving a bundle, splitting it, or leaving a broker alone."""

from __future__ import annotations

from collections.abc import Mapping

from controller.domain.decision import Reason
from controller.domain.reasons.explained import NO_ACTION, Explained

_LEVEL = ("steady.tolerance", "shedding.overloaded_threshold_pct", "shedding.difference_points")
_DECIDES = "Nothing, while splits are welcome; raise the limit if such bundles are fine."

NORMAL: Mapping[Reason, Explained] = {
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
        "The broker is at or above the overload threshold, or over one of its limits, so it sheds bundles.",
        "Nothing, if moves follow; add brokers if it comes back round after round.",
        ("shedding.overloaded_threshold_pct", "weighted.cpu_threshold_pct", "pulsar.loadBalancerBrokerLoadTargetStd"),
        "Overloaded",
    ),
    Reason.ABOVE_MEAN: Explained(
        ("{gap_points} points above {partner}", "at {score} against {mean} on average",
         "at {history}, more than {threshold} above the mean", "above the mean"),
        "The broker has had more than its share of the load for long enough, so it sheds bundles.",
        "Nothing; raise the tolerance if moves for such differences are not wanted.",
        (*_LEVEL, "pulsar.loadBalancerMsgRateDifferenceShedderThreshold"),
    ),
    Reason.UNDERLOADED: Explained(
        ("the target has far less than its share; the source is at {score}", "the target has far less than its share"),
        "An idle broker, as after a start, receives bundles from brokers above the level.",
        NO_ACTION,
        ("steady.tolerance", "pulsar.lowerBoundarySheddingEnabled"),
        "Underloaded",
    ),
    Reason.ORPHANED: Explained(
        ("the broker that had it is gone",),
        "The bundle's owner is gone: its lease expired, it left, or it came back as a new process.",
        "Nothing; look after the broker that is gone.",
        ("control.lease_ms",),
    ),
    Reason.FIRST_LOOKUP: Explained(
        ("looked up for the first time",),
        "A client looked up a topic of a bundle without an owner, so the bundle was assigned.",
        NO_ACTION,
    ),
    Reason.COMMANDED: Explained(
        ("an operator's command",),
        "An operator asked for it, as by `ballast unload` or `ballast split`.",
        "`ballast journal --kind command_accepted` shows who asked, and why.",
        (),
        "Admin",
    ),
    Reason.DRAINED: Explained(
        ("the broker that has it is being emptied",),
        "The owner is drained or leaving, so it hands over all its bundles.",
        "`ballast undrain BROKER` lets it take bundles again.",
    ),
    Reason.BELOW_MINIMUM_LOAD: Explained(
        ("at {score} against {mean} on average: too little load to matter", "too little load to matter"),
        "The broker is above its share, but the whole cluster has so little load that moving it is not worth it.",
        NO_ACTION,
    ),
    Reason.OVERRIDDEN: Explained(
        ("an operator's override",),
        "A pin brings the bundle to its broker, or an avoid takes it away from one.",
        "`ballast override list` shows which; `ballast override end ID` ends it.",
    ),
    Reason.SPLIT_TOPICS: Explained(
        ("{limit_pct} of the topics that a bundle may hold", "more topics than a bundle may hold"),
        "The bundle holds too many topics, so it is split in two.", _DECIDES, ("split.max_topics",), "Topics",
    ),
    Reason.SPLIT_SESSIONS: Explained(
        ("{limit_pct} of the sessions that a bundle may have", "more sessions than a bundle may have"),
        "The bundle has too many producers and consumers, so it is split in two.", _DECIDES, ("split.max_sessions",),
        "Sessions",
    ),
    Reason.SPLIT_MSG_RATE: Explained(
        ("{limit_pct} of the messages/s that a bundle may have", "more messages/s than a bundle may have"),
        "The bundle has too many messages a second, in and out, so it is split in two.", _DECIDES,
        ("split.max_msg_rate_per_s",), "MsgRate",
    ),
    Reason.SPLIT_BANDWIDTH: Explained(
        ("{limit_pct} of the bytes/s that a bundle may have", "more bytes/s than a bundle may have"),
        "The bundle has too many bytes a second, in and out, so it is split in two.", _DECIDES,
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
        "No bundle of the broker fits anywhere as it is, so the one that makes it hot is split in two.",
        "Nothing; more bundles a namespace, or more partitions a topic, make such splits rare.",
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
        "Too many bytes are stored in the bundle's topics, so it is split in two.", _DECIDES,
        ("split.max_storage_bytes",),
    ),
    Reason.MORE_LOADED: Explained(
        ("more loaded",),
        "Another broker would have been less loaded with the bundle than this one, so it got it.", NO_ACTION,
    ),
    Reason.MORE_OF_NAMESPACE: Explained(
        ("has more bundles of the namespace",),
        "Of brokers that are about as loaded, the one with the fewest bundles of the namespace gets the bundle; where "
        "no loads are known, that is the first thing looked at.", NO_ACTION,
    ),
    Reason.MORE_BUNDLES: Explained(
        ("has more bundles",),
        "Of brokers that are equal in all else, the one with the fewest bundles gets the bundle.", NO_ACTION,
    ),
}  # fmt: skip
