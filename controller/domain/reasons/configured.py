"""Band 3xx: what the configuration, the mode or an operator's override forbids."""

from __future__ import annotations

from collections.abc import Mapping

from controller.domain.decision import Reason
from controller.domain.reasons.explained import BROKER_CAPS, Explained

CONFIGURED: Mapping[Reason, Explained] = {
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
        "A split would give the namespace more bundles than it may have, counting splits in flight.",
        "Raise `split.namespace_maximum_bundles`.",
        ("split.namespace_maximum_bundles",),
    ),
    Reason.BROKER_CAP: Explained(
        ("the broker is at one of its caps",),
        "The target is at a cap on what one broker holds, or the move would go beyond one.",
        "Raise the cap, or add brokers.",
        (*BROKER_CAPS, "reference.max_bundles", "reference.max_topics"),
    ),
    Reason.BROKER_DRAINED: Explained(
        ("the broker is drained or leaves",),
        "The broker is drained or leaving: the control step empties it, and rounds leave it alone.",
        "`ballast undrain BROKER` lets it take bundles again.",
    ),
    Reason.EXCLUDED: Explained(
        ("rounds leave its namespace alone",),
        "The namespace is a system one (heartbeats, SLA monitors, `pulsar/system`) or an override excludes it.",
        "`ballast override list` shows overrides.",
        ("pulsar.loadBalancerSheddingExcludedNamespaces",),
    ),
    Reason.PINNED: Explained(
        ("pinned to its broker",),
        "An override pins the bundle.",
        "`ballast override list` shows which; `ballast override end ID` ends it.",
    ),
    Reason.FROZEN: Explained(
        ("frozen by an override",),
        "An override says that no round moves or splits the bundle.",
        "`ballast override list` shows which; `ballast override end ID` ends it.",
    ),
    Reason.AVOIDED: Explained(
        ("to be kept away from that broker",),
        "An override keeps the bundle away from the target.",
        "`ballast override list` shows which; `ballast override end ID` ends it.",
    ),
    Reason.ISOLATION: Explained(
        ("its isolation policy does not allow that broker",),
        "An isolation policy keeps the namespace away from the target; as an alarm: no allowed broker is alive.",
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
    Reason.ANOTHER_BALANCER: Explained(
        ("another balancer may act in this cluster",),
        "A broker's configuration lets Pulsar shed or split bundles by itself, so Ballast sends no orders. Two "
        "balancers would undo each other's moves.",
        "`ballast pulsar check` names broker, setting and value; `ballast pulsar adopt --apply` changes them.",
    ),
    Reason.NON_PERSISTENT: Explained(
        ("it holds non-persistent topics, which lose messages in a move",),
        "The bundle holds non-persistent topics. A move loses their messages that are under way, so rounds leave the "
        "bundle where it is.",
        "`ballast unload BUNDLE --to BROKER` moves it all the same; `pulsar_cluster.move_non_persistent` lets rounds.",
        ("pulsar_cluster.move_non_persistent",),
    ),
    Reason.RELEASED: Explained(
        ("the cluster was released, to balance itself",),
        "`ballast pulsar release` gave the cluster back to Pulsar's own balancer, so Ballast sends no orders.",
        "`ballast pulsar adopt --apply` takes it over again; `ballast status` says who released it, and when.",
    ),
    Reason.PLAN_DECLINED: Explained(
        ("an operator has declined a plan of that size",),
        "`ballast decline` dropped a plan with more moves than `rounds.approve_above`. For as long as one may wait, "
        "others of its size are held back without asking again; smaller ones are carried out.",
        "Wait, or raise `rounds.approve_above`; `ballast explain ROUND` shows who declined, and why.",
        ("rounds.approve_above", "rounds.approval_minutes"),
    ),
}  # fmt: skip
