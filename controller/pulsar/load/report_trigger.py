"""When a Pulsar broker publishes its load: needBrokerDataUpdate of both managers, and the extensible one's tombstones.

The caller passes the time, in ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.channel.states import ServiceUnitState
from controller.pulsar.load.extensible import BrokerLoadData

MINUTE_MS = 60_000
TOMBSTONE_DELAY_MS = 10_000  # minimum time between two tombstones of a broker's load entry
S = ServiceUnitState


@dataclass(frozen=True, slots=True)
class Reported:
    """The figures compared with the last report. `usage`: of the fullest resource, as a fraction.

    The modular manager weights the resources (getMaxResourceUsageWithWeight), the extensible one does not.
    """

    usage: float = 0.0
    msg_rate: float = 0.0  # messages/s in + out
    throughput: float = 0.0  # bytes/s in + out
    bundles: int = 0


def of_load(data: BrokerLoadData) -> Reported:
    """The figures that the extensible manager compares."""
    return Reported(data.max_resource_usage, data.msg_rate, data.msg_throughput, data.bundle_count)


def percent_change(old: float, new: float) -> float:
    """The change in percent of the old value. From 0 to 0 it is 0, from 0 to anything else infinite."""
    if old == 0:
        return 0.0 if new == 0 else math.inf
    return 100.0 * abs((old - new) / old)


def largest_change(last: Reported, current: Reported) -> float:
    """The largest of the changes: of usage in percentage points, of everything else in percent of the old value."""
    return max(
        100.0 * abs(last.usage - current.usage),
        percent_change(last.msg_rate, current.msg_rate),
        percent_change(last.throughput, current.throughput),
        percent_change(last.bundles, current.bundles),
    )


def needs_report(
    last: Reported, current: Reported, since_last_ms: int, knobs: PulsarKnobs, force: bool = False
) -> bool:
    """Whether to publish: when forced, when the last report is too old, or when a change exceeds the threshold."""
    if force or since_last_ms > knobs.load_balancer_report_update_max_interval_minutes * MINUTE_MS:
        return True
    return largest_change(last, current) > knobs.load_balancer_report_update_threshold_percentage


def clears_load(
    state: ServiceUnitState, source: str | None, destination: str | None, broker: str, failed: bool = False
) -> bool:
    """Whether this event of the channel makes the broker drop its own averages and tombstone its entry.

    A bundle that it releases, splits or acquires changes its load at once. A failed event changes nothing.
    """
    if failed:
        return False
    if state in (S.RELEASING, S.SPLITTING):
        return source == broker
    return state is S.OWNED and destination == broker


def may_tombstone(last_tombstone_ms: int, now_ms: int, delay_ms: int = TOMBSTONE_DELAY_MS) -> bool:
    """Whether the entry may be tombstoned again. The local data is cleared either way."""
    return now_ms - last_tombstone_ms >= delay_ms
