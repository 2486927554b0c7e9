"""The settings of strategy `weighted`: the limits above which a broker sheds, and the classes that check them.

Standard library only. None: no such limit. Thresholds are fractions of the limit that the broker reports; they do not
apply where that is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

ALL_BUILT_IN = "org.apache.pulsar.broker.load.LoadAwarenessProvider"  # the walkthrough's name for "all of them"
ALL_BUILT_IN_SHORT = "LoadAwarenessProvider"  # its other name for them


@dataclass(frozen=True, slots=True)
class WeightedSettings:
    """A broker is over a limit when its short average is above it.

    `load_awareness_providers`: dotted names of classes (`controller/policy/weighted/providers.py`), empty: all built-in
    ones; a limit applies only if one of them checks it. `offload_threshold_bytes` is compared with the stored bytes of
    the broker's bundles, which offloading to cheaper storage would remove; reports have no separate figure for it.
    `memory_threshold` applies to heap and direct memory each; off by default, since a full heap is no sign of load.
    """

    load_awareness_providers: tuple[str, ...] = ()
    max_topics_per_broker: int | None = None
    max_partitions_per_broker: int | None = None
    cpu_threshold: float | None = 0.85
    memory_threshold: float | None = None
    disk_io_threshold: float | None = 0.85
    bandwidth_threshold: float | None = 0.85  # of the card, in and out each, where no rate is given
    bandwidth_in_threshold_bytes_per_s: int | None = None
    bandwidth_out_threshold_bytes_per_s: int | None = None
    offload_threshold_bytes: int | None = None
    max_unacked_messages_per_broker: int | None = None
    max_active_rpc_queue_ms: float | None = None
    fewest_moves: bool = True  # else bundles are moved strictly by value, however many that takes
