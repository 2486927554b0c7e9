"""The figures of a play, from what a watch has seen. Pure.

Spread is the highest usage of a broker over the mean of those in service. A minute counts the brokers that served in
all of it. A skew is relieved at the begin of the first minute after it in which the spread is within the limit, looked
for every few seconds; a skew without relief counts as long as it was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.pulsar_compare.samples import CpuSample, Owners, Reported
from controller.domain.ids import Bundle

WITHIN = 1.25
MINUTE_S = 60.0
LIMIT_TOLERANCE = 0.01


@dataclass(frozen=True)
class Span:
    """A phase or a skew, in seconds since the begin of the play."""

    name: str
    from_s: float
    until_s: float


@dataclass(frozen=True)
class Change:
    """A bundle has another owner, or a part of it has."""

    at_s: float
    bundle: str
    source: str
    target: str


def spread(usage_pct: Mapping[str, float]) -> float | None:
    """Highest over mean; None without a broker or without load."""
    mean = sum(usage_pct.values()) / len(usage_pct) if usage_pct else 0.0
    return max(usage_pct.values()) / mean if mean > 0 else None


def usage_between(cpu: Sequence[CpuSample], from_s: float, until_s: float) -> dict[str, float]:
    """The mean usage of the brokers that are in every sample of the interval."""
    inside = [sample.usage_pct for sample in cpu if from_s < sample.at_s <= until_s]
    always = set.intersection(*(set(usage) for usage in inside)) if inside else set()
    return {name: round(sum(usage[name] for usage in inside) / len(inside), 2) for name in sorted(always)}


def minutes_of(cpu: Sequence[CpuSample], phases: Sequence[Span], minute_s: float = MINUTE_S) -> list[dict[str, object]]:
    """A row for each minute of each phase: phase, time, usage by broker, spread."""
    rows: list[dict[str, object]] = []
    for phase in phases:
        for number in range(round((phase.until_s - phase.from_s) / minute_s)):
            from_s = phase.from_s + number * minute_s
            usage = usage_between(cpu, from_s, from_s + minute_s)
            found = spread(usage)
            rows.append(
                {
                    "phase": phase.name,
                    "from_s": round(from_s),
                    "usage_pct": usage,
                    "spread": None if found is None else round(found, 3),
                }
            )
    return rows


def relief_s(cpu: Sequence[CpuSample], skew: Span, minute_s: float = MINUTE_S) -> float | None:
    """From the skew to the first minute within the limit; None without one."""
    for at_s in (sample.at_s for sample in cpu):
        if skew.from_s <= at_s and at_s + minute_s <= skew.until_s + 1:
            found = spread(usage_between(cpu, at_s, at_s + minute_s))
            if found is not None and found <= WITHIN:
                return round(at_s - skew.from_s, 1)
    return None


def changes_of(owners: Sequence[Owners], away: Sequence[Span] = ()) -> list[Change]:
    """Every change of an owner, except of bundles whose owner was away: those went by themselves.

    `away`: name of a broker, and since when it did not serve. Halves of a split bundle come from the whole's owner.
    """
    found: list[Change] = []
    known: dict[str, tuple[str, float]] = {}  # owner, and when it was seen last
    for look in owners:
        for name, broker in _listed(look):
            source, seen_s = known.get(name) or _owner_of_whole(name, known) or (broker, look.at_s)
            if source != broker and not any(a.name == source and seen_s <= a.from_s <= look.at_s for a in away):
                found.append(Change(look.at_s, name, source, broker))
            known[name] = (broker, look.at_s)
    return found


def check_reported(reported: Sequence[Reported], quota_cores: float) -> dict[str, object]:
    """Whether brokers report CPU of their own and the quota as its limit: otherwise every balancer was blind."""
    limits = sorted({cpu.limit for look in reported for cpu in look.cpu.values() if cpu.limit is not None})
    several = [look for look in reported if len(look.cpu) > 1]
    differing = sum(len({cpu.usage for cpu in look.cpu.values()}) > 1 for look in several)
    brokers = {name for look in reported for name in look.cpu}
    as_quota = bool(limits) and all(abs(limit - 100 * quota_cores) <= LIMIT_TOLERANCE * 100 for limit in limits)
    return {
        "looks": len(several),
        "looks_with_different_cpu": differing,
        "limits_pct": limits,
        "quota_pct": round(100 * quota_cores, 2),
        "brokers": sorted(brokers),
        "counts": as_quota and bool(several) and differing > len(several) / 2,
    }


def mean(values: Sequence[float]) -> float | None:
    """The mean of something, or None."""
    return sum(values) / len(values) if values else None


def _listed(look: Owners) -> Iterator[tuple[str, str]]:
    """(bundle, broker) of a look; a bundle that two brokers list, as in the midst of a move, is left for the next."""
    names = [name for bundles in look.bundles.values() for name in bundles]
    doubtful = {a for a, b in pairwise(sorted(names)) if a == b}
    for broker, bundles in look.bundles.items():
        for name in bundles:
            if name not in doubtful:
                yield name, broker


def _owner_of_whole(name: str, known: Mapping[str, tuple[str, float]]) -> tuple[str, float] | None:
    part = Bundle.parse(name)
    for other, owner in known.items():
        whole = Bundle.parse(other)
        if whole.namespace == part.namespace and whole.lower <= part.lower and part.upper <= whole.upper:
            return owner
    return None
