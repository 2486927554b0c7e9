"""What a watch records. Values only; times are seconds since the begin of the play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class CpuSample:
    """Usage by broker since the sample before, in percent of the quota."""

    at_s: float
    usage_pct: Mapping[str, float]


@dataclass(frozen=True)
class Owners:
    """Bundles by broker; a broker that did not answer is missing."""

    at_s: float
    bundles: Mapping[str, Sequence[str]]


class Cpu(NamedTuple):
    """CPU as a broker reports it: percent of one core, and how much of that it may use (None: it does not say)."""

    usage: float
    limit: float | None


@dataclass(frozen=True)
class Reported:
    """What brokers report to Pulsar's balancers."""

    at_s: float
    cpu: Mapping[str, Cpu]
