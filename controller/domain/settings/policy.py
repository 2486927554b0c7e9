"""Settings of the control step and the policies, as plain values. Standard library only.

Units in the code: ms, bytes, bytes/s, messages/s, fractions 0..1. Percentages, minutes and MiB are converted by the
configuration (`controller/config/policy_values.py`), which also checks ranges. The defaults are those of
`conf/ballast.yaml`; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.domain.load import RESOURCES
from controller.domain.settings.agent_groups import NO_GROUPS, AgentGroups
from controller.domain.settings.placement import PlacementSettings
from controller.domain.settings.pulsar import PulsarKnobs
from controller.domain.settings.weighted import WeightedSettings

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ResourceWeights:
    """Weight of each resource in a broker's score; 0 leaves it out. Fields are named as in `RESOURCES`."""

    cpu: float = 1.0
    memory: float = 0.0  # heap fill says more about garbage collection than about load
    direct_memory: float = 0.0
    bandwidth_in: float = 1.0
    bandwidth_out: float = 1.0
    disk_io: float = 1.0

    def in_order(self) -> tuple[float, ...]:
        """The weights in the order of `RESOURCES`, the columns of every array."""
        return tuple(float(getattr(self, name)) for name in RESOURCES)


@dataclass(frozen=True, slots=True)
class BrokerCaps:
    """The most that a broker may hold; a broker at a cap is no target. None: no cap.

    `max_bundles` counts the bundles that it owns or is about to own, according to the journal.
    `max_bundle_memory_bytes` is compared with the sum of its bundles' storage_bytes + cache_bytes,
    `max_throughput_bytes_per_s` with the sum of their throughput_in + throughput_out.
    """

    max_topics: int | None = 50_000
    max_bundle_memory_bytes: int | None = None
    max_throughput_bytes_per_s: int | None = None
    max_bundles: int | None = None


@dataclass(frozen=True, slots=True)
class ShedSettings:
    """When a broker is a source, what may be moved off it, and where to.

    A broker is a source when its score is >= `overloaded_threshold`, or >= `difference` above the mean of the
    eligible brokers, in `consecutive_rounds` rounds. A target stays below the mean + `target_margin`.
    """

    enabled: bool = True
    overloaded_threshold: float = 0.85
    difference: float = 0.10
    consecutive_rounds: int = 2
    grace_period_ms: int = 30 * 60_000
    max_moves_per_round: int = 8
    target_margin: float = 0.05


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """When a bundle is too big, and how many a namespace may have. A limit is exceeded when the value is above it.

    Rates and bandwidth are in + out. None: that limit is off.
    """

    enabled: bool = True
    auto_unload: bool = True  # the quieter half moves on, the busier one stays
    max_topics: int | None = 1_000
    max_sessions: int | None = 1_000  # producers + consumers
    max_msg_rate_per_s: float | None = 30_000.0
    max_bandwidth_bytes_per_s: float | None = 100.0 * MIB
    namespace_maximum_bundles: int = 128
    default_number_of_namespace_bundles: int = 4
    max_storage_bytes: int | None = None  # stored in all of the bundle's topics


@dataclass(frozen=True, slots=True)
class SteadySettings:
    """The three knobs of strategy `steady`, all fractions.

    `tolerance`: how far a broker may stay above the level that all would share. `churn`: the least relief of the source
    that justifies a move, as a share of that level; a bundle with many sessions needs more. `budget`: moves per round
    for each broker of the cluster.

    `model_error` is measured, not chosen: the difference of predicted and actual loads, as a share of the level
    (`ballast backtest`). A move must bring at least as much, or its effect could not be distinguished from the error.
    """

    tolerance: float = 0.06
    churn: float = 0.04
    budget: float = 1.0
    model_error: float = 0.0

    @property
    def least_relief(self) -> float:
        """What a move must take off its source, as a share of the level."""
        return max(self.churn, self.model_error)


@dataclass(frozen=True, slots=True)
class PacingSettings:
    """Rate limits in moves per minute at full pace; two minutes' worth may be made at once. None: no such limit.

    `broker_moves_per_min` counts the moves from and to a broker, those of an overloaded one half;
    `namespace_moves_per_min` counts those of its bundles.
    """

    broker_moves_per_min: int | None = 30
    namespace_moves_per_min: int | None = 120
    cluster_moves_per_min: int | None = None  # the strategy's own budget a round


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """All settings of a round."""

    strategy: str = "steady"
    challengers: tuple[str, ...] = ()
    max_report_age_ms: int = 30_000  # with an older newest report a broker is silent: neither source nor target
    shed: ShedSettings = field(default_factory=ShedSettings)
    split: SplitSettings = field(default_factory=SplitSettings)
    weights: ResourceWeights = field(default_factory=ResourceWeights)
    caps: BrokerCaps = field(default_factory=BrokerCaps)
    pacing: PacingSettings = field(default_factory=PacingSettings)
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    steady: SteadySettings = field(default_factory=SteadySettings)
    weighted: WeightedSettings = field(default_factory=WeightedSettings)
    pulsar: PulsarKnobs = field(default_factory=PulsarKnobs)  # for Pulsar's strategies, in Pulsar's units


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Settings of the control step. Times in ms of CLOCK_BOOTTIME.

    For the controller, a lease expires `lease_ms + margin_ms` after it read the last heartbeat. The `guard_*` settings
    are those of the mass-failure breaker. `config_version` is written into `controller_started`.
    """

    lease_ms: int = 6_000
    margin_ms: int = 1_000
    assign_deadline_ms: int = 5_000
    accept_deadline_ms: int = 5_000
    release_deadline_ms: int = 10_000
    split_deadline_ms: int = 15_000
    lag_limit_entries: int = 1_000  # a session further behind the journal is granted nothing
    guard_min_brokers: int = 3
    guard_silent_fraction: float = 0.4
    guard_window_ms: int = 60_000
    guard_thaw_after_ms: int = 600_000
    initial_mode: str = "shadow"
    split: SplitSettings = field(default_factory=SplitSettings)
    grace_period_ms: int = 30 * 60_000  # rounds do not move a bundle that was moved less than this ago
    config_version: str = ""
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    max_bundles: int | None = None  # of a broker; at the cap it gets an orphan only when all others are at it too
    round_interval_ms: int = 60_000  # a round's loads count for some of these intervals
    orders_in_flight: int = 8  # at most, to brokers that decide ownership themselves
    orders_per_broker: int = 2  # at most, from or to one of them
    order_back_off_ms: int = 120_000  # after an order that brought nothing; doubled after each further one
    approve_above: int | None = None  # moves: a round with more waits for an operator; None: no round does
    approval_ms: int = 600_000  # for how long
    overload_limit: float = 0.85  # moves off brokers with at least this score never wait
    shadow_when_missed: bool = False  # whether moves that bring too little end the mode live
    agent_groups: AgentGroups = NO_GROUPS
