"""Pulsar's load-balancing knobs under Pulsar's own names, defaults and units. Standard library only.

A field is Pulsar's name with underscores: `loadBalancerSheddingEnabled` is `load_balancer_shedding_enabled`. Values
stay in Pulsar's units (percent, minutes, MB = MiB), given in the comment of each knob, so that a broker.conf can be
copied. Nothing is range-checked: Pulsar does not check ranges either, and its strategies are reproduced as they are.

Source: org.apache.pulsar.broker.ServiceConfiguration of the 4.0 generation, and PIP-380 for the excluded namespaces.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

from controller.domain.errors import ConfigError

_PACKAGE = "org.apache.pulsar.broker.loadbalance"
_SPLIT_ALGORITHMS = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)
_CAPITALS = {"cpu": "CPU", "ttl": "TTL"}  # words that Pulsar writes in capitals


@dataclass(frozen=True, slots=True)
class PulsarKnobs:
    """Knobs of Pulsar's two load managers. M: the modular manager, E: the extensible one."""

    # which parts are used
    load_balancer_enabled: bool = True  # master switch
    load_manager_class_name: str = f"{_PACKAGE}.impl.ModularLoadManagerImpl"
    load_balancer_load_shedding_strategy: str = f"{_PACKAGE}.impl.ThresholdShedder"
    load_balancer_load_placement_strategy: str = f"{_PACKAGE}.impl.LeastLongTermMessageRate"
    load_balancer_debug_mode_enabled: bool = False  # also changes what TransferShedder counts as swapped back

    # shedding, both managers
    load_balancer_shedding_enabled: bool = True
    load_balancer_shedding_interval_minutes: int = 1  # minutes
    load_balancer_shedding_grace_period_minutes: int = 30  # minutes; a bundle is not shed again within
    load_balancer_shedding_excluded_namespaces: tuple[str, ...] = ()
    load_balancer_broker_overloaded_threshold_percentage: int = 85  # percent
    load_balancer_broker_underloaded_threshold_percentage: int = 50  # percent, Simple
    load_balancer_broker_comfort_load_level_percentage: int = 65  # percent, Simple
    load_balancer_history_resource_percentage: float = 0.9  # fraction 0..1 in spite of its name

    # ThresholdShedder
    load_balancer_broker_threshold_shedder_percentage: int = 10  # percent points above the mean
    load_balancer_bundle_unload_min_throughput_threshold: float = 10.0  # MB/s (MiB)
    lower_boundary_shedding_enabled: bool = False

    # UniformLoadShedder and AvgShedder
    load_balancer_msg_rate_difference_shedder_threshold: float = 50.0  # percent (max - min) / min; 0: off
    load_balancer_msg_throughput_multiplier_difference_shedder_threshold: float = 4.0  # max / min; 0: off
    min_unload_message: int = 1_000  # messages/s
    min_unload_message_throughput: int = 1_048_576  # bytes/s
    max_unload_percentage: float = 0.2  # fraction 0..1 of max - min, in spite of its name
    max_unload_bundle_num_per_shedding: int = -1  # bundles; -1: no limit
    load_balancer_avg_shedder_low_threshold: int = 15  # percent points between two brokers
    load_balancer_avg_shedder_high_threshold: int = 40  # percent points between two brokers
    load_balancer_avg_shedder_hit_count_low_threshold: int = 8  # cycles
    load_balancer_avg_shedder_hit_count_high_threshold: int = 2  # cycles

    # weights of a resource's percentage; see bandwidth_in_weight and bandwidth_out_weight for the misspelt ones
    load_balancer_bandwidth_in_resource_weight: float = 1.0
    load_balancer_bandwidth_out_resource_weight: float = 1.0
    load_balancer_bandwith_in_resource_weight: float = 1.0  # sic: Pulsar's old spelling, deprecated
    load_balancer_bandwith_out_resource_weight: float = 1.0  # sic
    load_balancer_cpu_resource_weight: float = 1.0
    load_balancer_memory_resource_weight: float = 0.0  # E only; M leaves heap out
    load_balancer_direct_memory_resource_weight: float = 0.0

    # placement and filters
    load_balancer_average_resource_usage_difference_threshold_percentage: int = 10  # percent points below the mean
    load_balancer_distribute_bundles_evenly_enabled: bool = True
    load_balancer_broker_max_topics: int = 50_000  # topics
    prefer_later_versions: bool = False
    failure_domains_enabled: bool = False

    # TransferShedder
    load_balancer_broker_load_target_std: float = 0.25  # standard deviation of load as a fraction
    load_balancer_shedding_condition_hit_count_threshold: int = 3  # cycles; must be exceeded
    load_balancer_transfer_enabled: bool = True
    load_balancer_max_number_of_broker_shedding_per_cycle: int = 3  # brokers
    load_balance_shedding_delay_in_seconds: int = 180  # seconds; sic: Pulsar's name has no "r" there
    load_balancer_broker_load_data_ttl_in_seconds: int = 1_800  # seconds
    load_balancer_shedding_bundles_with_policies_enabled: bool = False

    # splits
    load_balancer_auto_bundle_split_enabled: bool = True
    load_balancer_auto_unload_split_bundles_enabled: bool = True  # M; E ignores it
    load_balancer_namespace_bundle_max_topics: int = 1_000  # topics
    load_balancer_namespace_bundle_max_sessions: int = 1_000  # producers + consumers; <= 0: off
    load_balancer_namespace_bundle_max_msg_rate: int = 30_000  # messages/s in + out
    load_balancer_namespace_bundle_max_bandwidth_mbytes: int = 100  # MB/s (MiB) in + out
    load_balancer_namespace_maximum_bundles: int = 128  # bundles
    flow_or_qps_difference_threshold_percentage: int = 10  # percent over the limits
    supported_namespace_bundle_split_algorithms: tuple[str, ...] = _SPLIT_ALGORITHMS
    default_namespace_bundle_split_algorithm: str = "range_equally_divide"
    default_number_of_namespace_bundles: int = 4  # bundles
    load_balancer_split_interval_minutes: int = 1  # minutes, E
    load_balancer_max_number_of_bundles_to_split_per_cycle: int = 10  # bundles, E
    load_balancer_namespace_bundle_split_condition_hit_count_threshold: int = 3  # cycles, E; must be exceeded

    # reports
    load_balancer_report_update_threshold_percentage: int = 10  # percent; must be exceeded
    load_balancer_report_update_min_interval_millis: int = 5_000  # ms; the period of the check
    load_balancer_report_update_max_interval_minutes: int = 15  # minutes; reported anyway after it
    load_balancer_host_usage_check_interval_minutes: int = 1  # minutes
    load_balancer_resource_quota_update_interval_minutes: int = 15  # minutes, M
    load_balancer_max_number_of_bundles_in_bundle_load_report: int = 10  # bundles; M: times brokers, <= 0 all

    # the extensible manager's channel
    load_balancer_service_unit_state_tombstone_delay_time_in_seconds: int = 3_600  # seconds
    load_balancer_in_flight_service_unit_state_waiting_time_in_millis: int = 30_000  # ms
    load_balancer_service_unit_state_monitor_interval_in_seconds: int = 60  # seconds
    load_balancer_multi_phase_bundle_unload: bool = True
    namespace_bundle_unloading_timeout_ms: int = 60_000  # ms

    @property
    def bandwidth_in_weight(self) -> float:
        """The effective weight: the misspelt knob's where the well-spelt one is exactly 1.0, as in Pulsar's getter."""
        return _effective_weight(
            self.load_balancer_bandwidth_in_resource_weight, self.load_balancer_bandwith_in_resource_weight
        )

    @property
    def bandwidth_out_weight(self) -> float:
        """As `bandwidth_in_weight`. Surprise: 1.0 cannot be forced over a stale value under the misspelt name."""
        return _effective_weight(
            self.load_balancer_bandwidth_out_resource_weight, self.load_balancer_bandwith_out_resource_weight
        )


def pulsar_name(knob: str) -> str:
    """The camelCase name in Pulsar's broker.conf of a field of PulsarKnobs."""
    first, *rest = knob.split("_")
    return first + "".join(_CAPITALS.get(word, word.capitalize()) for word in rest)


KNOBS_BY_PULSAR_NAME: Mapping[str, str] = {pulsar_name(knob.name): knob.name for knob in fields(PulsarKnobs)}


def from_pulsar(mapping: Mapping[str, object], ignore: Collection[str] = ()) -> PulsarKnobs:
    """Knobs from Pulsar's own names and units; those not given keep Pulsar's default.

    Raises ConfigError for an unknown name that is not in `ignore`, and for a value of the wrong type.
    """
    defaults = PulsarKnobs()
    values: dict[str, object] = {}
    for name, value in mapping.items():
        knob = KNOBS_BY_PULSAR_NAME.get(name)
        if knob is not None:
            values[knob] = _check_type(name, value, getattr(defaults, knob))
        elif name not in ignore:
            raise ConfigError(f"{name!r} is no load-balancing knob of Pulsar: use the camelCase name of broker.conf")
    return PulsarKnobs(**values)  # type: ignore[arg-type]  # _check_type has given each value its field's type


def _check_type(name: str, value: object, default: object) -> object:
    """The value in the type of the knob's default; an int is accepted for a float, a whole float for an int."""
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
    elif isinstance(default, int):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
    elif isinstance(default, float):
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    elif isinstance(default, str):
        if isinstance(value, str):
            return value
    elif isinstance(value, str):  # a list as broker.conf writes it
        return tuple(item.strip() for item in value.split(",") if item.strip())
    elif isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ConfigError(f"{name} = {value!r}: it must be a value like {default!r}")


def _effective_weight(well_spelt: float, misspelt: float) -> float:
    return well_spelt if well_spelt != 1.0 else misspelt
