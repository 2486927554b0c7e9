"""What load costs a broker: CPU per message, KiB and session, and per reconnecting client.

The defaults are those of the reference broker (100 microseconds per message, 10 per KiB). With a `spread`, every bundle
has a factor of its own for the CPU of its messages and KiB, which no report contains: producers that batch, compress or
encrypt cost a broker different amounts for the same traffic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import ConfigError
from controller.domain.load import BUNDLE_FIELDS, RESOURCES

Floats = NDArray[np.float64]

FIELD = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
RESOURCE = {name: at for at, name in enumerate(RESOURCES)}
DIGITS = 9  # to which random numbers are rounded: a libm that differs in the last bit changes nothing
_US_A_PCT = 1e4  # microseconds per second that make one percent of a core


@dataclass(frozen=True, slots=True)
class CostModel:
    """Costs per unit, CPU in microseconds. A broker without load uses `base_cpu_pct` of one core."""

    cpu_us_per_message: float = 100.0
    cpu_us_per_kib: float = 10.0
    cpu_us_per_session_s: float = 20.0
    base_cpu_pct: float = 5.0
    reconnect_cpu_ms: float = 2.0
    reconnects_per_s: float = 500.0  # that one broker accepts; other clients wait
    buffered_s: float = 0.05  # how long bytes stay in direct memory
    spread: float = 0.0  # standard deviation of the logarithm of the bundles' factors

    def __post_init__(self) -> None:
        if self.spread < 0:
            raise ConfigError(f"spread={self.spread} of costs: 0 (all bundles cost the same) or more")

    def message_us(self, message_bytes: Floats) -> Floats:
        """CPU per message in one direction."""
        return self.cpu_us_per_message + self.cpu_us_per_kib * message_bytes / 1024.0

    def draw_factors(self, bundles: int, dice: np.random.Generator) -> Floats:
        """[bundles] times the CPU that a message and a KiB cost; the median is 1."""
        return np.asarray(np.round(np.exp(self.spread * dice.standard_normal(bundles)), DIGITS), np.float64)

    def usage(self, fields: Floats, factors: Floats) -> Floats:
        """[rows x R] the usage of bundles with these fields [rows x F] and factors [rows] on a broker at full speed."""
        messages = fields[:, FIELD["msg_rate_in"]] + fields[:, FIELD["msg_rate_out"]]
        bytes_in, bytes_out = fields[:, FIELD["throughput_in"]], fields[:, FIELD["throughput_out"]]
        used = np.zeros((len(fields), len(RESOURCES)))
        work_us = messages * self.cpu_us_per_message + (bytes_in + bytes_out) / 1024.0 * self.cpu_us_per_kib
        work_us *= factors
        work_us += fields[:, FIELD["sessions"]] * self.cpu_us_per_session_s
        used[:, RESOURCE["cpu"]] = work_us / _US_A_PCT
        used[:, RESOURCE["memory"]] = fields[:, FIELD["cache_bytes"]]
        used[:, RESOURCE["direct_memory"]] = (bytes_in + bytes_out) * self.buffered_s
        used[:, RESOURCE["bandwidth_in"]] = bytes_in
        used[:, RESOURCE["bandwidth_out"]] = bytes_out
        used[:, RESOURCE["disk_io"]] = bytes_in
        return used
