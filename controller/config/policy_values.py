"""Converts configuration values for the code: percent to fractions, minutes to ms, MiB to bytes.

Step and policies get plain dataclasses (`controller.domain.settings.policy`) and never import pydantic.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from controller.config.placement_values import placement_settings
from controller.config.pulsar_names import PULSAR_NAMES
from controller.config.settings import Settings
from controller.domain.settings.agent_groups import AgentGroups
from controller.domain.settings.policy import (
    MIB,
    BrokerCaps,
    ControlSettings,
    PacingSettings,
    PolicySettings,
    ResourceWeights,
    ShedSettings,
    SplitSettings,
    SteadySettings,
)
from controller.domain.settings.pulsar import PulsarKnobs, pulsar_name
from controller.domain.settings.weighted import WeightedSettings

_PULSARS = PulsarKnobs()
_NO_LIMIT = 2**31 - 1  # Pulsar's limits cannot be empty


def resource_weights(settings: Settings) -> ResourceWeights:
    """The weights of resources in the score."""
    s = settings.shedding
    return ResourceWeights(
        cpu=s.cpu_weight,
        memory=s.memory_weight,
        direct_memory=s.direct_memory_weight,
        bandwidth_in=s.bandwidth_in_weight,
        bandwidth_out=s.bandwidth_out_weight,
        disk_io=s.disk_io_weight,
    )


def broker_caps(settings: Settings) -> BrokerCaps:
    """The caps on what a broker holds."""
    b = settings.broker
    return BrokerCaps(b.max_topics, b.max_memory, b.max_net_usage, b.max_bundles)


def shed_settings(settings: Settings) -> ShedSettings:
    """When a broker is a source, and how many moves a round makes."""
    s = settings.shedding
    return ShedSettings(
        enabled=s.enabled,
        overloaded_threshold=s.overloaded_threshold_pct / 100,
        difference=s.difference_points / 100,
        consecutive_rounds=s.consecutive_rounds,
        grace_period_ms=_minutes_to_ms(s.grace_period_minutes),
        max_moves_per_round=s.max_moves_per_round,
        target_margin=s.target_margin_pct / 100,
    )


def split_settings(settings: Settings) -> SplitSettings:
    """When a bundle is too big. A session limit of 0 or below is none, as in Pulsar."""
    s = settings.split
    return SplitSettings(
        enabled=s.enabled,
        auto_unload=s.auto_unload,
        max_topics=s.max_topics,
        max_sessions=s.max_sessions if s.max_sessions and s.max_sessions > 0 else None,
        max_msg_rate_per_s=s.max_msg_rate_per_s,
        max_bandwidth_bytes_per_s=None if s.max_bandwidth_mbytes is None else s.max_bandwidth_mbytes * MIB,
        namespace_maximum_bundles=s.namespace_maximum_bundles,
        default_number_of_namespace_bundles=s.default_number_of_namespace_bundles,
        max_storage_bytes=s.max_storage_bytes,
    )


def steady_settings(settings: Settings) -> SteadySettings:
    """The knobs of `steady`."""
    s = settings.steady
    return SteadySettings(s.tolerance, s.churn, s.budget, s.model_error)


def pacing_settings(settings: Settings) -> PacingSettings:
    """Token buckets of moves."""
    p = settings.pacing
    return PacingSettings(p.broker_moves_per_min, p.namespace_moves_per_min, p.cluster_moves_per_min)


def weighted_settings(settings: Settings) -> WeightedSettings:
    """The limits of `weighted`."""
    w = settings.weighted
    return WeightedSettings(
        load_awareness_providers=w.load_awareness_providers,
        max_topics_per_broker=w.max_topics_per_broker,
        max_partitions_per_broker=w.max_partitions_per_broker,
        cpu_threshold=_fraction(w.cpu_threshold_pct),
        memory_threshold=_fraction(w.memory_threshold_pct),
        disk_io_threshold=_fraction(w.disk_io_threshold_pct),
        bandwidth_threshold=_fraction(w.bandwidth_threshold_pct),
        bandwidth_in_threshold_bytes_per_s=w.bandwidth_in_threshold,
        bandwidth_out_threshold_bytes_per_s=w.bandwidth_out_threshold,
        offload_threshold_bytes=w.offload_threshold,
        max_unacked_messages_per_broker=w.max_unacked_messages_per_broker,
        max_active_rpc_queue_ms=w.max_active_rpc_queue_ms,
        fewest_moves=w.fewest_moves,
    )


def pulsar_knobs(settings: Settings) -> PulsarKnobs:
    """The settings of Pulsar's strategies: every key with a Pulsar name, in Pulsar's unit.

    A key that nobody has set is Pulsar's default there, also where ours is another (bundles of a report).
    """
    values: dict[str, Any] = {}
    for knob in fields(PulsarKnobs):
        alias, definition = PULSAR_NAMES.get(pulsar_name(knob.name), (None, None))
        if alias is not None and definition is not None and settings.origin(definition.path) != "default":
            value = settings.value(definition.path)
            default = getattr(_PULSARS, knob.name)
            if isinstance(default, int | float) and not isinstance(default, bool):
                value = _NO_LIMIT if value is None else type(default)(value / alias.factor)
            values[knob.name] = value
    return PulsarKnobs(**values)


def policy_settings(settings: Settings) -> PolicySettings:
    """All settings of a round."""
    return PolicySettings(
        strategy=settings.rounds.strategy,
        challengers=settings.rounds.challengers,
        max_report_age_ms=round(settings.rounds.max_report_age_s * 1000),
        shed=shed_settings(settings),
        split=split_settings(settings),
        weights=resource_weights(settings),
        caps=broker_caps(settings),
        placement=placement_settings(settings),
        pacing=pacing_settings(settings),
        steady=steady_settings(settings),
        weighted=weighted_settings(settings),
        pulsar=pulsar_knobs(settings),
    )


def control_settings(settings: Settings) -> ControlSettings:
    """All settings of the control step."""
    c, g, r, cluster = settings.control, settings.guard, settings.rounds, settings.pulsar_cluster
    return ControlSettings(
        lease_ms=c.lease_ms,
        margin_ms=c.margin_ms,
        assign_deadline_ms=c.assign_deadline_ms,
        accept_deadline_ms=c.accept_deadline_ms,
        release_deadline_ms=c.release_deadline_ms,
        split_deadline_ms=c.split_deadline_ms,
        lag_limit_entries=c.lag_limit_entries,
        guard_min_brokers=g.min_brokers,
        guard_silent_fraction=g.silent_fraction,
        guard_window_ms=round(g.window_s * 1000),
        guard_thaw_after_ms=round(g.thaw_after_s * 1000),
        initial_mode=r.mode,
        split=split_settings(settings),
        grace_period_ms=_minutes_to_ms(settings.shedding.grace_period_minutes),
        config_version=settings.version,
        placement=placement_settings(settings),
        max_bundles=settings.broker.max_bundles,
        round_interval_ms=r.round_interval_s * 1000,
        orders_in_flight=cluster.orders_in_flight,
        orders_per_broker=cluster.orders_per_broker,
        order_back_off_ms=round(cluster.order_back_off_s * 1000),
        approve_above=r.approve_above,
        approval_ms=_minutes_to_ms(r.approval_minutes),
        overload_limit=settings.shedding.overloaded_threshold_pct / 100,
        shadow_when_missed=r.shadow_when_missed,
        agent_groups=AgentGroups.of_mapping(settings.kafka.agent_groups),
    )


def _fraction(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _minutes_to_ms(minutes: float) -> int:
    return round(minutes * 60_000)
