"""The knobs of strategy `weighted`: the limits over which a broker sheds, and the classes that look at them.

Standard library only. None: no such limit. Shares are fractions of what the broker reports as its own limit; they
count for nothing where that is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

ALL_BUILT_IN = "org.apache.pulsar.broker.load.LoadAwarenessProvider"  # the walkthrough's name for "all of them"
ALL_BUILT_IN_SHORT = "LoadAwarenessProvider"  # its other name for them


@dataclass(frozen=True, slots=True)
class WeightedSettings:
    """A broker is over a limit when its short average is above it.

    `load_awareness_providers`: dotted names of classes (`controller/policy/weighted/providers.py`), empty: all built-in
    ones; only limits that one of them looks at count. `offload_threshold_bytes` is compared with the stored bytes of
    the broker's bundles, which is what offloading to cheaper storage would take away: reports have no figure of their
    own for it. `memory_threshold` holds for heap and direct memory each; no default, since a full heap is no load.
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
    fewest_moves: bool = True  # else bundles go strictly by value, however many that takes
